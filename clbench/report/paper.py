"""How measured rows compare with published numbers.

A table is compared with the first paper that has numbers for its stream and its scenario. There, a
row is found by its number of tasks and its method as a user types it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from clbench.errors import UserError
from clbench.labels import label
from clbench.papers import Paper, Published, shipped, streamed
from clbench.protocol import PROTOCOL_DEFAULTS, Protocol
from clbench.registry import declarations, select
from clbench.report.columns import Column, of_paper
from clbench.report.rows import Row
from clbench.report.runs import Run
from clbench.resolve import protocol_of, resolve

NEAR = 2.0
"""Published standard deviations within which a measured accuracy matches."""
POINTS = 1.0
"""Percentage points within which it does where no standard deviation is published."""
NUMBERS = (
    *("acc", "acc_std", "given", "given_std", "bwt", "bwt_std"),
    *("arch", "replay", "intransigence"),
)


@dataclass(frozen=True)
class Verdict:
    """How a measured row compares with the published one."""

    published: Published
    word: str
    """`matches`, `above`, `below`, or `not comparable: ...`."""
    difference: float | None
    """Measured minus published ACC, in points."""
    deviations: float | None
    """The same in published standard deviations."""

    def text(self) -> str:
        """`above (+0.31 pp, +2.1 sd)`."""
        if self.difference is None or self.word.startswith("not"):
            return self.word
        if self.deviations is None:
            return f"{self.word} ({self.difference:+.2f} pp)"
        return f"{self.word} ({self.difference:+.2f} pp, {self.deviations:+.1f} sd)"


@dataclass(frozen=True, eq=False)
class Versus:
    """A paper, and its rows for one stream and scenario by number of tasks and method."""

    paper: Paper
    rows: dict[tuple[int, str], Published]

    def find(self, run: Run, any_tasks: bool = False) -> Published | None:
        """The paper's row for a run, if it has one; with `any_tasks` else that of its shortest
        stream with another number of tasks."""
        row = self.rows.get((run.tasks, run.method))
        if row is not None or not any_tasks:
            return row
        others = [row for (_, method), row in self.rows.items() if method == run.method]
        return min(others, key=lambda row: row.tasks, default=None)

    def verdict(self, row: Row) -> Verdict | None:
        """How the row compares with the paper's; None if the paper has none."""
        paper = self.find(row.head, any_tasks=True)
        if paper is None:
            return None
        measured = row.value("acc")
        if paper.acc is None or measured is None:
            lacking = "no ACC published" if paper.acc is None else "no number"
            return Verdict(paper, f"not comparable: {lacking}", None, None)
        difference = measured.mean - paper.acc
        deviations = difference / paper.acc_std if paper.acc_std else None
        off = abs(deviations) / NEAR if deviations is not None else abs(difference) / POINTS
        word = "matches" if off <= 1 else "above" if difference > 0 else "below"
        if why := unlike(row.head, paper):
            word = f"not comparable: {why}"
        return Verdict(paper, word, difference, deviations)

    def columns(self, asked: Iterable[str]) -> list[Column]:
        """The columns of what the paper has of this stream; `asked` are the measured ones that a
        table shows."""
        keys = set(asked)
        has = {name for row in self.rows.values() for name in NUMBERS if _has(row, name)}
        if "given" not in keys:
            has.discard("given")
        if not any("intransigence" in key for key in keys):
            has.discard("intransigence")
        return of_paper(self.paper.cite, has, _cited(self.paper))

    def sources(self, measured: Iterable[Row]) -> dict[str, str]:
        """The sources that the paper names for its numbers in these rows, each with its letter."""
        rows = [v.published for row in measured if (v := self.verdict(row)) is not None]
        found = dict.fromkeys(row.source for row in rows if row.source)
        return dict(zip(found, "abcdefghijklmnopqrstuvwxyz", strict=False))

    def remarks(self, measured: Sequence[Row], intransigence: bool = True) -> list[str]:
        """What a reader must know about the paper's numbers in these rows: sources, setting and
        contradictions, and those of its intransigence only if that is shown."""
        found = {row.name: v.published for row in measured if (v := self.verdict(row)) is not None}
        if not found:
            return []
        rows, of = list(found.values()), self.paper.tables
        own = [
            f"{name} is the row {row.title} of {of[row.table].label or of[row.table].title}."
            for name, row in found.items()
            if of[row.table].variants
        ]
        own += [f"{row.title}: {row.note}." for row in rows if row.note]
        names = dict.fromkeys(row.table for row in rows if row.table != row.intransigence_table)
        if intransigence:
            shown = [row.intransigence_table for row in rows]
            names |= dict.fromkeys(name for name in shown if name is not None)
        tables = [of[name] for name in names]
        settings = dict.fromkeys(table.setting for table in tables if table.setting)
        absent = {_first(row.title) for table in tables for row in table.rows}
        absent -= {_first(row.title) for row in rows}
        shared = [note for table in tables for note in table.notes]
        shared = [note for note in shared if _first(note) not in absent]
        sources = self.sources(measured).items()
        parts = (
            ("Numbers of", ", ".join(f"[{letter}] {source}" for source, letter in sources), "."),
            ("Setting of", "; ".join(settings), "."),
            ("Remarks on", " ".join(dict.fromkeys([*own, *shared])), ""),
        )
        return [f"{what} {self.paper.cite}: {text}{end}" for what, text, end in parts if text]

    def beside(self, row: Row) -> dict[str, Any] | None:
        """The paper's numbers for this row, and how the measured ACC compares, as plain data."""
        found = self.verdict(row)
        if found is None:
            return None
        names = (*NUMBERS, "zero", "source", "note")
        return {"paper": self.paper.cite} | {
            name: getattr(found.published, name) for name in names
        } | {
            "verdict": found.word,
            "difference": found.difference and round(found.difference, 6),
            "deviations": found.deviations and round(found.deviations, 6),
        }  # fmt: skip


def versus(runs: Sequence[Run], papers: Sequence[Paper] | None = None) -> Versus | None:
    """What the first of the papers (by default, of all that clbench has) published for the stream
    and scenario of these runs; None if no paper did."""
    stream = stream_of(runs[0]) if runs else None
    for paper in () if stream is None else shipped() if papers is None else papers:
        if stream in paper.streams:
            return Versus(paper, _index(paper, stream, {run.method_name for run in runs}))
    return None


def stream_of(run: Run) -> tuple[str, str] | None:
    """The benchmark of a run without its number of tasks, and the scenario; None if its code is not
    today's."""
    return None if "benchmark" in run.codes else (run.stream, run.scenario)


def unpublished(runs: Sequence[Run], paper: Paper | None = None) -> str:
    """The sentence that a paper, or none of all, has numbers for the streams of these runs."""
    streams = sorted({(run.stream, run.scenario) for run in runs})
    which = "; ".join(map(streamed, streams)) or "no stream at all"
    if paper is None:
        return f"No paper has numbers for {which}. `clbench ls published` lists what there is."
    return f"{paper.name} has no numbers for {which}. It has {paper}."


def unlike(run: Run, row: Published) -> str:
    """Why a run cannot be compared with the paper's row; empty if it can."""
    if row.tasks != run.tasks:
        return f"paper has {row.tasks} tasks"
    made = PROTOCOL_DEFAULTS | run.spec.protocol
    if run.changed - row.protocol.keys() or any(made[k] != v for k, v in row.protocol.items()):
        return "other budget"
    return "other data" if run.notes else ""


def _first(text: str) -> str:
    """`A-GEM` of `A-GEM, 200` and of `A-GEM: a note on it`."""
    return re.split("[:,]", text)[0]


def _has(row: Published, name: str) -> bool:
    return getattr(row, name) is not None or (name == "bwt" and row.zero)


def _cited(paper: Paper) -> str:
    venue = f", {paper.citation.venue}" if paper.citation.venue else ""
    return f"{paper.cite}: as published in {paper.citation.title}{venue}."


def _index(
    paper: Paper, stream: tuple[str, str], own: set[str]
) -> dict[tuple[int, str], Published]:
    """The rows of a stream by tasks and method; of two, the first of the paper gives the numbers.

    A method is labelled as its runs are: by what differs from its defaults on the benchmark. `own`
    are names of methods that only the records know.
    """
    found: dict[tuple[int, str], Published] = {}
    for row in (row for row in paper.rows if row.stream == stream):
        for method in (row.method, *row.also) if row.method else ():
            place = row.tasks, _label(method, row, own)
            known = found.setdefault(place, row)
            if row.intransigence is not None:  # in a table of its own
                table = row.intransigence_table
                extra: dict[str, Any] = {
                    "intransigence": row.intransigence,
                    "intransigence_table": table,
                }
                found[place] = replace(known, **extra)
    return found


def _label(method: str, row: Published, own: set[str]) -> str:
    name, benchmark = method.partition("[")[0], row.benchmark.partition("[")[0]
    if name not in declarations("method") and name in own:
        return method
    stream = declarations("benchmark").get(benchmark)
    try:
        [(declaration, given)] = select("method", method)
        protocol = protocol_of(stream) if stream else Protocol()
        made = resolve(declaration, given, benchmark, protocol, {})
    except UserError as error:
        raise UserError(f"{row.where}: {error}") from None
    usual = made.usual_params
    return label(name, {k: v for k, v in made.params.items() if v != usual[k]})
