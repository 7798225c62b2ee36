"""Used capacity of each layer over time, of methods that claim parts of a network: HAT, PackNet."""

import numpy as np

from clbench.report.cells import mean_and_std
from clbench.report.figures import style
from clbench.report.figures.panels import TITLE, key, label_outer, lines, panels
from clbench.report.figures.picture import Picture, rows, seeds, words
from clbench.report.table import Table
from clbench.report.words import spread


def draw(table: Table) -> Picture:
    """The share of each layer that tasks 1..k have claimed, over k."""
    cells = rows(
        table,
        "capacity",
        tasks=2,
        wants=lambda cell: all(run.capacity for run in cell.counted),
        lacking="The figure 'capacity' needs runs that record their used capacity, and "
        f"{table.benchmark} has none: clbench run --methods hat,packnet makes some.",
    )
    names = style.names([cell.name for cell in cells], 2 * TITLE)
    figure, axes = panels(names, 1.7, extra=0.35)
    layers = max(len(cell.head.capacity[0]) for cell in cells)
    for ax, cell in zip(axes, cells, strict=True):
        mean, std = mean_and_std([np.array(run.capacity) for run in cell.counted])
        lines(ax, mean, std, layers)
        ax.set_ylim(-3, 103)
    label_outer(axes, "after task", "used capacity (%)")
    key(figure, axes, layers, "layer")
    what = [
        "Share of each layer (%) that the tasks so far have claimed: units for HAT, weights for "
        "PackNet. Layers count from the input.",
        spread(cells, "Lines and bands") if layers <= len(style.COLOURS) else seeds(cells),
    ]
    return Picture(figure, words(table, cells, what, names))
