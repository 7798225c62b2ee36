"""What a method or benchmark declares: its parameters, with their types and ranges, and its facts.

    class EWC(Method):
        \"\"\"Elastic Weight Consolidation.\"\"\"
        title = "EWC"                            # a fact: a plain assignment of a literal
        strength: NonNegativeFloat = 5000.0      # a parameter: annotated, with a literal default
        \"\"\"Weight of the quadratic penalty.\"\"\"

`clbench.reading` reads a declaration from a file without importing it; `declared` takes it from a
class that is imported.
"""

import ast
import dataclasses
import functools
import hashlib
import math
import sys
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin
from weakref import WeakKeyDictionary

from clbench import provenance
from clbench.code import Code, code_of
from clbench.errors import UserError, unknown
from clbench.limits import TASKS


class Range(NamedTuple):
    """The allowed values of a number."""

    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    """`low` itself is not allowed."""


# Types of parameters. To a type checker they are int and float; here they carry their range.
PositiveInt: TypeAlias = Annotated[int, Range(1)]
NonNegativeInt: TypeAlias = Annotated[int, Range(0)]
PositiveFloat: TypeAlias = Annotated[float, Range(0, above=True)]
NonNegativeFloat: TypeAlias = Annotated[float, Range(0)]
Fraction: TypeAlias = Annotated[float, Range(0, 1)]

TYPES: dict[str, Any] = {
    **{plain.__name__: plain for plain in (int, float, bool, str)},
    "PositiveInt": PositiveInt,
    "NonNegativeInt": NonNegativeInt,
    "PositiveFloat": PositiveFloat,
    "NonNegativeFloat": NonNegativeFloat,
    "Fraction": Fraction,
}
_Values: TypeAlias = dict[str, int | float | bool | str | None]
META: dict[str, Any] = {
    **dict.fromkeys(
        ("name", "title", "family", "paper", "backbone", "replay_size", "scenario"), str
    ),
    **dict.fromkeys(("zero_forgetting", "upper_bound", "own_network", "needs_validation"), bool),
    **dict.fromkeys(("backbones", "datasets", "added", "scenarios"), tuple[str, ...]),
    "version": int,
    "zero_forgetting_if": _Values,
    "protocol": _Values,
    "fixed": dict[str, str],
    "search": dict[str, str],
    "unseen": dict[str, str],
    "tuned": dict[str, _Values],
    "acts_with": dict[str, _Values],
    "presets": dict[str, dict[str, _Values]],
    "lays_open": dict[str, Any],
}
"""Facts that clbench reads from a class, and their types."""
MOST = 2**63
"""No whole number may be as large."""
DEFINED: WeakKeyDictionary[type[Any], tuple[str, int]] = WeakKeyDictionary()
"""The file and line of every method and benchmark class."""
_SWITCH = dict.fromkeys(("true", "yes", "on", "1"), True)
_SWITCH |= dict.fromkeys(("false", "no", "off", "0"), False)


@dataclass(frozen=True)
class Field:
    """One parameter: its type, range, default and one-line doc."""

    name: str
    type: type
    range: Range
    choices: tuple[Any, ...]
    optional: bool
    default: Any
    doc: str

    @classmethod
    def of(cls, name: str, annotation: Any, default: Any, doc: str, where: str) -> "Field":
        """The field that an annotation means; text is an annotation as it stands in a file."""
        kind = _annotation(annotation) if isinstance(annotation, str) else annotation
        optional = get_origin(kind) in (Union, types.UnionType) and type(None) in get_args(kind)
        if optional:
            [kind] = set(get_args(kind)) - {type(None)}
        choices: tuple[Any, ...] = ()
        within = Range()
        if get_origin(kind) is Annotated:
            kind, *notes = get_args(kind)
            within = next((note for note in notes if isinstance(note, Range)), within)
        if get_origin(kind) is Literal:
            choices = get_args(kind)
            kind = type(choices[0]) if choices else None
        if kind not in (int, float, bool, str):
            known = ", ".join(TYPES)
            raise UserError(f"{where}: the type of {name} must be one of {known} or Literal[...].")
        if name == "tasks" and kind is int:
            within = within._replace(high=min(within.high, TASKS))
        field = cls(name, kind, within, choices, optional, default, doc)
        return replace(field, default=field.check(default, where))

    def parse(self, text: str, where: str) -> Any:
        """The value that `text` means; a UserError says what is allowed."""
        if self.optional and text.lower() == "none":
            return None
        try:
            value = _SWITCH[text.lower()] if self.type is bool else self.type(text)
        except (KeyError, ValueError):
            raise UserError(f"{where}: {self.name}={text} is not {self.expected}.") from None
        return self.check(value, where)

    def check(self, value: Any, where: str) -> Any:
        """`value` with the field's type; a UserError if its type or range is wrong."""
        if value is None and self.optional:
            return None
        if type(value) is int and abs(value) >= MOST:
            raise UserError(f"{where}: {self.name} is a number of more than 64 bits.")
        if self.type is float and type(value) is int:
            value = float(value)
        right = type(value) is self.type and (not self.choices or value in self.choices)
        if right and self.type in (int, float):
            low, high, above = self.range
            inside = low < value if above else low <= value
            right = inside and value <= high and abs(value) != math.inf
        if not right:
            raise UserError(f"{where}: {self.name}={value} is not {self.expected}.")
        return value

    @property
    def expected(self) -> str:
        """The allowed values, in words."""
        if self.choices:
            return "one of " + ", ".join(map(str, self.choices))
        word = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
        words = word[self.type]
        low, high, above = self.range
        if low != -math.inf:
            words += f" {'above' if above else 'of at least'} {low:g}"
        if high != math.inf:
            words += f" and at most {high:g}"
        return words + (" or none" if self.optional else "")


@dataclass(frozen=True)
class Declaration:
    """Everything that one method or benchmark declares."""

    kind: str
    """`method` or `benchmark`."""
    name: str
    path: Path
    class_name: str
    module: str
    """Dotted name to import; empty for a file that the user named, and for a pickled class."""
    doc: str
    fields: dict[str, Field]
    meta: dict[str, Any]
    sha256: str = ""
    """Of the file, as it was read; what is imported must have it too."""
    source: str = dataclasses.field(default="", repr=False)
    """The code of a class of a notebook or a script, for which no file can be imported."""
    payload: bytes = dataclasses.field(default=b"", repr=False)
    """That class, pickled by value."""
    distribution: str = ""
    """Name and version of the distribution whose entry point it is."""

    @property
    def title(self) -> str:
        return str(self.meta.get("title") or self.name)

    @property
    def version(self) -> int:
        return int(self.meta.get("version", 1))

    @functools.cached_property
    def code(self) -> Code:
        """The files that make it, as they are when this is first asked for. A UserError if its own
        file has changed since it was read."""
        if self.payload:
            return Code()
        found = code_of(self.path, self.module, self.distribution, provenance.changed_modules())
        own = dict(found.modules).get(self.module or self.path.stem, self.sha256)
        if self.sha256 and own != self.sha256:
            raise changed_since(self.path)
        return found

    @property
    def digest(self) -> str:
        """SHA-256 of its code; empty for clbench's own, whose version tells what it is."""
        if self.source:
            return hashlib.sha256(self.source.encode()).hexdigest()
        return self.code.digest

    def values(self, given: dict[str, str]) -> dict[str, Any]:
        """Typed values of the text that a user wrote in brackets."""
        self.require(given)
        return {key: self.fields[key].parse(text, self.name) for key, text in given.items()}

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Typed values of what came from Python or from a record."""
        self.require(given)
        return {key: self.fields[key].check(value, self.name) for key, value in given.items()}

    def require(self, names: Iterable[str]) -> None:
        """A UserError, with a suggestion, unless all names are parameters."""
        for name in names:
            if name not in self.fields:
                hint = "" if self.fields else "It has none."
                raise unknown(f"parameter of {self.name}", name, self.fields, hint)

    @property
    def defaults(self) -> dict[str, Any]:
        return {name: field.default for name, field in self.fields.items()}


def changed_since(path: Path) -> UserError:
    """The error for code that was edited while a command was using it: a record that names one code
    must not have the numbers of another."""
    return UserError(f"{path} has changed since this command read it; run the command again.")


def cannot_forget(facts: Mapping[str, Any], params: Mapping[str, Any]) -> bool:
    """Whether a method with these values of its parameters forgets nothing, by construction;
    `facts` are its `zero_forgetting` and `zero_forgetting_if`, like `Declaration.meta`."""
    any_of = facts.get("zero_forgetting_if", {}).items()
    return facts.get("zero_forgetting", False) or any(params[key] == value for key, value in any_of)


def declared(cls: type[Any]) -> Declaration:
    """What a live method class declares, without the docs of its parameters."""
    where = f"{cls.__module__}.{cls.__qualname__}"
    fields = {
        f.name: Field.of(f.name, f.type, f.default, "", where) for f in dataclasses.fields(cls)
    }
    meta = {key: value for key in META if key not in fields and (value := getattr(cls, key, None))}
    name = str(meta.get("name") or cls.__name__)
    return Declaration(
        "method", name, Path(where), cls.__name__, "", cls.__doc__ or "", fields, meta
    )


def note_definition(cls: type[Any]) -> None:
    """Remember the file and line of the class statement that is being executed; Python keeps no
    file for a class in a notebook."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") != cls.__module__:
        frame = frame.f_back
    DEFINED[cls] = (frame.f_code.co_filename, frame.f_lineno) if frame else ("", 0)


def _annotation(text: str) -> Any:
    """The type that `PositiveInt | None`, `Literal["a", "b"]` and the like mean; None if unknown.

    The names are those of clbench, however the file imports them.
    """
    node = ast.parse(text, mode="eval").body
    found: Any
    optional = isinstance(node, ast.BinOp) and ast.unparse(node.right) == "None"
    inner = node.left if isinstance(node, ast.BinOp) and optional else node
    if isinstance(inner, ast.Subscript) and ast.unparse(inner.value).endswith("Literal"):
        try:
            found = Literal[ast.literal_eval(inner.slice)]
        except (ValueError, TypeError):  # no plain values
            return None
    else:
        found = TYPES.get(ast.unparse(inner).rpartition(".")[2])
    return found | None if optional and found is not None else found
