"""Replay size against ACC and BWT, a line per method (the paper's memory figure)."""

import re
from typing import Any

from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from clbench.report.cells import Cell
from clbench.report.figures import style
from clbench.report.figures.picture import LackingError, Picture, rows, words
from clbench.report.runs import canonical
from clbench.report.table import Table
from clbench.report.words import spread


def draw(table: Table) -> Picture:
    """Samples of each class that a method keeps, on a logarithmic axis with room for zero."""
    example = "clbench run --methods 'agem[per_class=1],agem[per_class=5],agem'"
    cells = rows(
        table,
        "replay",
        tasks=2,
        wants=lambda cell: cell.head.per_class is not None and not cell.reference,
        lacking=f"The figure 'replay' needs methods with a parameter per_class, and "
        f"{table.benchmark} has none: {example} makes some.",
    )
    lines = by_size(cells)
    if all(len(line) < 2 for line in lines.values()):
        raise LackingError(
            f"The figure 'replay' needs a method with at least two values of per_class, and "
            f"{table.benchmark} has none: {example} makes some."
        )
    names = dict(zip(lines, style.names(list(lines)), strict=True))
    across = style.across(list(names.values()))
    figure = style.new_figure(style.TEXT, 2.0 + 0.16 * -(-len(lines) // across))
    axes = figure.subplots(1, 2)
    for ax, key, label in zip(axes, ("acc", "bwt"), ("ACC (%)", "BWT (%)"), strict=True):
        for i, line in enumerate(lines.values()):
            _line(ax, line, key, i)
        _axis(ax, sorted({size for line in lines.values() for size in line}))
        ax.set_xlabel("samples kept of each class")
        ax.set_ylabel(label)
    axes[1].axhline(0, color=style.GREY, linewidth=0.6, zorder=1)
    handles = [Line2D([], [], **style.look(i)) for i in range(len(lines))]
    figure.legend(handles, list(names.values()), loc="outside lower center", ncols=across)
    what = [
        "ACC and BWT against the number of samples of each class that a method keeps for replay.",
        "ACC: mean over all tasks of the test accuracy after the last task. BWT: its change since "
        "a task was learned, mean over all tasks but the last.",
        spread(cells, "Points and bars"),
    ]
    what += [f"{names[full]} is {full}." for full in names if names[full] != full]
    return Picture(figure, words(table, cells, what))


def by_size(cells: list[Cell]) -> dict[str, dict[int, Cell]]:
    """Rows that differ in nothing but `per_class`, by size, under the name that they share."""
    groups: dict[str, dict[int, Cell]] = {}
    for cell in cells:
        run, size = cell.head, cell.head.per_class
        assert size is not None
        learner = {k: v for k, v in run.learner.items() if k != "params.per_class"}
        rest = canonical([run.setting, learner, run.data, run.notes])
        groups.setdefault(rest, {})[size] = cell
    named: dict[str, dict[int, Cell]] = {}
    for sizes in groups.values():
        name = without_size(next(iter(sizes.values())).name)
        while name in named:  # apart for a reason that no name tells
            name += "'"
        named[name] = dict(sorted(sizes.items()))
    return named


def without_size(name: str) -> str:
    """`agem[per_class=3,reference_batch=5] (lr=1)` -> `agem[reference_batch=5] (lr=1)`."""
    name = re.sub(r"\bper_class=\d+(, ?|(?=[\])]))", "", name, count=0)
    return re.sub(r",? ?\[\]| \(\)", "", name.replace(",]", "]").replace(", )", ")"))


def _line(ax: Any, line: dict[int, Cell], key: str, i: int) -> None:
    values = {size: value for size, cell in line.items() if (value := cell.value(key)) is not None}
    ax.errorbar(
        list(values),
        [value.mean for value in values.values()],
        yerr=[value.std or 0.0 for value in values.values()],
        **style.look(i),
        elinewidth=0.8,
        capsize=2,
        zorder=3,
    )


def _axis(ax: Any, sizes: list[int]) -> None:
    """Ticks where there are points, as far as they do not run into one another."""
    ax.set_xscale("symlog", linthresh=1, linscale=0.3)
    ticks: list[int] = []
    for size in sizes:
        if not ticks or size >= 1.35 * ticks[-1] + (ticks[-1] == 0):
            ticks.append(size)
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.xaxis.set_minor_locator(NullLocator())
