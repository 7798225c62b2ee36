"""The one look of all figures: sizes, colours, markers, and names that are shown as they are.

Colours are Okabe and Ito's, without the yellow, which is too pale for lines on white. Whatever
differs in colour also differs in marker and line style, so that a figure can be read in grey.
"""

import contextlib
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib
from matplotlib import colormaps, font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from clbench.report.escape import clean

COLUMN = 3.3
"""Inches: the width of a column of a two-column paper."""
TEXT = 6.8
"""Inches: the width of its text."""
SMALL = 7.0
"""Points: the size of everything but axis labels."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "X", "P", "<", "*", ">", "h", "d")
LINES = ("-", "--", "-.", ":")
GREY = "0.45"
HEAT = "cividis"
"""Grows in lightness throughout, and is the same to the colour-blind."""

_FONT = "DejaVu Sans"  # comes with matplotlib, so it is the same everywhere
_RC = {
    "font.family": _FONT, "font.size": SMALL,
    "axes.titlesize": SMALL, "axes.labelsize": SMALL + 1, "axes.linewidth": 0.6,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "axes.axisbelow": True, "grid.color": "0.9", "grid.linewidth": 0.5,
    "xtick.labelsize": SMALL, "ytick.labelsize": SMALL,
    "xtick.major.width": 0.6, "ytick.major.width": 0.6,
    "legend.fontsize": SMALL, "legend.frameon": False, "legend.handlelength": 3.0,
    "legend.borderaxespad": 0.3, "lines.linewidth": 1.2, "lines.markersize": 4.0,
    "text.parse_math": False, "text.usetex": False,  # a $ in a name is a $
    "pdf.fonttype": 42,  # TrueType, as publishers ask for
    "svg.hashsalt": "clbench",  # the same ids every time
    "savefig.dpi": 300,
}  # fmt: skip


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """Draw and save inside this: matplotlib's defaults, then the look of clbench."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_RC)
        yield


def new_figure(width: float, height: float) -> Any:
    """An empty figure with automatic layout, not registered with pyplot."""
    layout = ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, hspace=0.04, wspace=0.04)
    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def look(i: int, n: int = 0) -> dict[str, Any]:
    """Colour, marker and line style of the i-th thing, different up to 84. If n is given and
    there are not as many colours, they go from dark to light."""
    return {
        "color": shade(i, n) if n > len(COLOURS) else COLOURS[i % len(COLOURS)],
        "marker": MARKERS[i % len(MARKERS)],
        "linestyle": LINES[i % len(LINES)],
    }


def shade(i: int, n: int) -> tuple[float, float, float, float]:
    """The i-th of n colours from dark to light; the palest end is left out."""
    colour: tuple[float, float, float, float] = colormaps[HEAT](0.9 * i / max(n - 1, 1))
    return colour


def names(texts: Sequence[str], width: int = 46) -> list[str]:
    """Each text on one line of at most `width` characters, no two alike: a long one loses its
    middle. What the font lacks is written as [U+4E2D]."""
    short: list[str] = []
    for text in texts:
        shown = _in_font(text)
        if len(shown) > width:
            tail = width // 2 - 1
            shown = f"{shown[: width - tail - 1]}\N{HORIZONTAL ELLIPSIS}{shown[-tail:]}"
        if shown in short:
            number = next(n for n in range(2, len(texts) + 2) if f"{shown} #{n}" not in short)
            shown = f"{shown} #{number}"
        short.append(shown)
    return short


def across(texts: Sequence[str], width: float = TEXT) -> int:
    """How many entries of a legend fit beside each other."""
    widths = [0.065 * len(text) + 0.5 for text in texts]  # inches, at the small size
    return len(texts) if sum(widths) <= width else max(1, int(width / max(widths)))


def wrapped(name: str, width: int) -> str:
    """A name of at most twice `width` characters on at most two lines."""
    lines = textwrap.wrap(name, width, break_on_hyphens=False)
    return "\n".join(lines if len(lines) < 3 else (name[:width], name[width:]))


def _in_font(text: str) -> str:
    path = font_manager.findfont(_FONT)
    known = font_manager.get_font(path).get_charmap()
    return "".join(c if ord(c) in known else f"[U+{ord(c):04X}]" for c in clean(text))
