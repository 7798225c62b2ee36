"""What a run can be: the range of every number of a record, and the length of every text.

Records come from other people too. A value outside of these ranges is no result of any run, and it
is refused where the record enters.
"""

import re
from typing import Annotated, Any, TypeAlias

from msgspec import Meta

RECORD = 16 * 10**6
"""Bytes of a record; to read one takes up to 25 times as much memory."""
CHECKPOINT = 8 * 10**9
"""Bytes of a checkpoint. It is mapped, so this is no memory."""
TASKS = 500
"""Tasks of a stream; the accuracy matrix has the square of it."""
TRACEBACK = 100_000
"""Characters that are kept of a traceback."""
ERROR = 2_000
"""Characters that are kept of an error."""
SENTENCE = 20_000
"""Characters that are printed of a message, which may list many problems."""

Id: TypeAlias = Annotated[str, Meta(pattern=r"\A[0-9a-f]{12}\Z")]
Name: TypeAlias = Annotated[str, Meta(max_length=300)]
Text: TypeAlias = Annotated[str, Meta(max_length=4000)]
Long: TypeAlias = Annotated[str, Meta(max_length=200_000)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Tasks: TypeAlias = Annotated[int, Meta(ge=0, le=TASKS)]
Whole: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Number: TypeAlias = Annotated[float, Meta(ge=-1e100, le=1e100)]
"""Neither NaN nor infinity."""
Percent: TypeAlias = Annotated[float, Meta(ge=0, le=100)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=1e10)]
Value: TypeAlias = bool | Whole | Number | Text | None
"""What a hyper-parameter or a value of the protocol can be."""
Few: TypeAlias = Meta(max_length=1000)  # type: ignore[valid-type]
"""The most entries of a list or an object."""


def _plain(depth: int) -> Any:
    if not depth:
        return Value
    inside = _plain(depth - 1)
    return bool | Whole | Number | Text | None | list[inside] | dict[Name, inside]  # type: ignore


Plain: Any = _plain(6)
"""A value of `diagnostics`: plain JSON, at most this deep."""


def is_id(text: str) -> bool:
    """Whether this is the id of a run: twelve hex digits, which are safe in a path."""
    return re.fullmatch("[0-9a-f]{12}", text) is not None


def checked_id(text: str) -> str:
    """The id of a run where a path is made of it; ValueError if it is none."""
    if not is_id(text):
        raise ValueError(f"{text[:50]!r} is not the id of a run: twelve hex digits")
    return text


def tamed(text: str, keep: str = "") -> str:
    """A text that cannot steer a terminal: without control, bidi and format characters and line
    breaks, except those to `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else " " if c.isspace() else "?" for c in text)


def sentence(error: object) -> str:
    """A message as it is printed. It may quote a file, a path or an argument, of any length."""
    return tamed(cut(str(error), SENTENCE), keep="\n")


def cut(text: str, limit: int) -> str:
    """At most `limit` characters: of a longer text the middle is left out."""
    if len(text) <= limit:
        return text
    part = (limit - 10) // 2
    return f"{text[:part]} [...] {text[-part:]}"
