"""The record of a run: one typed structure, checked once, where it enters from a file.

`parse` turns the bytes of a file into a `Record`, or raises a `DamagedRecordError` that says what
is wrong. Nothing after it looks at raw JSON. `docs/record.md` describes every field.
"""

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct

from clbench import limits
from clbench.files import read_bounded
from clbench.labels import label, protocol_label
from clbench.limits import (
    Count,
    Few,
    Id,
    Long,
    Name,
    Number,
    Percent,
    Plain,
    Seconds,
    Tasks,
    Text,
    Value,
)
from clbench.memory import Memory

SCHEMA = 2
"""Version of the layout. Schema 1 is read and brought up to date; any other is refused."""

Values = Annotated[dict[Name, Value], Few]


class Part(Struct, kw_only=True, omit_defaults=True, gc=False):
    """The method or the benchmark of a run."""

    name: Name
    params: Values = msgspec.field(default_factory=dict)
    """All parameters, resolved."""
    version: Count | None = None
    source: Name | None = None
    """SHA-256 of the code, if it is a user's own."""


class Spec(Struct, kw_only=True, gc=False):
    """What determines the numbers of a run, with the versions of the code."""

    benchmark: Part
    method: Part
    protocol: Values
    """Values of the training protocol; options that are off are left out."""
    seed: Count
    threads: Count
    device: Name


class Differs(Struct, kw_only=True, gc=False):
    """The values that are not the defaults: labels are made of them."""

    benchmark: Values = msgspec.field(default_factory=dict)
    method: Values = msgspec.field(default_factory=dict)
    protocol: Values = msgspec.field(default_factory=dict)


class Titles(Struct, kw_only=True, gc=False):
    """The names that tables print."""

    benchmark: Name = ""
    method: Name = ""


class Shown(Struct, kw_only=True, omit_defaults=True, gc=False):
    """How an entry of `diagnostics` is shown, and when its value deserves a warning."""

    title: Name
    kind: Literal["number", "layers", "without", "spaces"]
    unit: Name = ""
    below: Number | None = None
    """A value after the last task, averaged over seeds, below this one causes the warning."""
    warning: Text = ""
    """The sentence, with {value} in it."""
    names: Annotated[list[Name], Few] = msgspec.field(default_factory=list)
    """The latent spaces, if it has any."""


class Epoch(Struct, kw_only=True, gc=False):
    """One epoch of a learning curve."""

    task: Tasks
    epoch: Count
    lr: Number
    loss: Number
    valid_loss: Number
    valid_accuracy: Percent
    samples: Count = 0
    seconds: Seconds = 0.0


class Clock(Struct, kw_only=True, gc=False):
    """Seconds of a run: in all, per task, and by what they went into."""

    total: Seconds = 0.0
    train: Annotated[list[Seconds], Few] = msgspec.field(default_factory=list)
    eval: Annotated[list[Seconds], Few] = msgspec.field(default_factory=list)
    parts: Annotated[dict[Name, Seconds], Few] = msgspec.field(default_factory=dict)


class DataUse(Struct, kw_only=True, gc=False):
    """The data set that a run used."""

    sha256: Name
    note: Text = ""
    """Empty for official, complete data."""


class Git(Struct, kw_only=True, gc=False):
    """The checkout of clbench."""

    commit: Name
    dirty: bool


class Provenance(Struct, kw_only=True, gc=False):
    """Where a number came from."""

    versions: Annotated[dict[Name, Name], Few] = msgspec.field(default_factory=dict)
    git: Git | None = None
    host: Name = ""
    platform: Name = ""
    cpu: Name = ""
    cores: Count | None = None
    argv: Annotated[list[Long], Few] = msgspec.field(default_factory=list)


class Failure(Struct, kw_only=True, gc=False):
    """How a method failed."""

    error: Text
    traceback: Long


class Record(Struct, kw_only=True):
    """One run, as it stands after its last finished task."""

    schema: int = SCHEMA
    id: Id
    status: Literal["partial", "done", "failed"] = "partial"
    spec: Spec
    differs: Differs = msgspec.field(default_factory=Differs)
    titles: Titles = msgspec.field(default_factory=Titles)
    family: Name = ""
    zero_forgetting: bool = False
    upper_bound: bool = False
    """Intransigence is measured against runs of this method."""
    replay_size: Name = ""
    """The parameter that says how many samples per class the method keeps."""
    lays_open: Annotated[dict[Name, Shown], Few] = msgspec.field(default_factory=dict)
    """How entries of `diagnostics` are shown."""
    tasks: Tasks = 0
    done: Tasks = 0
    R: Annotated[list[list[Percent | None]], Few] = msgspec.field(default_factory=list)
    R0: list[Percent] = msgspec.field(default_factory=list)
    valid: list[Percent] = msgspec.field(default_factory=list)
    curve: list[Epoch] = msgspec.field(default_factory=list)
    diagnostics: Annotated[list[Annotated[dict[Name, Plain], Few]], Few] = msgspec.field(
        default_factory=list
    )
    memory: Memory = Memory()
    seconds: Clock = msgspec.field(default_factory=Clock)
    peak_memory: Count = 0
    data: Annotated[dict[Name, DataUse], Few] = msgspec.field(default_factory=dict)
    provenance: Provenance = msgspec.field(default_factory=Provenance)
    code: Annotated[dict[Name, Long], Few] = msgspec.field(default_factory=dict)
    """The source of a class that the caller handed over in Python, by `method` or `benchmark`."""
    started: Name = ""
    finished: Name = ""
    failure: Failure | None = None

    @property
    def benchmark(self) -> str:
        """The benchmark as a user types it."""
        return label(self.spec.benchmark.name, self.differs.benchmark)

    @property
    def method(self) -> str:
        """The method as a user types it."""
        return label(self.spec.method.name, self.differs.method)

    @property
    def protocol(self) -> str:
        """What the user changed of the protocol and the machine; empty for nothing."""
        return protocol_label(self.differs.protocol, self.spec.threads, self.spec.device)

    def __str__(self) -> str:
        extra = f" ({self.protocol})" if self.protocol else ""
        return f"{self.benchmark} {self.method} seed {self.spec.seed}{extra}"


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
