"""The task in whose classes the answers on each task lie: a panel per method."""

import numpy as np

from clbench.report.figures import style
from clbench.report.figures.matrix import heat_map
from clbench.report.figures.panels import TITLE, label_outer, panels
from clbench.report.figures.picture import Picture, seeds, shown_rows, words
from clbench.report.rows import Row, mean_and_std
from clbench.report.table import Table


def draw(table: Table) -> Picture:
    """Shares of the answers after the last task, averaged over seeds."""
    lacking = (
        f"The figure 'confusion' needs runs of the scenario class, and {table.benchmark} has none: "
        "name a benchmark like 'split-mnist[scenario=class]'."
    )
    rows = shown_rows(table, "confusion", tasks=2, lines=True, wants=_has, lacking=lacking)
    names = style.names([row.name for row in rows], 2 * TITLE)
    figure, axes = panels(names, 2.15, share=False, width=2.3 if len(names) > 1 else 2.6)
    for ax, row in zip(axes, rows, strict=True):
        shares = mean_and_std([np.array(run.confusion) for run in row.counted])[0]
        image = heat_map(ax, shares, 0.0)
    label_outer(axes, "answer lies in classes of task", "sample of task")
    bar = figure.colorbar(image, ax=axes, aspect=30, pad=0.01, fraction=0.03)
    bar.set_label("answers (%)")
    bar.outline.set_linewidth(0.6)
    what = [
        "Of the answers on the test samples of a task (rows), after the last task, the percentage "
        "that lies in the classes of each task (columns).",
        "A row adds up to 100. The diagonal, framed, has the answers in the right task, right or "
        "wrong.",
        seeds(rows),
    ]
    return Picture(figure, words(table, rows, what, names))


def _has(row: Row) -> bool:
    return all(run.confusion for run in row.counted)
