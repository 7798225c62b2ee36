"""Tables for a terminal: plain text in its width, with the caption and the warnings below."""

import re
import textwrap
from collections.abc import Iterable

from clbench.report.columns import MATRIX
from clbench.report.table import Table
from clbench.report.words import spread
from clbench.width import GAP, fitted_table, terminal_width

_PROSE = 100
"""Most characters in a line of prose."""
_LEAST, _MOST = 26, 50
"""Characters of a name in one line."""


def terminal(tables: Iterable[Table], width: int | None = None) -> str:
    """All tables as one text that ends in a newline, in lines of at most `width` characters (by
    default the terminal's); empty if there is none."""
    return "\n".join(render(table, width or terminal_width()) for table in tables)


def render(table: Table, width: int) -> str:
    """One table. If the columns do not fit beside each other, the rest stands below them."""
    headings = table.headings()
    values = [
        [*(table.show(row, c, " ± {}") for c in table.columns), str(len(row.counted))]
        for row in table.rows
    ]
    columns = zip(headings[1:], *values, strict=True)
    room = width - sum(GAP + max(map(len, column)) for column in columns)
    name = min(max(room, _LEAST), _MOST, width)
    rows = [[_fitted(row.name, name), *own] for row, own in zip(table.rows, values, strict=True)]
    grid = fitted_table(rows, headings, prose=(), right=headings[1:], width=width)
    formulas = [MATRIX[0], *dict.fromkeys(c.formula for c in table.columns)]
    lines = [*wrapped(table.name, width), "", grid, ""]
    for paragraph in ([spread(table.rows, "a ± b")], table.facts, formulas, table.remarks):
        lines += wrapped(" ".join(paragraph), width)
    for warning in table.warnings():
        lines += wrapped(f"Warning: {warning}", width, "  ")
    return "\n".join(lines) + "\n"


def _fitted(name: str, width: int) -> str:
    """A long name in several lines, broken after commas and spaces, so that numbers have room."""
    lines = [""]
    for piece in re.findall(r"[^, ]+[, ]*|[, ]+", name):
        if lines[-1] and len(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def wrapped(text: str, width: int = _PROSE, indent: str = "") -> list[str]:
    """The lines of a paragraph, of at most `width` and 100 characters."""
    return textwrap.wrap(
        text,
        min(width, _PROSE),
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
