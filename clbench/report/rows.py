"""Runs -> rows: runs that differ in nothing but the seed, averaged; all others kept apart."""

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from clbench import metrics
from clbench.labels import label
from clbench.protocol import ADAM
from clbench.report.columns import COLUMNS
from clbench.report.escape import short
from clbench.report.runs import Facts, Key, Run

NONE = "none"
"""How the value of a fact is shown that a run does not have."""


@dataclass(frozen=True)
class Value:
    """A mean over the seeds of a row, and their sample standard deviation if there are several."""

    mean: float
    std: float | None


@dataclass
class Row:
    """One row of a table: the runs that are counted, and those that are only mentioned."""

    counted: list[Run] = field(default_factory=list)
    others: list[Run] = field(default_factory=list)
    marks: dict[str, str] = field(default_factory=dict)
    """What sets this row apart from the table's usual setting: `key=value` by fact."""
    _values: dict[str, Value | None] = field(default_factory=dict, repr=False, compare=False)

    @property
    def head(self) -> Run:
        """The run that names the row."""
        return (self.counted or self.others)[0]

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.counted]

    @property
    def mark(self) -> str:
        return short(", ".join(self.marks.values()))

    @property
    def name(self) -> str:
        """The method as a user types it, with what is unusual about this row."""
        return f"{self.head.method} ({self.mark})" if self.marks else self.head.method

    def name_without(self, parameter: str) -> str:
        """The name that rows share which differ in this parameter of the method."""
        differs = {key: value for key, value in self.head.differs.items() if key != parameter}
        marks = [mark for fact, mark in self.marks.items() if fact != f"params.{parameter}"]
        code = self.head.codes.get("method", "")
        name = short(label(self.head.method_name + code, differs))
        return f"{name} ({', '.join(marks)})" if marks else name

    @property
    def reference(self) -> bool:
        """Whether this is a bound to compare with rather than a competitor."""
        return self.head.family == "reference"

    @property
    def zero(self) -> bool:
        """Whether BWT may be printed as Zero: promised by construction, measured in every seed."""
        promised = self.head.zero_forgetting and self.value("bwt") is not None
        return promised and all(metrics.kept_everything(run.R) for run in self.counted)

    def value(self, key: str) -> Value | None:
        """The column's value, computed once; None unless every counted seed has one."""
        if key not in self._values:
            self._values[key] = mean_value([run.values[key] for run in self.counted])
        return self._values[key]

    def values(self) -> dict[str, Value | None]:
        """All columns, shown or not."""
        return {key: self.value(key) for key in COLUMNS}

    def matrix(self) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """R averaged over the counted seeds, and its sample standard deviation if there are
        several; NaN where some seed was not evaluated."""
        return mean_and_std([metrics.accuracy_matrix(run.R) for run in self.counted])


def mean_value(numbers: list[float]) -> Value | None:
    """None unless there are numbers, and each is known."""
    if not numbers or any(map(math.isnan, numbers)):
        return None
    std = statistics.stdev(numbers) if len(numbers) > 1 else None
    return Value(statistics.fmean(numbers), std)


def mean_and_std(
    arrays: list[NDArray[np.float64]],
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Elementwise mean, and sample standard deviation if there is more than one array."""
    stacked = np.stack(arrays)
    return stacked.mean(0), stacked.std(0, ddof=1) if len(arrays) > 1 else None


def group(runs: list[Run]) -> list[Row]:
    """The rows of one benchmark, marked with what tells them apart.

    A run that failed or is unfinished joins the row of its spec, and gets a row without numbers
    only if no seed of that spec is done. If it failed before it opened its data, it is taken to
    have wanted the data that others of its setting used.
    """
    rows: dict[Key, Row] = {}
    for run in runs:
        if run.counted:
            rows.setdefault(run.row, Row()).counted.append(run)
    by_spec = {row.head.row_of_spec: row for row in reversed(rows.values())}
    seen = {row.head.setting.key: row.head for row in reversed(rows.values())}
    for run in runs:
        if not run.counted:
            neighbour = seen.get(run.setting.key)
            if not run.data and neighbour is not None:
                run = replace(run, data=neighbour.data, notes=neighbour.notes)
            row = by_spec.setdefault(run.row_of_spec, Row())
            row.others.append(run)
            rows.setdefault(row.head.row, row)
    marked = list(rows.values())
    _mark(marked)
    return marked


def usual(rows: list[Row]) -> Run:
    """A run of the table's usual setting: the benchmark's own protocol on whole data comes before
    what a user changed, then the setting with the most rows."""
    conditions = Counter(row.head.condition for row in rows)
    settings = Counter((row.head.condition, row.head.setting.key) for row in rows)

    def rank(row: Row) -> tuple[bool, bool, bool, int, int, Key, str]:
        run = row.head
        changed = not row.counted, run.protocol != "", bool(run.notes)
        condition, setting = run.condition, run.setting.key
        return *changed, -conditions[condition], -settings[condition, setting], condition, setting

    return min(rows, key=rank).head


def usual_effort(rows: Sequence[Row]) -> str:
    """How the values of most rows were tuned; of equally many, those that were not come first."""
    counts = Counter(row.head.tuned for row in rows)
    return min(counts, key=lambda words: (-counts[words], words))


def _mark(rows: list[Row]) -> None:
    """Give every row the words that tell it from the usual setting and from its namesakes."""
    normal, effort = usual(rows), usual_effort(rows)
    for row in rows:
        row.marks = differences(row.head.setting, [normal.setting])
        if row.head.tuned != effort:
            row.marks["tuned"] = f"tuned: {row.head.tuned}" if row.head.tuned else "not tuned"
        row.marks |= {key: f"{_plain(key)}={value}" for key, value in row.head.decided.items()}
        if row.head.data:  # a run that failed early knows nothing of its data
            row.marks |= _data_differences(row.head, normal)
    namesakes: dict[str, list[Row]] = {}
    for row in rows:
        namesakes.setdefault(row.name, []).append(row)
    for same in namesakes.values():
        rivals = [other.head.learner for other in same]
        for row in same:
            apart = differences(row.head.learner, rivals)
            row.marks |= {fact: mark for fact, mark in apart.items() if fact not in row.marks}


_OF_AN_OPTIMIZER = {f"protocol.{name}" for name in (*ADAM, "momentum")}
_USUAL = {"protocol.optimizer": "sgd"}  # left out of a spec


def differences(own: Facts, rivals: list[Facts]) -> dict[str, str]:
    """Fact -> `key=value` for every fact in which some rival differs. A run under SGD has no values
    of Adam, and none of its own is named for them."""
    others = list({rival.key: rival for rival in rivals if rival.key != own.key}.values())
    keys = sorted({key for facts in [own, *others] for key in facts}) if others else []
    values = _USUAL | own
    return {
        key: f"{_plain(key)}={_short(values.get(key, NONE))}"
        for key in keys
        if any(rival.get(key) != own.get(key) for rival in others)
        and (key in own or key not in _OF_AN_OPTIMIZER)
    }


def _plain(fact: str) -> str:
    """`protocol.lr` -> `lr`."""
    return fact.removeprefix("protocol.").removeprefix("decided.").replace("params.", "")


def _data_differences(run: Run, normal: Run) -> dict[str, str]:
    words = {}
    for name in sorted(run.data.keys() | normal.data.keys()):
        note, digest = run.notes.get(name, ""), run.data.get(name, NONE)
        if note != normal.notes.get(name, "") and note:
            words[f"data.{name}"] = f"{name}: {note}"
        elif digest != normal.data.get(name, NONE) or note != normal.notes.get(name, ""):
            words[f"data.{name}"] = f"{name} sha256={_short(digest)}"
    return words


def _short(value: str) -> str:
    """Checksums cut to what a person compares."""
    return value[:8] if len(value) == 64 else value
