"""The record of a run: one typed structure, checked once, where it enters from a file.

`parse` turns the bytes of a file into a `Record`, or raises a `DamagedRecordError` that says what
is wrong. Nothing after it looks at raw JSON. `docs/record.md` describes every field.
"""

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from clbench.labels import label, protocol_label
from clbench.memory import Count, Memory

SCHEMA = 2
"""Version of the layout. Schema 1 is read and brought up to date; any other is refused."""

Value = bool | int | float | str | None
"""What a hyper-parameter or a value of the protocol can be."""
Percent = Annotated[float, Meta(ge=0, le=100)]
Seconds = Annotated[float, Meta(ge=0, le=1e12)]


class Part(Struct, kw_only=True, omit_defaults=True, gc=False):
    """The method or the benchmark of a run."""

    name: str
    params: dict[str, Value] = msgspec.field(default_factory=dict)
    """All parameters, resolved."""
    version: int | None = None
    source: str | None = None
    """SHA-256 of the code, if it is a user's own."""


class Spec(Struct, kw_only=True, gc=False):
    """What determines the numbers of a run, with the versions of the code."""

    benchmark: Part
    method: Part
    protocol: dict[str, Value]
    """Values of the training protocol; options that are off are left out."""
    seed: Count
    threads: Count
    device: str


class Differs(Struct, kw_only=True, gc=False):
    """The values that are not the defaults: labels are made of them."""

    benchmark: dict[str, Value] = msgspec.field(default_factory=dict)
    method: dict[str, Value] = msgspec.field(default_factory=dict)
    protocol: dict[str, Value] = msgspec.field(default_factory=dict)


class Titles(Struct, kw_only=True, gc=False):
    """The names that tables print."""

    benchmark: str = ""
    method: str = ""


class Shown(Struct, kw_only=True, omit_defaults=True, gc=False):
    """How an entry of `diagnostics` is shown, and when its value deserves a warning."""

    title: str
    kind: Literal["number", "layers", "without", "spaces"]
    unit: str = ""
    below: float | None = None
    """A value after the last task, averaged over seeds, below this one causes the warning."""
    warning: str = ""
    """The sentence, with {value} in it."""
    names: list[str] = msgspec.field(default_factory=list)
    """The latent spaces, if it has any."""


class Epoch(Struct, kw_only=True, gc=False):
    """One epoch of a learning curve."""

    task: Count
    epoch: Count
    lr: float
    loss: float
    valid_loss: float
    valid_accuracy: Percent
    samples: Count = 0
    seconds: Seconds = 0.0


class Clock(Struct, kw_only=True, gc=False):
    """Seconds of a run: in all, per task, and by what they went into."""

    total: Seconds = 0.0
    train: list[Seconds] = msgspec.field(default_factory=list)
    eval: list[Seconds] = msgspec.field(default_factory=list)
    parts: dict[str, Seconds] = msgspec.field(default_factory=dict)


class DataUse(Struct, kw_only=True, gc=False):
    """The data set that a run used."""

    sha256: str
    note: str = ""
    """Empty for official, complete data."""


class Git(Struct, kw_only=True, gc=False):
    """The checkout of clbench."""

    commit: str
    dirty: bool


class Provenance(Struct, kw_only=True, gc=False):
    """Where a number came from."""

    versions: dict[str, str] = msgspec.field(default_factory=dict)
    git: Git | None = None
    host: str = ""
    platform: str = ""
    cpu: str = ""
    cores: Count | None = None
    argv: list[str] = msgspec.field(default_factory=list)


class Failure(Struct, kw_only=True, gc=False):
    """How a method failed."""

    error: str
    traceback: str


class Record(Struct, kw_only=True):
    """One run, as it stands after its last finished task."""

    schema: int = SCHEMA
    id: str
    status: Literal["partial", "done", "failed"] = "partial"
    spec: Spec
    differs: Differs = msgspec.field(default_factory=Differs)
    titles: Titles = msgspec.field(default_factory=Titles)
    family: str = ""
    zero_forgetting: bool = False
    upper_bound: bool = False
    """Intransigence is measured against runs of this method."""
    replay_size: str = ""
    """The parameter that says how many samples per class the method keeps."""
    lays_open: dict[str, Shown] = msgspec.field(default_factory=dict)
    """How entries of `diagnostics` are shown."""
    tasks: Count = 0
    done: Count = 0
    R: list[list[Percent | None]] = msgspec.field(default_factory=list)
    R0: list[Percent] = msgspec.field(default_factory=list)
    valid: list[Percent] = msgspec.field(default_factory=list)
    curve: list[Epoch] = msgspec.field(default_factory=list)
    diagnostics: list[dict[str, Any]] = msgspec.field(default_factory=list)
    memory: Memory = Memory()
    seconds: Clock = msgspec.field(default_factory=Clock)
    peak_memory: Count = 0
    data: dict[str, DataUse] = msgspec.field(default_factory=dict)
    provenance: Provenance = msgspec.field(default_factory=Provenance)
    started: str = ""
    finished: str = ""
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
    """A file is not the record of a run; the text says why."""


_DECODER = msgspec.json.Decoder(Record)


class _Head(Struct):
    schema: int | None = None


def parse(content: bytes, run_id: str) -> Record:
    """The record in the bytes of `<run_id>.json`."""
    content = _tamed(content)
    try:
        try:
            record = _DECODER.decode(content)
        except msgspec.ValidationError:
            record = _from_older(content)
        if record.schema != SCHEMA:
            record = _from_older(content)
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
        content = path.read_bytes()
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
    return type(value) in (int, float) and abs(value) < 1e300


def in_words(error: msgspec.ValidationError) -> str:
    """msgspec's words with the place in front: `R[1][0]: expected float, got str`."""
    what, _, place = str(error).replace("`", "").partition(" - at ")
    what = what.replace("Object missing required field", "it lacks")
    what = what[:1].lower() + what[1:]
    return f"{place.removeprefix('$.')}: {what}" if place else what


# an escaped backslash or a pair of surrogates, which stay; else half a pair, or an escape or a
# code of a control character that is neither tab nor newline
_CONTROL = re.compile(
    rb"(\\\\|\\ud[89ab]..\\ud[c-f]..)|\\ud[89a-f]..|\\u00(?:0[0-8b-f]|1[0-9a-f]|7f|[89][0-9a-f])"
    rb"|\\[bfr]|\x7f|\xc2[\x80-\x9f]",
    re.I,
)


def _tamed(text: bytes) -> bytes:
    """The JSON without control characters, which could steer a terminal."""
    if not any(sign in text for sign in (b"\\", b"\x7f", b"\xc2")):
        return text  # nearly every record; the pattern is slow
    return _CONTROL.sub(lambda found: found[1] or b"?", text)


def _from_older(content: bytes) -> Record:
    """A record of schema 1 as one of today; the first error if it is neither."""
    schema = msgspec.json.decode(content, type=_Head).schema
    if schema == SCHEMA:
        return _DECODER.decode(content)  # raises again what is wrong with it
    if schema != 1:
        raise msgspec.ValidationError(
            "it is not a clbench record"
            if schema is None
            else f"it has schema {schema}, and this clbench reads 1 and {SCHEMA}"
        )
    from clbench.older_records import upgraded

    try:
        return msgspec.convert(upgraded(msgspec.json.decode(content)), Record)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise msgspec.ValidationError(what) from None
