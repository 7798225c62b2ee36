"""Shares of each layer over time, of methods that record them: capacity that tasks have claimed."""

import numpy as np

from clbench.errors import UserError
from clbench.report.figures import style
from clbench.report.figures.panels import TITLE, key, label_outer, lines, panels
from clbench.report.figures.picture import MOST, Picture, bounded, seeds, shown_rows, words
from clbench.report.installed import laying_open, suggestion
from clbench.report.rows import Row, mean_and_std
from clbench.report.table import Table
from clbench.report.words import spread


def draw(table: Table) -> Picture:
    """A panel per row and entry: its value for each layer after tasks 1, 2, ..."""
    rows = shown_rows(
        table,
        "capacity",
        tasks=2,
        wants=lambda row: bool(shares(row)),
        lacking="The figure 'capacity' needs runs that record a share of each layer, and "
        f"{table.benchmark} has none"
        f"{suggestion(','.join(laying_open('layers', '%')))}.",
    )
    drawn = [(row, entry) for row in rows for entry in shares(row)]
    if len(drawn) > MOST:
        raise UserError(
            f"{len(drawn)} panels for {table.benchmark} are too many for one figure (at most "
            f"{MOST}): choose some with --methods."
        )
    bounded(sum(len(row.head.layers[entry][0]) for row, entry in drawn), table, "--methods")
    titles = [row.head.lays_open[entry].title for row, entry in drawn]
    alone = len(set(titles)) == 1
    named = zip(drawn, titles, strict=True)
    full = [row.name if alone else f"{row.name}: {title}" for (row, _), title in named]
    names = style.names(full, 2 * TITLE)
    figure, axes = panels(names, 1.7, extra=0.35)
    layers = max(len(row.head.layers[entry][0]) for row, entry in drawn)
    for ax, (row, entry) in zip(axes, drawn, strict=True):
        mean, std = mean_and_std([np.array(run.layers[entry]) for run in row.counted])
        lines(ax, mean, std, layers)
        ax.set_ylim(-3, 103)
    label_outer(axes, "after task", "share of the layer (%)")
    key(figure, axes, layers, "layer")
    what = [
        *(f"{title[:1].upper()}{title[1:]} (%)." for title in sorted(set(titles))),
        "Layers count from the input.",
        spread(rows, "Lines and bands") if layers <= len(style.COLOURS) else seeds(rows),
    ]
    return Picture(figure, words(table, rows, what, names if alone else ()))


def shares(row: Row) -> list[str]:
    """The entries of a row that are a share of each layer, in all its runs alike."""
    return [
        entry
        for entry, values in row.head.layers.items()
        if row.head.lays_open[entry].unit == "%"
        and all(len(run.layers.get(entry, [[]])[0]) == len(values[0]) for run in row.counted)
    ]
