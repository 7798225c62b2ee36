"""R as a heat map: a panel per method, with numbers while there is room for them."""

from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from clbench.report.figures import style
from clbench.report.figures.panels import TITLE, label_outer, panels
from clbench.report.figures.picture import Picture, seeds, shown_rows, words
from clbench.report.table import Table

_DECIMAL, _NUMBERS = 6, 12
"""Most tasks for numbers with a decimal, and for numbers at all."""


def draw(table: Table) -> Picture:
    """R[k,i], averaged over seeds; what was not measured stays empty."""
    rows = shown_rows(table, "matrix", tasks=2, lines=True)
    names = style.names([row.name for row in rows], 2 * TITLE)
    width = 2.3 if len(names) > 1 else 2.6  # room for the bar and both labels
    figure, axes = panels(names, 2.15, share=False, width=width)
    matrices = [row.matrix()[0] for row in rows]
    low = min(10 * np.floor(min(np.nanmin(matrix) for matrix in matrices) / 10), 90.0)
    for ax, matrix in zip(axes, matrices, strict=True):
        image = heat_map(ax, matrix, low)
    label_outer(axes, "test accuracy on task", "after task")
    bar = figure.colorbar(image, ax=axes, aspect=30, pad=0.01, fraction=0.03)
    bar.set_label("R (%)")
    bar.outline.set_linewidth(0.6)
    what = [
        "R[k,i]: test accuracy (%) on task i (columns) after learning task k (rows).",
        "The diagonal, framed, is each task when it was just learned; right of it is what was "
        "measured before the task was learned, below it what is left later.",
        "Empty: not measured.",
        seeds(rows),
    ]
    return Picture(figure, words(table, rows, what, names))


def heat_map(ax: Any, matrix: NDArray[np.float64], low: float) -> Any:
    """A table of percentages from `low` to 100, with a framed diagonal."""
    n = len(matrix)
    extent = (0.5, n + 0.5, n + 0.5, 0.5)  # tasks count from 1
    image = ax.imshow(
        np.ma.masked_invalid(matrix), cmap=style.HEAT, vmin=low, vmax=100.0, extent=extent
    )
    ax.grid(False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=10, integer=True, min_n_ticks=1))
    if n <= _NUMBERS:
        decimals, size = (1, 6.0) if n <= _DECIMAL else (0, 5.0)
        for (k, i), value in np.ndenumerate(matrix):
            if not np.isnan(value):
                look = {"color": _ink(image.norm(value)), "fontsize": size}
                ax.text(i + 1, k + 1, f"{value:.{decimals}f}", ha="center", va="center", **look)
    for k in range(n):
        if not np.isnan(matrix[k, k]):
            width = 0.8 if n <= _NUMBERS else 0.4
            ax.add_patch(Rectangle((k + 0.5, k + 0.5), 1, 1, fill=False, ec="0.0", lw=width))
    return image


def _ink(level: float) -> str:
    """Black on light rows and white on dark ones."""
    red, green, blue, _ = colormaps[style.HEAT](level)
    return "0.0" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "1.0"
