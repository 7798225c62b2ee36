"""Small multiples: one panel per method in rows of three, with one key for all."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from clbench.report.figures import style

ACROSS = 3
TITLE = 28
"""Characters in a line over a panel; a title has two."""


def panels(
    names: Sequence[str],
    height: float,
    *,
    share: bool = True,
    extra: float = 0.0,
    width: float = style.COLUMN,
) -> tuple[Any, list[Any]]:
    """A figure with a panel of `height` inches for every name, as wide as the text if it is full.

    `width` is that of a panel if there are fewer than a row, `extra` the height of what stands
    below the panels.
    """
    across = min(ACROSS, len(names))
    down = -(-len(names) // across)
    whole = style.TEXT if across == ACROSS else width * across + 0.1
    figure = style.new_figure(whole, height * down + extra)
    grid = figure.subplots(down, across, sharex=share, sharey=share, squeeze=False)
    axes = list(grid.flat)
    for spare in axes[len(names) :]:
        spare.remove()
    for i, (ax, name) in enumerate(zip(axes, names, strict=False)):
        ax.set_title(style.wrapped(name, TITLE))
        if i + across >= len(names):  # nothing below it
            ax.tick_params(labelbottom=True)
    return figure, axes[: len(names)]


def label_outer(axes: Sequence[Any], x: str, y: str) -> None:
    """Axis labels on the left and below, once per row and column."""
    across = min(ACROSS, len(axes))
    for i, ax in enumerate(axes):
        if i % across == 0:
            ax.set_ylabel(y)
        if i + across >= len(axes):
            ax.set_xlabel(x)


def lines(
    ax: Any, values: NDArray[np.float64], spread: NDArray[np.float64] | None, of: int
) -> None:
    """One line per column over rows 1, 2, ..., with a band of one standard deviation.

    `of` is the most columns that any panel has. If that is more than there are colours, shades
    tell them apart, and markers and bands, which would cover one another, are left out.
    """
    x = np.arange(1, len(values) + 1)
    many = of > len(style.COLOURS)
    for i in range(values.shape[1]):
        seen = ~np.isnan(values[:, i])
        look = style.look(i, of)
        if many:  # a marker only where a line begins
            look |= {"linestyle": "-", "linewidth": 0.9, "markevery": [0]}
        ax.plot(x[seen], values[seen, i], **look, markersize=3.2, zorder=3)
        if spread is not None and not many:
            low, high = values[seen, i] - spread[seen, i], values[seen, i] + spread[seen, i]
            ax.fill_between(x[seen], low, high, color=look["color"], alpha=0.15, linewidth=0)
    ax.set_xlim(0.7, len(values) + 0.3)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True, min_n_ticks=1))


def key(
    figure: Any, axes: Sequence[Any], n: int, word: str, more: Sequence[tuple[Any, str]] = ()
) -> None:
    """Which line is which: a legend, or for more than there are colours a bar of shades."""
    handles, texts = [handle for handle, _ in more], [text for _, text in more]
    if n <= len(style.COLOURS):
        handles = [Line2D([], [], **style.look(i, n), markersize=3.2) for i in range(n)] + handles
        texts = [f"{word} {i + 1}" for i in range(n)] + texts
    else:
        shades = ListedColormap([style.shade(i, n) for i in range(n)])
        norm = BoundaryNorm(np.arange(n + 1) + 0.5, n)
        bar = figure.colorbar(
            ScalarMappable(norm, shades), ax=list(axes), aspect=30, pad=0.01, fraction=0.03
        )
        bar.set_label(word)
        bar.set_ticks([1, *(t for t in range(5, n + 1, 5) if n - t >= 3), n])
        bar.ax.tick_params(length=2)
        bar.ax.minorticks_off()
        bar.outline.set_linewidth(0.6)
    if handles:
        across = style.across(texts, figure.get_figwidth())
        figure.legend(handles, texts, loc="outside lower center", ncols=across, columnspacing=1.2)
