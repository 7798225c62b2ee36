"""The record of a run: one typed structure. `docs/record.md` describes every field."""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Struct

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

Scenario: TypeAlias = Literal["task", "class", "domain"]
Values = Annotated[dict[Name, Value], Few]


class Part(Struct, kw_only=True, omit_defaults=True, gc=False):
    """The method or the benchmark of a run."""

    name: Name
    params: Values = msgspec.field(default_factory=dict)
    """All parameters, resolved."""
    version: Count | None = None
    source: Name | None = None
    """SHA-256 of the code, if it is a user's own."""


class Spec(Struct, kw_only=True, omit_defaults=True, gc=False):
    """What determines the numbers of a run, with the versions of the code."""

    benchmark: Part
    method: Part
    protocol: Values
    """Values of the training protocol; options that are off are left out."""
    seed: Count
    threads: Count
    device: Name
    trial: Tasks = 0
    """Of a trial of a search: the number of first tasks that it learns. Its accuracies are on
    validation data."""


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
    valid_loss: Number | None = None
    """None without validation data."""
    valid_accuracy: Percent | None = None
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
    scenario: Scenario = "task"
    tuned: Text = ""
    """How its values were tuned, in words; empty for the values that clbench declares."""
    tasks: Tasks = 0
    done: Tasks = 0
    R: Annotated[list[list[Percent | None]], Few] = msgspec.field(default_factory=list)
    R_given: Annotated[list[list[Percent | None]], Few] = msgspec.field(default_factory=list)
    """R with the task given in tests; in the scenario `class` only."""
    confusion: Annotated[list[list[Percent]], Few] = msgspec.field(default_factory=list)
    """Of the answers on each task after the last one, the share in each task's classes; in the
    scenario `class` only."""
    R0: list[Percent] = msgspec.field(default_factory=list)
    valid: list[Percent] = msgspec.field(default_factory=list)
    curve: list[Epoch] = msgspec.field(default_factory=list)
    diagnostics: Annotated[list[Annotated[dict[Name, Plain], Few]], Few] = msgspec.field(
        default_factory=list
    )
    decided: Annotated[dict[Name, Name], Few] = msgspec.field(default_factory=dict)
    """What the method's strategy decided itself instead of the protocol, in words."""
    memory: Memory = Memory()
    """After the task after which it is largest: a method may drop things after the last one."""
    memory_found: bool = False
    """Whether clbench found some of the memory itself, because the method does not count it."""
    starts_again: Text = ""
    """Why the run cannot be resumed after an interruption; empty if it can."""
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
