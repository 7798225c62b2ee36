"""Accuracy on each task over time: R by columns, a line per task and a panel per method."""

from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from clbench.report.figures import style
from clbench.report.figures.panels import TITLE, key, label_outer, lines, panels
from clbench.report.figures.picture import Picture, rows, seeds, words
from clbench.report.table import Table
from clbench.report.words import spread

_MEAN: dict[str, Any] = {"color": "0.0", "linewidth": 1.8, "linestyle": "-", "zorder": 4}


def draw(table: Table) -> Picture:
    """R[k,i] over k for every task i from the time it is learned, and their mean."""
    cells = rows(table, "accuracy", tasks=2)
    names = style.names([cell.name for cell in cells], 2 * TITLE)
    figure, axes = panels(names, 1.55, extra=0.45)
    tasks = max(cell.head.tasks for cell in cells)
    for ax, cell in zip(axes, cells, strict=True):
        mean, std = cell.matrix()
        seen = learned(mean)
        lines(ax, seen, std, tasks)
        known = ~np.isnan(seen[:, 0])  # joint training has no rows but the last
        x = np.arange(1, len(seen) + 1)[known]
        ax.plot(x, np.nanmean(seen[known], axis=1), **_MEAN)
    label_outer(axes, "after task", "test accuracy (%)")
    key(figure, axes, tasks, "task", [(Line2D([], [], **_MEAN), "mean of the tasks so far")])
    what = [
        "Test accuracy (%) on each task after learning each task, from the time it is learned.",
        spread(cells, "Lines and bands") if tasks <= len(style.COLOURS) else seeds(cells),
    ]
    return Picture(figure, words(table, cells, what, names))


def learned(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """R without what was measured before a task was learned."""
    return np.where(np.tril(np.ones_like(matrix)) > 0, matrix, np.nan)
