"""Runs -> cells: runs that differ in nothing but the seed, averaged; all others kept apart."""

import math
import statistics
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from clbench import metrics
from clbench.report.columns import COLUMNS
from clbench.report.runs import Facts, Run, canonical


@dataclass(frozen=True)
class Value:
    """A mean over the seeds of a cell, and their sample standard deviation if there are several."""

    mean: float
    std: float | None


@dataclass
class Cell:
    """One row of a table: the counted runs, and those that are only spoken of."""

    counted: list[Run] = field(default_factory=list)
    others: list[Run] = field(default_factory=list)
    mark: str = ""
    """What sets this row apart from the table's usual setting, as `key=value` texts."""
    _values: dict[str, Value | None] = field(default_factory=dict, repr=False, compare=False)

    @property
    def head(self) -> Run:
        """The run that names the row."""
        return (self.counted or self.others)[0]

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.counted]

    @property
    def name(self) -> str:
        """The method as a user types it, with what is unusual about this row."""
        return f"{self.head.method} ({self.mark})" if self.mark else self.head.method

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
        """The column's value; None unless every counted seed has one.

        Computed once: by then the cell has all its runs.
        """
        if key not in self._values:
            self._values[key] = self._compute(key)
        return self._values[key]

    def _compute(self, key: str) -> Value | None:
        numbers = [run.values[key] for run in self.counted]
        if not numbers or any(math.isnan(number) for number in numbers):
            return None
        std = statistics.stdev(numbers) if len(numbers) > 1 else None
        return Value(statistics.fmean(numbers), std)

    def values(self) -> dict[str, Value | None]:
        """All columns, shown or not."""
        return {key: self.value(key) for key in COLUMNS}

    def matrix(self) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """R averaged over the counted seeds, and its sample standard deviation if there are
        several; NaN where some seed was not evaluated."""
        return mean_and_std([metrics.accuracy_matrix(run.R) for run in self.counted])


def mean_and_std(
    arrays: list[NDArray[np.float64]],
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Elementwise mean, and sample standard deviation if there is more than one array."""
    stacked = np.stack(arrays)
    return stacked.mean(0), stacked.std(0, ddof=1) if len(arrays) > 1 else None


def group(runs: list[Run]) -> list[Cell]:
    """The cells of one benchmark, marked with what tells them apart.

    A run that failed or is unfinished joins the cell of its spec, and stands as a row without
    numbers only if no seed of that spec is done. If it failed before it opened its data, it is
    taken to have wanted the data that others of its setting used.
    """
    cells: dict[str, Cell] = {}
    for run in runs:
        if run.counted:
            cells.setdefault(run.cell, Cell()).counted.append(run)
    by_spec = {_spec(cell.head): cell for cell in reversed(cells.values())}
    seen = {canonical(c.head.setting): c.head for c in reversed(cells.values())}
    for run in runs:
        if not run.counted:
            neighbour = seen.get(canonical(run.setting))
            if not run.data and neighbour is not None:
                run = replace(run, data=neighbour.data, notes=neighbour.notes)
            cell = by_spec.setdefault(_spec(run), Cell())
            cell.others.append(run)
            cells.setdefault(cell.head.cell, cell)
    marked = list(cells.values())
    _mark(marked)
    return marked


def usual(cells: list[Cell]) -> Run:
    """A run of the setting that most of a table is about; rows are marked where they leave it.

    The benchmark's own protocol on whole data comes before what a user changed, then the setting
    with the most rows.
    """
    conditions = Counter(cell.head.condition for cell in cells)
    settings = Counter((cell.head.condition, canonical(cell.head.setting)) for cell in cells)

    def rank(cell: Cell) -> tuple[bool, bool, bool, int, int, str, str]:
        run, setting = cell.head, canonical(cell.head.setting)
        return (
            not cell.counted,
            run.protocol != "",
            bool(run.notes),
            -conditions[run.condition],
            -settings[run.condition, setting],
            run.condition,
            setting,
        )

    return min(cells, key=rank).head


def _spec(run: Run) -> str:
    return canonical([run.setting, run.learner])


def _mark(cells: list[Cell]) -> None:
    """Give every cell the words that tell it from the usual setting and from its namesakes."""
    if not cells:
        return
    normal = usual(cells)
    for cell in cells:
        words = differences(cell.head.setting, [normal.setting])
        if cell.head.data:  # a run that failed early knows nothing of its data
            words += _data_differences(cell.head, normal)
        cell.mark = ", ".join(words)
    namesakes: dict[str, list[Cell]] = {}
    for cell in cells:
        namesakes.setdefault(cell.name, []).append(cell)
    for same in namesakes.values():
        if len(same) == 1:
            continue
        for cell in same:
            rivals = [other.head.learner for other in same]
            words = [cell.mark] if cell.mark else []
            cell.mark = ", ".join(words + differences(cell.head.learner, rivals))


def differences(own: Facts, rivals: list[Facts]) -> list[str]:
    """`key=value` for every fact in which some rival differs."""
    keys = sorted({key for facts in [own, *rivals] for key in facts})
    return [
        f"{key.removeprefix('protocol.').replace('params.', '')}={_short(own.get(key, 'none'))}"
        for key in keys
        if any(rival.get(key) != own.get(key) for rival in rivals)
    ]


def _data_differences(run: Run, normal: Run) -> list[str]:
    words = []
    for name in sorted(run.data.keys() | normal.data.keys()):
        note, digest = run.notes.get(name, ""), run.data.get(name, "none")
        if note != normal.notes.get(name, "") and note:
            words.append(f"{name}: {note}")
        elif digest != normal.data.get(name, "none") or note != normal.notes.get(name, ""):
            words.append(f"{name} sha256={_short(digest)}")
    return words


def _short(value: str) -> str:
    """Checksums cut to what a person compares."""
    return value[:8] if len(value) == 64 else value
