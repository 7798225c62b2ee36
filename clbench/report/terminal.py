"""Tables for a terminal: aligned plain text, with the caption and the warnings below."""

import textwrap
from collections.abc import Iterable

from tabulate import tabulate

from clbench.report.columns import MATRIX
from clbench.report.table import Table
from clbench.report.words import spread

_WIDTH = 100
_NAME = 50


def terminal(tables: Iterable[Table]) -> str:
    """All tables as one text that ends in a newline; empty if there is none."""
    return "\n".join(render(table) for table in tables)


def render(table: Table) -> str:
    """One table."""
    rows = [
        [
            _fitted(cell.name),
            *(table.show(cell, c, " ± {}") for c in table.columns),
            str(len(cell.counted)),
        ]
        for cell in table.cells
    ]
    grid = tabulate(
        rows,
        headers=table.headings(),
        tablefmt="simple",
        disable_numparse=True,
        colalign=("left", *["right"] * (len(table.columns) + 1)),
    )
    title = table.benchmark
    if table.title != table.benchmark:
        title = f"{table.title} ({table.benchmark})"
    formulas = [MATRIX[0], *dict.fromkeys(c.formula for c in table.columns)]
    lines = [title, "", *(line.rstrip() for line in grid.splitlines()), ""]
    for paragraph in ([spread(table.cells, "a ± b")], table.facts, formulas, table.remarks):
        lines += _wrapped(" ".join(paragraph))
    for warning in table.warnings():
        lines += _wrapped(f"! {warning}", "  ")
    return "\n".join(lines) + "\n"


def _fitted(name: str) -> str:
    """A very long name in several lines, so that its numbers stay in sight."""
    return "\n".join(textwrap.wrap(name, _NAME, break_on_hyphens=False)) or name


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
