"""The content of a figure: the rows that it may show, and its caption."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from clbench.errors import UserError
from clbench.report.rows import Row, usual
from clbench.report.runs import Run
from clbench.report.table import Table
from clbench.report.terminal import wrapped
from clbench.report.words import caption, listed, warnings

MOST = 24
"""Methods that one figure can hold and still be read."""


LINES = 5000
"""Lines that one figure can hold: about half a minute of drawing."""


@dataclass(frozen=True)
class Picture:
    """A drawn figure of one benchmark and its caption, a paragraph an item."""

    figure: Any
    caption: list[str]

    def text(self, note: str = "") -> str:
        """The caption as it is written beside the figure; a note comes after what is shown."""
        first, *rest = self.caption
        paragraphs = [first, note, *rest] if note else [first, *rest]
        lines = [line for paragraph in paragraphs for line in wrapped(paragraph)]
        return "\n".join(lines) + "\n"


class LackingError(UserError):
    """The records of one benchmark do not hold what the figure needs; others may."""


def shown_rows(
    table: Table,
    kind: str,
    *,
    tasks: int = 1,
    lines: bool = False,
    wants: Callable[[Row], bool] = lambda row: True,
    lacking: str = "",
) -> list[Row]:
    """The rows with finished runs and at least so many tasks that the figure `wants`; `lacking` is
    the sentence for a table that has none. `lines` says whether a line or more is drawn per task.
    """
    done = [row for row in table.rows if row.counted]
    if not done:
        raise LackingError(
            f"The figure {kind!r} needs finished runs, and {table.benchmark} has none yet: "
            "clbench status says how far they are."
        )
    if (most := max(row.head.tasks for row in done)) < tasks:
        raise LackingError(
            f"The figure {kind!r} needs at least {tasks} tasks, and {table.benchmark} has {most}: "
            "choose other benchmarks with --benchmarks."
        )
    shown = [row for row in done if row.head.tasks >= tasks and wants(row)]
    if not shown:
        raise LackingError(lacking)
    if len(shown) > MOST:
        raise UserError(
            f"{len(shown)} methods on {table.benchmark} are too many for one figure (at most "
            f"{MOST}): choose some with --methods."
        )
    if lines:
        bounded(sum(row.head.tasks for row in shown), table, "--methods")
    return shown


def bounded(lines: int, table: Table, option: str) -> None:
    """A UserError if nobody can wait for so many lines, or tell them apart."""
    if lines > LINES:
        raise UserError(
            f"{lines:,} lines for {table.benchmark} are too many for one figure (at most "
            f"{LINES:,}): choose less with {option}."
        )


def words(
    table: Table,
    rows: Sequence[Row],
    what: list[str],
    drawn: Sequence[str] = (),
    runs: Sequence[Run] = (),
) -> list[str]:
    """The caption: what is shown, the table's usual setting, what is not in it, and the runs.

    `drawn` are the names as the figure prints them; `runs` are those behind it if not all.
    """
    # names say how a row differs from the table's usual setting, which need not be drawn
    facts = caption(rows, usual(table.rows), what="A method", zero=False)
    paragraphs = [f"{table.name}. {' '.join(what)}", " ".join(facts)]
    for row, name in zip(rows, drawn, strict=False):
        if name != row.name:
            paragraphs.append(f"{name} is {row.name}.")
    unfinished = [row for row in table.rows if not row.counted]
    notes = warnings([*rows, *unfinished], [], table.skipped, lambda row: row.name)
    paragraphs += [f"Warning: {note}" for note in notes]
    behind = runs or [run for row in rows for run in row.counted]
    paragraphs.append(f"Runs: {', '.join(run.id for run in behind)}.")
    return paragraphs


def seeds(rows: Sequence[Row]) -> str:
    """`Means over 3 seeds (0-2).`"""
    sets = {tuple(row.seeds) for row in rows}
    if len(sets) > 1:
        counts = sorted({len(one) for one in sets})
        span = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        return f"Means over {span} seeds."
    (only,) = sets
    if len(only) == 1:
        return f"Seed {only[0]}."
    return f"Means over {len(only)} seeds ({listed(only)})."
