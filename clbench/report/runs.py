"""Records -> runs: what each record measured, and in words why one may not be counted.

A record comes from a file that anything may have written, so every key is checked here and
nothing after this module looks at raw JSON.
"""

import json
import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from clbench import metrics
from clbench.report.diagnosis import shared_cost
from clbench.report.escape import clean

Facts: TypeAlias = dict[str, str]
"""What determines a run, as flat `name -> value` texts that can be compared and shown."""

MB = 1e6
_ENCODER = json.JSONEncoder(sort_keys=True)


@dataclass(frozen=True)
class Run:
    """One record, read and measured. `fault` says why a finished run is not counted."""

    id: str
    status: str
    benchmark: str
    benchmark_name: str
    benchmark_title: str
    method: str
    method_name: str
    method_title: str
    family: str
    protocol: str
    seed: int
    tasks: int
    done: int
    zero_forgetting: bool
    learner: Facts
    setting: Facts
    data: Facts
    notes: Facts
    R: list[list[float | None]]
    capacity: list[list[float]] = field(default_factory=list)
    """Row k: the share of each layer (%) that tasks 1..k have claimed; empty if not recorded."""
    finished: str = ""
    epochs: int = 0
    """Of all tasks together."""
    values: dict[str, float] = field(default_factory=dict)
    fault: str = ""
    reference: str = ""
    """The run of joint that its intransigence is measured against."""

    @property
    def counted(self) -> bool:
        """Whether its numbers may enter a mean."""
        return self.status == "done" and not self.fault

    @property
    def budget(self) -> str:
        """What a user changed of the training protocol; threads and device are none of it."""
        items = [item for item in self.protocol.split(",") if item]
        return ",".join(i for i in items if not i.startswith(("threads=", "device=")))

    @property
    def condition(self) -> str:
        """What runs must share to be compared with one another: all but the method and the seed.

        Protocol values that a method demands for itself do not count, those a user changed do.
        """
        shared = {k: v for k, v in self.setting.items() if not k.startswith("protocol.")}
        return canonical([self.protocol, shared, self.data, self.notes])

    @property
    def per_class(self) -> int | None:
        """Samples of each class that the method keeps, if that is a parameter of it."""
        text = self.learner.get("params.per_class", "")
        return int(text) if text.isdecimal() else None

    @property
    def cell(self) -> str:
        """What runs must share to be averaged: all but the seed."""
        return canonical([self.setting, self.learner, self.data, self.notes])


def canonical(value: Any) -> str:
    """One text for one JSON value, whatever the order of its keys."""
    return _ENCODER.encode(value)


def runs_of(records: Iterable[dict[str, Any]]) -> tuple[list[Run], list[str]]:
    """All runs, in an order of their own, and a sentence for every record that is not one."""
    runs, problems = [], []
    for record in records:
        try:
            runs.append(_run(record))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            name = clean(str(record.get("id", "?")))
            what = f"{error} is missing" if isinstance(error, KeyError) else f"damaged ({error})"
            problems.append(f"Record {name} is left out: {what}.")
    runs.sort(key=lambda run: (run.benchmark, run.method, run.seed, run.id))
    return _with_intransigence(_once(runs)), sorted(problems)


def _once(runs: list[Run]) -> list[Run]:
    """The same runs; of copies of one run under several names only the first may be counted."""
    seen: dict[tuple[str, int], str] = {}
    found = []
    for run in runs:
        first = seen.setdefault((run.cell, run.seed), run.id) if run.counted else run.id
        found.append(run if first == run.id else replace(run, fault=f"it is run {first} again"))
    return found


def _run(record: dict[str, Any]) -> Run:
    spec, labels = record["spec"], record["labels"]
    titles = record.get("titles") or {}
    data = record.get("data") or {}
    setting = _flat({k: v for k, v in spec.items() if k not in ("method", "seed")})
    run = Run(
        id=clean(str(record["id"])),
        status=str(record["status"]),
        benchmark=clean(str(labels["benchmark"])),
        benchmark_name=clean(str(spec["benchmark"]["name"])),
        benchmark_title=clean(str(titles.get("benchmark") or labels["benchmark"])),
        method=clean(str(labels["method"])),
        method_name=clean(str(spec["method"]["name"])),
        method_title=clean(str(titles.get("method") or spec["method"]["name"])),
        family=clean(str(record.get("family") or "")),
        protocol=clean(str(labels["protocol"])),
        seed=int(spec["seed"]),
        tasks=int(record["tasks"]),
        done=int(record["done"]),
        zero_forgetting=record.get("zero_forgetting") is True,
        learner=_flat(spec["method"]),
        setting=setting,
        data={clean(k): clean(str(v.get("sha256") or "")) for k, v in data.items()},
        notes={clean(k): clean(str(v["note"])) for k, v in data.items() if v.get("note")},
        R=record["R"],
        capacity=_capacity(record),
        finished=str(record.get("finished") or ""),
        epochs=len(curve) if isinstance(curve := record.get("curve"), list) else 0,
    )
    if run.status not in ("done", "partial", "failed"):
        raise ValueError(f"its status is {clean(run.status)!r}")
    if run.status != "done":
        return run
    fault = _fault(run)
    return replace(run, fault=fault) if fault else replace(run, values=_values(run, record))


def _capacity(record: dict[str, Any]) -> list[list[float]]:
    """`used_capacity` after every task; empty unless all tasks have it for the same layers."""
    entries = [entry.get("used_capacity") for entry in record.get("diagnostics") or ()]
    if len(entries) != record["tasks"] or not all(isinstance(e, list) and e for e in entries):
        return []
    if len({len(entry) for entry in entries}) != 1:
        return []
    numbers = [[float(value) for value in entry] for entry in entries]
    return numbers if all(0 <= v <= 100 for row in numbers for v in row) else []


def _flat(value: Any, path: str = "") -> Facts:
    """{'a': {'b': 1}} -> {'a.b': '1'}."""
    if not isinstance(value, dict):
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 3.0 and 3 are one setting
        return {path: clean(value) if isinstance(value, str) else canonical(value)}
    facts: Facts = {}
    for key, inner in value.items():
        facts |= _flat(inner, f"{path}.{clean(str(key))}" if path else clean(str(key)))
    return facts


def _fault(run: Run) -> str:
    """Why the accuracies of a finished run cannot be used; empty if they can."""
    if run.done != run.tasks:
        return f"it is marked done after {run.done} of {run.tasks} tasks"
    if len(run.R) != run.tasks or any(len(row) != run.tasks for row in run.R):
        return f"its R is not {run.tasks} x {run.tasks}"
    for k, row in enumerate(run.R):
        # joint training skips whole rows; a gap inside a row, or in the last, is a failure
        skipped = k < run.tasks - 1 and all(value is None for value in row)
        for i, value in enumerate(row[: k + 1]):
            if not skipped and math.isnan(_number(value)):
                return f"the accuracy on task {i + 1} after task {k + 1} is not a number"
            if value is not None and not 0 <= value <= 100:
                return f"the accuracy on task {i + 1} after task {k + 1} is {value}, not a percent"
    return ""


def _values(run: Run, record: dict[str, Any]) -> dict[str, float]:
    """Column -> number; NaN for what the record does not hold, or holds damaged."""
    memory, seconds = _dict(record.get("memory")), _dict(record.get("seconds"))
    untrained = record.get("R0") or [None] * run.tasks
    curve = record.get("curve") or []
    return {
        "acc": metrics.acc(run.R),
        "bwt": metrics.bwt(run.R),
        "forgetting": metrics.forgetting(run.R),
        "fwt": _or_nan(metrics.fwt, run.R, untrained),
        "valid": _or_nan(_mean, record.get("valid") or []),
        "intransigence": math.nan,
        "mean-intransigence": math.nan,
        "intransigence-fraction": math.nan,
        "mean-intransigence-fraction": math.nan,
        "arch": _number(memory.get("architecture")) / MB,
        "replay": _number(memory.get("replay")) / MB,
        "aux": _number(memory.get("auxiliary")) / MB,
        "time": _number(seconds.get("total")),
        "epochs": _or_nan(_epochs, curve),
        "rate": _or_nan(_rate, curve, seconds.get("train") or []),
        "shared-cost": _or_nan(shared_cost, record),
    }


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _or_nan(measure: Callable[..., float], *parts: Any) -> float:
    """A number that only one column needs: a damaged part does not cost the others."""
    try:
        return measure(*parts)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return math.nan


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _epochs(curve: list[dict[str, float]]) -> float:
    """Epochs of a task, mean over the tasks that were learned."""
    return len(curve) / len({epoch["task"] for epoch in curve}) if curve else math.nan


def _rate(curve: list[dict[str, float]], seconds: list[float]) -> float:
    """Samples a second of training, all that a task costs included."""
    samples = sum(epoch.get("samples", math.nan) for epoch in curve)
    return samples / sum(seconds) if curve and sum(seconds) > 0 else math.nan


def _number(value: Any) -> float:
    """NaN for what is not there, not a number or not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    return float(value) if abs(value) <= sys.float_info.max else math.nan


def _with_intransigence(runs: list[Run]) -> list[Run]:
    """Fill in intransigence where `joint` ran under the same condition with the same seed.

    Of several, one that trained for every task (`joint[each=true]`, which alone knows a*_k for
    k < T) comes before one that trained for the last, then `joint` without parameters, then the
    newest version, then the newest run.
    """
    references: dict[tuple[str, int], Run] = {}
    joint = [run for run in runs if run.counted and run.method_name == "joint"]
    for run in sorted(joint, key=_worth):
        references[run.condition, run.seed] = run
    measured = []
    for run in runs:
        reference = references.get((run.condition, run.seed))
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
    """How good a reference a run of joint is; the id only decides between equals."""
    every_task = all(run.R[k][k] is not None for k in range(run.tasks))
    version = run.learner.get("version", "")
    number = int(version) if version.isdigit() else 0
    return every_task, run.method == "joint", number, run.finished, run.id
