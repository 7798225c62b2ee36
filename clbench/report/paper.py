"""The numbers that the ACL paper published, and how measured rows compare with them.

`results/paper/*.toml` hold every table of the paper as printed, with footnotes and known
contradictions. A row is found by benchmark, number of tasks and method as a user types it.
"""

import functools
import importlib.resources
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from clbench.errors import UserError
from clbench.grid import make_grid
from clbench.report.rows import Row
from clbench.report.runs import Run

MAIN = ("split-mnist", "permuted-mnist", "split-cifar100", "split-miniimagenet", "five-datasets")
"""The tables of whole methods, each named after its benchmark."""
OTHER = ("ablation", "replay", "intransigence")
NEAR = 2.0
"""Published standard deviations within which a measured accuracy matches."""
POINTS = 1.0
"""Percentage points within which it does where no standard deviation is published."""
NUMBERS = ("acc", "acc_std", "bwt", "bwt_std", "arch", "replay", "intransigence")


@dataclass(frozen=True)
class Published:
    """One row of a table of the paper."""

    table: str
    title: str
    method: str
    benchmark: str
    tasks: int
    source: str
    """The paper's own source for the row."""
    acc: float | None = None
    acc_std: float | None = None
    bwt: float | None = None
    bwt_std: float | None = None
    zero: bool = False
    """BWT is given as Zero: by construction."""
    arch: float | None = None
    replay: float | None = None
    parameters: int | None = None
    """Parameters of the architecture behind the row, by the sizes that fit the paper's counts."""
    intransigence: float | None = None
    """As printed, of unclear unit; see `results/paper/intransigence.toml`."""
    note: str = ""
    also: Sequence[str] = ()
    """Other recipes of the method that the row is compared with."""


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


@functools.cache
def document(name: str) -> dict[str, Any]:
    """The content of `results/paper/NAME.toml`."""
    try:
        path = importlib.resources.files("clbench.paper") / f"{name}.toml"
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (ModuleNotFoundError, FileNotFoundError):  # results/ is also where runs go by default
        raise UserError(
            "The published numbers are missing: the folder results/paper belongs to clbench. "
            "Restore it with `git checkout results/paper`, or install clbench again."
        ) from None


def rows(name: str) -> list[Published]:
    """The rows of one table."""
    table = document(name)
    return [_row(name, table, row) for row in table["rows"]]


def _row(name: str, table: dict[str, Any], row: dict[str, Any]) -> Published:
    fields = {key: table[key] for key in ("benchmark", "tasks") if key in table} | row
    fields["source"] = table["marks"][fields.pop("mark")]
    fields["zero"] = fields.get("bwt") == "Zero"
    for key in ("acc", "bwt"):  # mean and standard deviation, or only the mean
        printed = fields.pop(key, [])
        if printed != "Zero":
            fields |= zip((key, f"{key}_std"), printed, strict=False)
    return Published(table=name, **fields)


@functools.cache
def _index(benchmark: str) -> dict[tuple[int, str], Published]:
    """Rows of a benchmark by tasks and method; main tables come before others.

    A method is labelled as its runs are: by what differs from its defaults on the benchmark.
    """
    found: dict[tuple[int, str], Published] = {}
    mine = [row for name in (*MAIN, *OTHER) for row in rows(name) if row.benchmark == benchmark]
    for row in mine:
        for method in (row.method, *row.also):
            label = make_grid(method, benchmark, [0], {})[0].labels["method"]
            known = found.setdefault((row.tasks, label), row)
            if row.intransigence is not None:  # in a table of its own
                found[row.tasks, label] = replace(known, intransigence=row.intransigence)
    return found


def published_run(run: Run, any_tasks: bool = False) -> Published | None:
    """The paper's row for a run, if it has one; with `any_tasks` else that of its shortest stream
    with another number of tasks."""
    name = run.benchmark_name
    if name not in MAIN or run.benchmark not in (name, f"{name}[tasks={run.tasks}]"):
        return None  # another stream than the paper's
    found = _index(name)
    row = found.get((run.tasks, run.method))
    if row is not None or not any_tasks:
        return row
    others = [row for (_, method), row in found.items() if method == run.method]
    return min(others, key=lambda row: row.tasks, default=None)


def verdict(row: Row) -> Verdict | None:
    """How the row compares with the paper's; None if the paper has none."""
    paper = published_run(row.head, any_tasks=True)
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
    run = row.head
    if paper.tasks != run.tasks:
        word = f"not comparable: paper has {paper.tasks} tasks"
    elif run.budget:
        word = "not comparable: other budget"
    elif run.notes:
        word = "not comparable: other data"
    return Verdict(paper, word, difference, deviations)


def sources(measured: list[Row]) -> dict[str, str]:
    """The sources that the paper names for its numbers in these rows, each with its letter."""
    found = dict.fromkeys(v.published.source for row in measured if (v := verdict(row)) is not None)
    return dict(zip(found, "abcdefghijklmnopqrstuvwxyz", strict=False))


def remarks(measured: list[Row], intransigence: bool = True) -> list[str]:
    """What a reader must know about the paper's numbers in these rows: sources, contradictions,
    and those of its intransigence only if that is shown."""
    found = {row.name: v.published for row in measured if (v := verdict(row)) is not None}
    if not found:
        return []
    papers = list(found.values())
    letters = ", ".join(f"[{letter}] {source}" for source, letter in sources(measured).items())
    own = [
        f"{name} is the row {paper.title} of {document(paper.table)['label']}."
        for name, paper in found.items()
        if paper.table in ("ablation", "replay")  # whose rows are not named after methods
    ]
    own += [f"{paper.title}: {paper.note}." for paper in papers if paper.note]
    tables = dict.fromkeys(paper.table for paper in papers)
    tables.pop("intransigence", None)
    if intransigence and any(paper.intransigence is not None for paper in papers):
        tables["intransigence"] = None
    absent = {row["title"] for name in tables for row in document(name)["rows"]}
    absent -= {paper.title for paper in papers}
    shared = [note for name in tables for note in document(name).get("notes", ())]
    shared = [note for note in shared if re.split("[:,]", note)[0] not in absent]
    remarks = " ".join(dict.fromkeys([*own, *shared]))
    return [f"Numbers of the paper: {letters}.", f"Remarks on them: {remarks}"]


def beside(row: Row) -> dict[str, Any] | None:
    """The paper's numbers for this row, and how the measured ACC compares, as plain data."""
    found = verdict(row)
    if found is None:
        return None
    names = (*NUMBERS, "zero", "source", "note")
    return {name: getattr(found.published, name) for name in names} | {
        "verdict": found.word,
        "difference": found.difference and round(found.difference, 6),
        "deviations": found.deviations and round(found.deviations, 6),
    }
