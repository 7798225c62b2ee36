"""Cells -> tables: one per benchmark, rows in a fixed order, with the words that belong to it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from clbench.report.cells import Cell, Value, group, usual
from clbench.report.columns import PAPER, Column, chosen
from clbench.report.paper import remarks, sources, verdict
from clbench.report.runs import Run, runs_of
from clbench.report.words import caption, warnings

MISSING = "\N{EN DASH}"
_FAMILIES = ("regularization", "structure", "memory")
_UNITS = ((3600.0, "h"), (60.0, "min"), (1.0, "s"))


@dataclass(frozen=True)
class Table:
    """Everything a renderer prints about one benchmark; it only lays out and escapes."""

    benchmark: str
    title: str
    columns: list[Column]
    cells: list[Cell]
    facts: list[str]
    """Protocol, data, machine: the plain sentences of the caption."""
    remarks: list[str]
    """What must be known about the paper's numbers, if they are shown."""
    skipped: int
    """How many records could not be read."""
    unit: tuple[float, str]
    """Seconds in the unit of the time column, and its name."""
    best: frozenset[tuple[int, str]]
    """(row, column key) of the values to print bold."""
    sources: dict[str, str]
    """Where the paper has its numbers from, each with the letter that stands for it."""

    def warnings(self, name: Callable[[Cell], str] = lambda cell: cell.name) -> list[str]:
        """What is not in the means, and why; `name` is what this format calls a row."""
        return warnings(self.cells, self.columns, self.skipped, name)

    def headings(self) -> list[str]:
        """The text over each column, from the method to the number of seeds."""
        middle = [f"time {self.unit[1]}" if c.key == "time" else c.heading for c in self.columns]
        return ["method", *middle, "seeds"]

    def value(self, cell: Cell, column: Column) -> Value | None:
        """The value in the unit of its heading."""
        value = cell.value(column.key)
        if value is None or column.key != "time":
            return value
        scale = self.unit[0]
        return Value(value.mean / scale, None if value.std is None else value.std / scale)

    def show(self, cell: Cell, column: Column, spread: str) -> str:
        """The value as text; `spread` is how a standard deviation is attached, with a {}."""
        if column in PAPER:
            return self._published(cell, column, spread)
        if column.key == "bwt" and cell.zero:
            return "Zero"
        value = self.value(cell, column)
        if value is None:
            return MISSING
        text = number(value.mean, column.decimals)
        # Memory is the same for every seed unless a method grows: then the spread is news.
        constant = column.key in ("arch", "replay", "aux") and not value.std
        if value.std is None or constant:
            return text
        return text + spread.format(number(value.std, column.decimals))

    def _published(self, cell: Cell, column: Column, spread: str) -> str:
        """What the paper has in this row, as text; its ACC ends in the letter of its source."""
        found = verdict(cell)
        if found is None:
            return MISSING
        row = found.row
        if column.key == "paper-word":
            return found.text()
        if column.key == "paper-bwt" and row.zero:
            return "Zero"
        if column.key == "paper-mb":
            parts = [f"{value:g}" for value in (row.arch, row.replay) if value is not None]
            return " + ".join(parts) or MISSING
        name = column.key.removeprefix("paper-")
        mean, std = getattr(row, name), getattr(row, f"{name}_std", None)
        if mean is None:
            return MISSING
        text = number(mean, column.decimals)
        text = text if std is None else text + spread.format(number(std, column.decimals))
        return f"{text} [{self.sources[row.source]}]" if name == "acc" else text

    def new_block(self, row: int) -> bool:
        """Whether a rule belongs above this row: another condition, or the references begin."""
        if row == 0:
            return False
        above, here = self.cells[row - 1], self.cells[row]
        return _block(above) != _block(here)


def tables(
    records: Iterable[dict[str, Any]], problems: Iterable[str] = (), **layout: Any
) -> list[Table]:
    """A table per benchmark; `layout` is what `tables_of` takes."""
    runs, unusable = runs_of(records)
    return tables_of(runs, [*problems, *unusable], **layout)


def tables_of(
    runs: list[Run],
    problems: list[str],
    *,
    columns: tuple[str, ...] = (),
    vs_paper: bool = False,
    note: str = "",
    keep: Callable[[Run], bool] = lambda run: True,
) -> list[Table]:
    """A table per benchmark from all runs that `keep` wants, benchmarks by name.

    `problems` are the sentences about files that could not be read: a table says how many, so
    that nobody takes it for complete. Runs that are not kept still serve as references. `note` is a
    sentence that each caption begins with.
    """
    by_benchmark: dict[str, list[Run]] = {}
    for run in runs:
        if keep(run):
            by_benchmark.setdefault(run.benchmark, []).append(run)
    wanted = chosen(columns, vs_paper)
    made = [
        _table(name, mine, wanted, len(problems)) for name, mine in sorted(by_benchmark.items())
    ]
    return [replace(table, facts=[note, *table.facts]) for table in made] if note else made


def number(value: float, decimals: int) -> str:
    """Fixed decimals, without the minus of a zero."""
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def best(cells: list[Cell], columns: list[Column]) -> Iterable[tuple[int, str]]:
    """The best among competitors under one condition; equal as printed means equally bold.

    Where all are equal none is best.
    """
    for column in columns:
        blocks: dict[str, dict[int, float]] = {}
        for row, cell in enumerate(cells):
            value = cell.value(column.key) if column.best else None
            if value is not None and not cell.reference:
                printed = float(number(value.mean, column.decimals))
                blocks.setdefault(cell.head.condition, {})[row] = printed * column.best
        for scores in blocks.values():
            if len(set(scores.values())) > 1:
                top = max(scores.values())
                yield from ((row, column.key) for row, score in scores.items() if score == top)


def _table(benchmark: str, runs: list[Run], columns: list[Column], skipped: int) -> Table:
    cells = group(runs)
    normal = usual(cells)
    cells.sort(key=lambda cell: _order(cell, normal))
    return Table(
        benchmark=benchmark,
        title=normal.benchmark_title,
        columns=columns,
        cells=cells,
        facts=caption(cells, normal),
        remarks=remarks(cells, PAPER[3] in columns) if PAPER[0] in columns else [],
        skipped=skipped,
        unit=_unit(cells),
        best=frozenset(best(cells, columns)),
        sources=sources(cells),
    )


def _order(cell: Cell, normal: Run) -> tuple[bool, str, bool, int, str, str, str]:
    run = cell.head
    family = _FAMILIES.index(run.family) if run.family in _FAMILIES else len(_FAMILIES)
    condition = run.condition
    return (
        condition != normal.condition,
        condition,
        cell.reference,
        family,
        run.method,
        cell.mark,
        run.id,
    )


def _block(cell: Cell) -> tuple[str, bool]:
    return cell.head.condition, cell.reference


def _unit(cells: list[Cell]) -> tuple[float, str]:
    """The largest unit in which the longest time is at least ten."""
    times = [value.mean for cell in cells if (value := cell.value("time")) is not None]
    return next(((s, name) for s, name in _UNITS if max(times, default=0.0) >= 10 * s), _UNITS[-1])
