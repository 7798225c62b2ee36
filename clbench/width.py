"""Tables that fit the terminal: prose wraps, numbers and names never break."""

import re
import shutil
import textwrap
from collections.abc import Collection, Sequence
from itertools import zip_longest

NARROWEST = 20
"""Characters that a column of prose gets at least, if its text has as many."""
GAP = 2
"""Spaces between two columns."""


def terminal_width() -> int:
    """The width of the terminal, or $COLUMNS if set. A pipe is unlimited: one line per row."""
    return shutil.get_terminal_size(fallback=(100_000, 24)).columns


def fitted_table(
    rows: Sequence[Sequence[object]],
    headers: Sequence[str],
    *,
    prose: Collection[str],
    right: Collection[str] = frozenset(),
    width: int | None = None,
) -> str:
    """A table of at most `width` characters per line, by default the terminal's width.

    The columns named in `prose` wrap between words and after the slashes of a path. They share
    the width that the other columns leave. If even that is too wide, each row becomes a block with
    one line per column. A table without prose is cut into tables that repeat the first column.
    The columns named in `right` are aligned to the right.
    """
    cells = [[str(value) for value in row] for row in rows]
    width = width or terminal_width()
    columns = [[header, *column] for header, *column in zip(headers, *cells, strict=True)]
    wanted = [max(len(line) for cell in c for line in cell.split("\n")) for c in columns]
    room = width - GAP * (len(headers) - 1)
    if sum(wanted) <= room:
        return _plain(cells, headers, right)
    if not set(prose) & set(headers):
        return _cut(cells, headers, right, wanted, width)
    least = [
        max(min(want, NARROWEST), *map(_longest, column)) if column[0] in prose else want
        for want, column in zip(wanted, columns, strict=True)
    ]
    if sum(least) > room:
        return "\n".join(_block(row, headers, width) for row in cells)
    shares = _shares(least, wanted, room)
    wrapped = [[wrap(cell, s) for cell, s in zip(row, shares, strict=True)] for row in cells]
    return _plain(wrapped, headers, right)


class _Wrapper(textwrap.TextWrapper):
    wordsep_simple_re = re.compile(r"(\s+|(?<=\w/)(?=[^\W\d]|\.))")


def wrap(text: str, width: int, indent: str = "") -> str:
    """`text` in lines of at most `width`, each but the first after `indent`, broken between words
    and after the slashes of a path. A longer word stays whole."""
    wrapper = _Wrapper(
        width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(line for part in text.split("\n") for line in wrapper.wrap(part))


def _longest(text: str) -> int:
    """Length of the longest piece that does not break."""
    return max(map(len, _Wrapper.wordsep_simple_re.split(text)))


def _shares(least: list[int], wanted: list[int], room: int) -> list[int]:
    """The width of each column: what it wants, or else a fair share of what the others leave."""
    shares = list(least)
    for _ in range(room - sum(least)):
        short = [n for n, share in enumerate(shares) if share < wanted[n]]
        shares[min(short, key=shares.__getitem__)] += 1
    return shares


def _cut(
    cells: list[list[str]],
    headers: Sequence[str],
    right: Collection[str],
    wanted: list[int],
    width: int,
) -> str:
    """Several tables, one below the other, each with the first column and the next that fit."""
    groups: list[list[int]] = [[]]
    used = wanted[0]
    for n, want in enumerate(wanted[1:], 1):
        if groups[-1] and used + GAP + want > width:
            groups.append([])
            used = wanted[0]
        groups[-1].append(n)
        used += GAP + want
    return "\n\n".join(
        _plain([[row[n] for n in (0, *g)] for row in cells], [headers[n] for n in (0, *g)], right)
        for g in groups
    )


def _block(row: list[str], headers: Sequence[str], width: int) -> str:
    """The first value, and below it `header  value` for each other one that is not empty."""
    label = max(map(len, headers[1:]))
    indent = " " * (2 + label + GAP)
    lines = [row[0]]
    for header, value in zip(headers[1:], row[1:], strict=True):
        if value:
            lines.append(wrap(f"  {header:<{label}}{' ' * GAP}{value}", width, indent))
    return "\n".join(lines)


def _plain(cells: list[list[str]], headers: Sequence[str], right: Collection[str]) -> str:
    table = [[cell.split("\n") for cell in row] for row in (headers, *cells)]
    columns = zip(*table, strict=True)
    widths = [max(len(line) for cell in column for line in cell) for column in columns]
    table.insert(1, [["-" * width] for width in widths])
    sides = [str.rjust if header in right else str.ljust for header in headers]
    lines = []
    for row in table:
        for pieces in zip_longest(*row, fillvalue=""):
            padded = (side(piece, w) for side, piece, w in zip(sides, pieces, widths, strict=True))
            lines.append((" " * GAP).join(padded).rstrip())
    return "\n".join(lines)
