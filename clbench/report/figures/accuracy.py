"""Accuracy on each task over time: R by columns, a line per task and a panel per method."""

from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from clbench.report.figures import style
from clbench.report.figures.panels import TITLE, key, label_outer, lines, panels
from clbench.report.figures.picture import Picture, seeds, shown_rows, words
from clbench.report.table import Table
from clbench.report.words import spread

_MEAN: dict[str, Any] = {"color": "0.0", "linewidth": 1.8, "linestyle": "-", "zorder": 4}


def draw(table: Table) -> Picture:
    """R[k,i] over k for every task i from the time it is learned, and their mean."""
    rows = shown_rows(table, "accuracy", tasks=2, lines=True)
    names = style.names([row.name for row in rows], 2 * TITLE)
    figure, axes = panels(names, 1.55, extra=0.45)
    tasks = max(row.head.tasks for row in rows)
    for ax, row in zip(axes, rows, strict=True):
        mean, std = row.matrix()
        seen = learned(mean)
        lines(ax, seen, std, tasks)
        known = ~np.isnan(seen[:, 0])  # a method may have no rows but the last
        x = np.arange(1, len(seen) + 1)[known]
        ax.plot(x, np.nanmean(seen[known], axis=1), **_MEAN)
    label_outer(axes, "after task", "test accuracy (%)")
    key(figure, axes, tasks, "task", [(Line2D([], [], **_MEAN), "mean of the tasks so far")])
    what = [
        "Test accuracy (%) on each task after learning each task, from the time it is learned.",
        spread(rows, "Lines and bands") if tasks <= len(style.COLOURS) else seeds(rows),
    ]
    return Picture(figure, words(table, rows, what, names))


def learned(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """R without what was measured before a task was learned."""
    return np.where(np.tril(np.ones_like(matrix)) > 0, matrix, np.nan)
