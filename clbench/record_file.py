"""Records from and to the bytes of a file: checked once, where they enter.

`parse` gives a `Record`, or raises a `DamagedRecordError` that says what is wrong. Nothing after it
looks at raw JSON.
"""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clbench import limits
from clbench.files import read_bounded
from clbench.record import SCHEMA, Record


class DamagedRecordError(ValueError):
    """A file is not the record of a run; the text says why, and may quote the file."""

    def __init__(self, text: str) -> None:
        super().__init__(limits.cut(limits.tamed(text), 300))


_DECODER = msgspec.json.Decoder(Record)


class _Head(Struct):
    schema: int | None = None


def parse(content: bytes, run_id: str) -> Record:
    """The record in the bytes of `<run_id>.json`."""
    if not limits.is_id(run_id):
        raise DamagedRecordError("its name is not the id of a run: twelve hex digits.")
    if len(content) > limits.RECORD:
        raise DamagedRecordError(f"it has {len(content):,} bytes, more than any record.")
    try:
        escapes = b"\\" in content  # in few records; the pattern is slow
        whole = _HALF.sub(lambda found: found[1] or b"?", content) if escapes else content
        record = _decoded(whole)
        if escapes or b"\x7f" in content or not content.isascii():
            record = _tamed(record)
    except msgspec.ValidationError as error:
        raise DamagedRecordError(f"{in_words(error)}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise DamagedRecordError("it is not whole JSON (cut off, or damaged).") from None
    if record.id != run_id:
        raise DamagedRecordError(f"it is the record of run {record.id}, under another name.")
    if problem := inconsistency(record):
        raise DamagedRecordError(f"{problem}.")
    return record


def read(path: Path) -> Record:
    """The record in a file; FileNotFoundError if it is gone."""
    try:
        content = read_bounded(path, limits.RECORD)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamagedRecordError(f"it cannot be read ({error.strerror}).") from None
    return parse(content, path.stem)


def encode(record: Record) -> bytes:
    """The record as it is written; ValueError if a number is none, or the parts contradict."""
    text = json.dumps(msgspec.to_builtins(record), indent=1, allow_nan=False) + "\n"
    content = text.encode()
    parse(content, record.id)
    return content


def inconsistency(record: Record) -> str:
    """What in a record contradicts the rest of it; empty if nothing does."""
    tasks, done = record.tasks, record.done
    if done > tasks or (record.status == "done" and done != tasks):
        return f"it is {record.status} after {done} of {tasks} tasks"
    if record.status == "done" and not tasks:
        return "it is done and has no tasks"
    if len(record.R) != done or any(len(row) != tasks for row in record.R):
        return f"its R does not have {done} rows of {tasks} accuracies"
    for k, row in enumerate(record.R):
        seen = row[: k + 1]
        # joint training skips whole rows, but never the last
        if None in seen and (k == tasks - 1 or any(value is not None for value in row)):
            return f"an accuracy after task {k + 1} is missing in its R"
    for name, values in (("R0", record.R0), ("valid", record.valid)):
        if values and len(values) != tasks:
            return f"its {name} has {len(values)} values for {tasks} tasks"
    T = len(record.confusion)
    if T and (tasks != T or any(len(row) != tasks for row in record.confusion)):
        return f"its confusion is no table of {tasks} tasks"
    if record.R_given and [list(map(_known, row)) for row in record.R_given] != [
        list(map(_known, row)) for row in record.R
    ]:
        return "its R_given does not have the places of its R"
    if record.diagnostics and len(record.diagnostics) != done:
        return f"it has diagnostics of {len(record.diagnostics)} tasks, and {done} are learned"
    for name, shown in record.lays_open.items():
        if not all(_fits(entry.get(name), shown.kind) for entry in record.diagnostics):
            return f"its diagnostics have a {name!r} that is not of the kind {shown.kind!r}"
    return ""


def _fits(value: Any, kind: str) -> bool:
    if value is None or kind == "spaces":
        return True
    if kind == "number":
        return _is_number(value)
    if kind == "layers":
        return isinstance(value, list) and all(map(_is_number, value))
    return isinstance(value, dict) and all(
        task.isdecimal()
        and isinstance(row, dict)
        and "nothing" in row
        and all(map(_is_number, row.values()))
        for task, row in value.items()
    )


def _known(value: float | None) -> bool:
    return value is not None


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def in_words(error: msgspec.ValidationError) -> str:
    """msgspec's words with the place in front: `R[1][0]: expected float, got str`."""
    what, _, place = str(error).replace("`", "").partition(" - at ")
    what = what.replace("Object missing required field", "it lacks")
    what = what[:1].lower() + what[1:]
    return f"{place.removeprefix('$.')}: {what}" if place else what


# an escaped backslash or a pair of surrogates, which stay; else half a pair
_HALF = re.compile(rb"(\\\\|\\ud[89ab]..\\ud[c-f]..)|\\ud[89a-f]..", re.I)


def _tamed(record: Record) -> Record:
    """The record with texts that cannot steer a terminal, whoever wrote them."""
    traceback = record.failure.traceback if record.failure else ""
    record = msgspec.convert(_tamed_value(msgspec.to_builtins(record)), Record)
    if record.failure:
        record.failure.traceback = limits.tamed(traceback, keep="\n\t")
    return record


def _tamed_value(value: Any) -> Any:
    if isinstance(value, str):
        return limits.tamed(value)
    if isinstance(value, list):
        return [_tamed_value(each) for each in value]
    if isinstance(value, dict):
        return {limits.tamed(key): _tamed_value(each) for key, each in value.items()}
    return value


def _decoded(content: bytes) -> Record:
    """The record in JSON of schema 1 or today's; the first error if it is neither."""
    try:
        record = _DECODER.decode(content)
        if record.schema == SCHEMA:
            return record
        wrong = None
    except msgspec.ValidationError as error:
        wrong = error
    schema = msgspec.json.decode(content, type=_Head).schema
    if schema == SCHEMA:
        assert wrong is not None
        raise wrong
    if schema != 1:
        raise msgspec.ValidationError(
            "it is not a clbench record"
            if schema is None
            else f"it has schema {schema}, and this clbench reads 1 and {SCHEMA}"
        )
    from clbench.older_records import upgraded

    try:
        return msgspec.convert(upgraded(msgspec.json.decode(content)), Record)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise msgspec.ValidationError(what) from None
