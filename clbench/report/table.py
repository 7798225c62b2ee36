"""Rows -> tables: one per benchmark, rows in a fixed order, with the words that belong to it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from clbench.papers import Paper
from clbench.record import Record
from clbench.report.columns import Column, chosen
from clbench.report.paper import Versus, unpublished, versus
from clbench.report.rows import Row, Value, group, usual
from clbench.report.runs import Key, Run, runs_of
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
    rows: list[Row]
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
    versus: Versus | None
    """The published numbers for the stream and scenario, shown or not; None if there are none."""
    sources: dict[str, str]
    """Where the paper has its numbers from, each with the letter that stands for it."""

    @property
    def name(self) -> str:
        """The title, and the benchmark as a user types it."""
        if self.title == self.benchmark:
            return self.title
        return f"{self.title} ({self.benchmark})"

    def warnings(self, name: Callable[[Row], str] = lambda row: row.name) -> list[str]:
        """The warnings under the table; `name` gives the name of a row in this format."""
        return warnings(self.rows, self.columns, self.skipped, name)

    def headings(self) -> list[str]:
        """The text over each column, from the method to the number of seeds."""
        middle = [f"time {self.unit[1]}" if c.key == "time" else c.heading for c in self.columns]
        return ["method", *middle, "seeds"]

    def value(self, row: Row, column: Column) -> Value | None:
        """The value in the unit of its heading."""
        value = row.value(column.key)
        if value is None or column.key != "time":
            return value
        scale = self.unit[0]
        return Value(value.mean / scale, None if value.std is None else value.std / scale)

    def show(self, row: Row, column: Column, spread: str) -> str:
        """The value as text; `spread` is how a standard deviation is attached, with a {}."""
        if column.published:
            return self._published(row, column, spread)
        if column.key == "bwt" and row.zero:
            return "Zero"
        value = self.value(row, column)
        if value is None:
            return MISSING
        # Memory is the same for every seed unless a method grows: then the spread is news.
        constant = column.key in ("arch", "replay", "aux") and not value.std
        return _text(value.mean, None if constant else value.std, column, spread)

    def _published(self, row: Row, column: Column, spread: str) -> str:
        """What the paper has in this row, as text; its ACC ends in the letter of its source."""
        found = self.versus.verdict(row) if self.versus else None
        if found is None:
            return MISSING
        paper = found.published
        if column.key == "paper-word":
            return found.text()
        if column.key == "paper-bwt" and paper.zero:
            return "Zero"
        if column.key == "paper-mb":
            parts = [f"{value:g}" for value in (paper.arch, paper.replay) if value is not None]
            return " + ".join(parts) or MISSING
        name = column.key.removeprefix("paper-")
        mean, std = getattr(paper, name), getattr(paper, f"{name}_std", None)
        if mean is None:
            return MISSING
        text = _text(mean, std, column, spread)
        letter = self.sources.get(paper.source) if name == "acc" else None
        return f"{text} [{letter}]" if letter else text

    def new_block(self, number: int) -> bool:
        """Whether a rule belongs above this row: another condition, or the references begin."""
        above, row = self.rows[max(number - 1, 0)], self.rows[number]
        return (above.head.condition, above.reference) != (row.head.condition, row.reference)


def tables(records: Iterable[Record], problems: Iterable[str] = (), **layout: Any) -> list[Table]:
    """A table per benchmark; `layout` is what `tables_of` takes."""
    return tables_of(runs_of(records), list(problems), **layout)


def tables_of(
    runs: list[Run],
    problems: list[str],
    *,
    columns: tuple[str, ...] = (),
    vs_paper: bool = False,
    papers: Sequence[Paper] | None = None,
    note: str = "",
    keep: Callable[[Run], bool] = lambda run: True,
) -> list[Table]:
    """A table per benchmark from all runs that `keep` wants, benchmarks by name.

    A table says how many files could not be read (`problems`). Runs that are not kept still serve
    as references. With `vs_paper` it shows the numbers of the first of the `papers` (by default, of
    all that clbench has) that has some for its stream. Each caption begins with `note`.
    """
    by_benchmark: dict[str, list[Run]] = {}
    for run in runs:
        if keep(run):
            by_benchmark.setdefault(run.benchmark, []).append(run)
    notes = [note] if note else []
    return [
        _table(name, mine, columns, vs_paper, papers, len(problems), notes)
        for name, mine in sorted(by_benchmark.items())
    ]


def lacking(made: list[Table], papers: Sequence[Paper] | None = None) -> str:
    """The sentence that no published number stands beside any row; empty if some does."""
    if any(table.versus for table in made):
        return ""
    runs = [row.head for table in made for row in table.rows]
    return unpublished(runs, papers[0] if papers else None)


def number(value: float, decimals: int) -> str:
    """Fixed decimals, without the minus of a zero."""
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _text(mean: float, std: float | None, column: Column, spread: str) -> str:
    text = number(mean, column.decimals)
    return text if std is None else text + spread.format(number(std, column.decimals))


def best(rows: list[Row], columns: list[Column]) -> Iterable[tuple[int, str]]:
    """The best of the competitors under one condition, as printed; none where all are equal."""
    for column in columns:
        blocks: dict[Key, dict[int, float]] = {}
        for at, row in enumerate(rows):
            value = row.value(column.key) if column.best else None
            if value is not None and not row.reference:
                printed = float(number(value.mean, column.decimals))
                blocks.setdefault(row.head.condition, {})[at] = printed * column.best
        for scores in blocks.values():
            if len(set(scores.values())) > 1:
                top = max(scores.values())
                yield from ((at, column.key) for at, score in scores.items() if score == top)


def _table(
    benchmark: str,
    runs: list[Run],
    extra: tuple[str, ...],
    vs_paper: bool,
    papers: Sequence[Paper] | None,
    skipped: int,
    notes: list[str],
) -> Table:
    rows = group(runs)
    normal = usual(rows)
    rows.sort(key=lambda row: _order(row, normal))
    columns = chosen(extra, runs[0].scenario)
    beside = versus(runs, papers)
    shown = beside if vs_paper else None
    published = shown.columns(column.key for column in columns) if shown else []
    intransigence = any(column.key == "paper-intransigence" for column in published)
    return Table(
        benchmark=benchmark,
        title=normal.benchmark_title,
        columns=columns + published,
        rows=rows,
        facts=[*notes, *caption(rows, normal)],
        remarks=shown.remarks(rows, intransigence) if shown else [],
        skipped=skipped,
        unit=_unit(rows),
        best=frozenset(best(rows, columns)),
        versus=beside,
        sources=beside.sources(rows) if beside else {},
    )


def _order(row: Row, normal: Run) -> tuple[bool, Key, bool, int, str, str, str]:
    run = row.head
    family = _FAMILIES.index(run.family) if run.family in _FAMILIES else len(_FAMILIES)
    other = run.condition != normal.condition
    return other, run.condition, row.reference, family, run.method, row.mark, run.id


def _unit(rows: list[Row]) -> tuple[float, str]:
    """The largest unit in which the longest time is at least ten."""
    times = [value.mean for row in rows if (value := row.value("time")) is not None]
    return next(((s, name) for s, name in _UNITS if max(times, default=0.0) >= 10 * s), _UNITS[-1])
