"""Records -> runs: what each record measured, and which runs can be averaged or compared."""

import functools
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import msgspec

from clbench import metrics
from clbench.editions import Editions, Made
from clbench.labels import label, protocol_label, text
from clbench.record import Provenance, Record, Shown, Spec, Value
from clbench.report.escape import clean, short

MB = 1e6
_MOST = 1e15
"""Nothing that a report shows is as large; means and squares of less are finite."""
_SHOWN = 60  # characters of a version or a name of a machine
Key: TypeAlias = tuple[str, ...]
Known: TypeAlias = Callable[[set[tuple[str, str]]], Mapping[Any, Any]]
"""The codes of today, as `clbench.editions.today` gives them."""


class Facts(dict[str, str]):
    """What a run was made with, as flat `name -> value` texts that can be compared and shown."""

    @functools.cached_property
    def key(self) -> str:
        """The same text for the same facts, whatever their order."""
        return json.dumps(self, sort_keys=True)

    @functools.cached_property
    def without_protocol(self) -> "Facts":
        return Facts((k, v) for k, v in self.items() if not k.startswith("protocol."))


@dataclass(frozen=True)
class Run:
    """One record, measured. `fault` says why a finished run is not counted."""

    id: str
    status: str
    benchmark: str
    benchmark_name: str
    benchmark_title: str
    stream: str
    """The benchmark as a user types it, without its number of tasks and its scenario."""
    method: str
    method_name: str
    method_title: str
    family: str
    protocol: str
    """What the user changed of the training protocol, the threads and the device."""
    budget: str
    """What the user changed of the training protocol alone."""
    changed: frozenset[str]
    """The names of those values."""
    seed: int
    scenario: str
    tasks: int
    done: int
    zero_forgetting: bool
    upper_bound: bool
    spec: Spec
    learner: Facts
    """The method of the spec."""
    setting: Facts
    """The rest of the spec, without the seed."""
    data: Facts
    notes: Facts
    R: list[list[float | None]]
    confusion: list[list[float]]
    """Of the answers on each task at the end, the percentage in each task's classes."""
    differs: dict[str, Value]
    """Parameters of the method that are not the defaults."""
    replay_size: str
    """The parameter that says how many samples per class the method keeps."""
    kept: int | None
    """Its value."""
    lays_open: dict[str, Shown]
    decided: Facts
    """What the method's strategy decided instead of the protocol."""
    memory_found: bool
    """Whether clbench found some of the memory itself."""
    finished: str
    origin: Facts
    """Versions and hardware that it was made with, as far as they are known."""
    epochs: int
    """Of all tasks together."""
    values: dict[str, float] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    """After the last task: entries of `diagnostics` that are one number."""
    layers: dict[str, list[list[float]]] = field(default_factory=dict)
    """Entries of `diagnostics` with a number per layer: a row per task."""
    fault: str = ""
    last: str = ""
    """When it finished a task, or else began."""
    codes: dict[str, str] = field(default_factory=dict)
    """By `method` or `benchmark`: the mark of an earlier code, like `@3f2a`."""
    hidden: frozenset[str] = frozenset()
    """Those of which earlier code is shown only if it is asked for."""
    tuned: str = ""
    """How its values were tuned, in words; empty for the values that clbench declares."""
    reference: str = ""
    """The run that its intransigence is measured against."""

    def made(self, kind: str) -> Made:
        """What a selection looks at."""
        part = self.spec.method if kind == "method" else self.spec.benchmark
        label = self.method if kind == "method" else self.benchmark
        name = self.method_name if kind == "method" else self.benchmark_name
        return Made(name, label, part, self.family, kind in self.hidden)

    @property
    def counted(self) -> bool:
        """Whether its numbers may enter a mean."""
        return self.status == "done" and not self.fault

    @property
    def condition(self) -> Key:
        """What runs must share to be compared with one another: all but the method and the seed.

        Protocol values that a method demands for itself do not count, those a user changed do.
        """
        return self.protocol, self.setting.without_protocol.key, self.data.key, self.notes.key

    @property
    def row(self) -> Key:
        """What runs must share to be averaged: all but the seed."""
        return *self.row_of_spec, self.data.key, self.notes.key

    @property
    def row_of_spec(self) -> Key:
        """The same without the data, which a run that failed early does not know."""
        return self.setting.key, self.learner.key


def nothing(names: set[tuple[str, str]]) -> dict[Any, Any]:
    """No code of today is known."""
    return {}


def runs_of(records: Iterable[Record], known: Known = nothing, trials: bool = False) -> list[Run]:
    """All runs, by benchmark, method, seed and id, without the `trials` of a search unless they are
    asked for. `known` gives the code of today by kind and
    name, where it is known; where it is not, that of the newest run counts as today's."""
    wanted = (record for record in records if trials or not record.spec.trial)
    runs = _marked(list(map(_run, wanted)), known)
    runs.sort(key=lambda r: (r.benchmark, r.method, r.seed, r.id))
    return _with_intransigence(_once(runs))


def _marked(runs: list[Run], known: Known) -> list[Run]:
    """The same runs; those of earlier code have it in their names."""
    seen = [
        (kind, part, run.spec.benchmark.name, run.last)
        for run in runs
        for kind, part in (("method", run.spec.method), ("benchmark", run.spec.benchmark))
    ]
    editions = Editions.of(seen, known({(kind, part.name) for kind, part, _, _ in seen}))
    return [_with_marks(run, editions) for run in runs]


def _with_marks(run: Run, editions: Editions) -> Run:
    parts = {"method": run.spec.method, "benchmark": run.spec.benchmark}
    marks = {kind: m for kind, part in parts.items() if (m := editions.mark(kind, part))}
    if not marks:
        return run
    where = run.spec.benchmark.name
    hidden = frozenset(kind for kind in marks if editions.hidden(kind, parts[kind], where))
    names = {"method": run.method_name, "benchmark": run.benchmark_name}
    labels = {"method": run.method, "benchmark": run.benchmark}
    for kind, mark in marks.items():  # `mine[x=1]` -> `mine@3f2a[x=1]`
        labels[kind] = short(names[kind] + mark + labels[kind].removeprefix(names[kind]))
    method, benchmark = labels["method"], labels["benchmark"]
    return replace(run, method=method, benchmark=benchmark, codes=marks, hidden=hidden)


def _once(runs: list[Run]) -> list[Run]:
    """The same runs; of copies of one run under several ids only the first is counted."""
    seen: dict[tuple[Key, int], str] = {}
    found = []
    for run in runs:
        first = seen.setdefault((run.row, run.seed), run.id) if run.counted else run.id
        found.append(run if first == run.id else replace(run, fault=f"it is run {first} again"))
    return found


def _facts_of(part: object) -> Facts:
    """`{"protocol": {"lr": 0.1}}` -> `protocol.lr: 0.1`."""
    return _facts(msgspec.json.encode(part))


@functools.lru_cache(10_000)  # many runs have them in common
def _facts(part: bytes) -> Facts:
    return Facts(_flat(msgspec.json.decode(part)))


def _flat(value: object, path: str = "") -> Iterable[tuple[str, str]]:
    if not isinstance(value, dict):
        yield path, short(text(value))
        return
    for key, inner in value.items():
        yield from _flat(inner, f"{path}.{clean(key)}" if path else clean(key))


@functools.lru_cache(10_000)
def _origin(provenance: bytes) -> Facts:
    made = msgspec.json.decode(provenance, type=Provenance)
    commit = (
        f"{made.git.commit[:12]}{' with changes' if made.git.dirty else ''}" if made.git else ""
    )
    known = made.versions | {"clbench commit": commit, "host": made.host, "processor": made.cpu}
    return Facts((clean(name), value) for name, text in known.items() if (value := clean(text)))


def made_with(runs: Iterable[Run], apart: bool = False) -> str:
    """`torch 2.14 and 2.15; host a`: versions and hardware of all runs, or only those that are
    `apart`, which differ between them. What a record does not know is no difference."""
    values: dict[str, set[str]] = {}
    for run in runs:
        for name, value in run.origin.items():
            values.setdefault(name, set()).add(value)
    return short(
        "; ".join(
            f"{name} {_several(sorted(found))}"
            for name, found in sorted(values.items())
            if len(found) > apart
        )
    )


def _several(values: list[str]) -> str:
    shown = [value[:_SHOWN] for value in values]
    if len(shown) > 4:
        shown[3:] = [f"{len(shown) - 3} more"]
    *most, last = shown
    return f"{', '.join(most)} and {last}" if most else last


@functools.lru_cache(10_000)
def _lays_open(entries: bytes) -> dict[str, Shown]:
    found = msgspec.json.decode(entries, type=dict[str, Shown])
    for shown in found.values():
        shown.title, shown.unit = clean(shown.title), clean(shown.unit)
        shown.warning = short(shown.warning)
        shown.names = [clean(name) for name in shown.names]
    return found


def _run(record: Record) -> Run:
    spec, differs = record.spec, record.differs
    benchmark, method = short(record.benchmark), short(record.method)
    kept = spec.method.params.get(record.replay_size)
    whole, tuned = record.status == "done" and not spec.trial, short(record.tuned)
    setting = {key: getattr(spec, key) for key in ("benchmark", "protocol", "threads", "device")}
    return Run(
        id=clean(record.id),
        status=record.status,
        benchmark=benchmark,
        benchmark_name=short(spec.benchmark.name),
        benchmark_title=short(record.titles.benchmark) or benchmark,
        stream=short(label(spec.benchmark.name, _without(differs.benchmark))),
        method=method,
        method_name=short(spec.method.name),
        method_title=short(record.titles.method or spec.method.name),
        family=short(record.family),
        protocol=short(record.protocol),
        budget=short(protocol_label(differs.protocol, 1, "cpu")),
        changed=frozenset(differs.protocol),
        seed=spec.seed,
        scenario=record.scenario,
        tasks=record.tasks,
        done=record.done,
        zero_forgetting=record.zero_forgetting,
        upper_bound=record.upper_bound,
        spec=spec,
        learner=Facts(
            _facts_of(spec.method)
            | _facts_of({"decided": record.decided})
            | ({"tuned": tuned} if tuned else {})
        ),
        setting=_facts_of(setting),
        data=_facts_of({name: used.sha256 for name, used in record.data.items()}),
        notes=_facts_of({name: used.note for name, used in record.data.items() if used.note}),
        R=record.R,
        confusion=record.confusion,
        differs=differs.method,
        replay_size=record.replay_size,
        kept=kept if type(kept) is int else None,
        lays_open=_lays_open(msgspec.json.encode(record.lays_open)),
        decided=_facts_of({"decided": record.decided}),
        memory_found=record.memory_found,
        finished=record.finished,
        last=record.finished or record.started,
        origin=_origin(msgspec.json.encode(record.provenance)),
        epochs=len(record.curve),
        values=_values(record) if whole else {},
        numbers=_numbers(record) if whole else {},
        layers=_layers(record) if whole else {},
        tuned=tuned,
        fault="it is a trial of a search, tested on validation data" if spec.trial else "",
    )


def _without(benchmark: Mapping[str, Value]) -> dict[str, Value]:
    return {k: v for k, v in benchmark.items() if k not in ("tasks", "scenario")}


def _numbers(record: Record) -> dict[str, float]:
    keys = [key for key, shown in record.lays_open.items() if shown.kind == "number"]
    last = record.diagnostics[-1] if record.diagnostics else {}
    return {key: float(last[key]) for key in keys if last.get(key) is not None}


def _layers(record: Record) -> dict[str, list[list[float]]]:
    """Entries that every task has, for the same number of layers."""
    found = {}
    for key, shown in record.lays_open.items():
        if shown.kind == "layers":
            rows = [entry.get(key) or [] for entry in record.diagnostics]
            sane = all(abs(value) < _MOST for row in rows for value in row)
            if rows and rows[0] and len({len(row) for row in rows}) == 1 and sane:
                found[key] = [[float(value) for value in row] for row in rows]
    return found


def _values(record: Record) -> dict[str, float]:
    """Column -> number; NaN for what the record does not hold."""
    R, memory, curve = metrics.accuracy_matrix(record.R), record.memory, record.curve
    samples = sum(epoch.samples for epoch in curve)
    train = sum(record.seconds.train)
    counted = MB if memory.architecture else math.nan  # a network without a byte was not counted
    values = {
        "acc": metrics.acc(R),
        "average": metrics.average_incremental(R),
        "given": metrics.acc(record.R_given) if record.R_given else math.nan,
        "bwt": metrics.bwt(R),
        "forgetting": metrics.forgetting(R),
        "fwt": metrics.fwt(R, record.R0) if record.R0 else math.nan,
        "valid": sum(record.valid) / len(record.valid) if record.valid else math.nan,
        "intransigence": math.nan,
        "mean-intransigence": math.nan,
        "intransigence-fraction": math.nan,
        "mean-intransigence-fraction": math.nan,
        "arch": memory.architecture / counted,
        "replay": memory.replay / counted,
        "aux": memory.auxiliary / counted,
        "time": record.seconds.total or math.nan,
        "epochs": len(curve) / len({epoch.task for epoch in curve}) if curve else math.nan,
        "rate": samples / train if samples and train else math.nan,
    }
    return {key: value if abs(value) < _MOST else math.nan for key, value in values.items()}


def _with_intransigence(runs: list[Run]) -> list[Run]:
    """Fill in intransigence where an upper bound ran under the same condition with the same seed.

    Of several, one that was tested after every task (which alone knows a*_k for k < T) comes
    before one that was tested after the last, then one without parameters, then the newest
    version, then the newest run.
    """
    references: dict[tuple[Key, int], Run] = {}
    bounds = (run for run in runs if run.counted and run.upper_bound and not run.hidden)
    for run in sorted(bounds, key=_worth):
        references[run.condition, run.seed] = run
    measured = []
    for run in runs:
        reference = references.get((run.condition, run.seed)) if references else None
        if run.counted and reference is not None and reference.tasks == run.tasks:
            best = [reference.R[k][k] for k in range(run.tasks)]
            each = metrics.intransigence(run.R, best)
            points = {"intransigence": float(each[-1]), "mean-intransigence": float(each.mean())}
            fractions = {f"{key}-fraction": value / 100 for key, value in points.items()}
            values = run.values | points | fractions
            run = replace(run, values=values, reference=reference.id)
        measured.append(run)
    return measured


def _worth(run: Run) -> tuple[bool, bool, int, str, str]:
    """How good a reference a run is; the id only decides between equals."""
    every_task = all(run.R[k][k] is not None for k in range(run.tasks))
    version = int(run.learner.get("version", "0"))
    return every_task, not run.differs, version, run.finished, run.id
