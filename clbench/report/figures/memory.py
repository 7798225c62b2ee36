"""ACC against memory: a point per method, and the Pareto front of those that can be compared."""

from collections.abc import Sequence
from typing import Any

from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from clbench.report.figures import style
from clbench.report.figures.picture import Picture, shown_rows, words
from clbench.report.rows import Row, Value, mean_value
from clbench.report.runs import Key
from clbench.report.table import Table
from clbench.report.words import spread

_LOG = 5.0
"""Memories that differ by more than this factor are shown on a logarithmic axis."""
_FRONT: Any = {"color": style.GREY, "linewidth": 1.0, "drawstyle": "steps-post", "zorder": 1}


def draw(table: Table) -> Picture:
    """Memory is architecture + replay, in MB of 10^6 bytes, as in the tables."""
    rows = shown_rows(
        table,
        "memory",
        wants=lambda row: megabytes(row) is not None,
        lacking=f"The figure 'memory' needs runs that record their memory, and {table.benchmark} "
        "has none: train them again with clbench run --rerun all.",
    )
    names = style.names([row.name for row in rows])
    figure = style.new_figure(style.TEXT, max(2.6, 0.155 * len(rows) + 0.5))
    ax = figure.subplots()
    handles = [_point(ax, row, i, names[i]) for i, row in enumerate(rows)]
    sizes = [value.mean for row in rows if (value := megabytes(row)) is not None]
    if max(sizes) > _LOG * min(sizes) > 0:
        _log(ax)
    fronts = pareto_fronts(rows)
    edge = ax.get_xlim()[1]  # also settles the limits, which the front must not move
    ax.autoscale(False)
    for front in fronts:
        x, y = [list(axis) for axis in zip(*front, strict=True)]
        # the most ACC with at most so much memory: flat to the edge of the axes
        ax.plot([*x, edge], [*y, y[-1]], **_FRONT)
    ax.set_xlabel("architecture + replay memory (MB)")
    ax.set_ylabel("ACC (%)")
    if fronts:
        handles.append(Line2D([], [], **_FRONT, label="Pareto front"))
    figure.legend(handles=handles, loc="outside right upper")
    what = [
        "ACC: mean over all tasks of the test accuracy (%) after the last task. Memory: "
        "architecture and replayed samples, 4 bytes per number, MB = 10^6 bytes. Other state that "
        "a method keeps while training is not counted.",
        "Pareto front: no other method has as much ACC with less memory, or more ACC with as "
        "little; references (hollow) are left out of it.",
        spread(rows, "Points and bars"),
    ]
    if len(fronts) > 1:
        what.append("Runs under different protocols or data have fronts of their own.")
    return Picture(figure, words(table, rows, what, names))


def megabytes(row: Row) -> Value | None:
    """Architecture + replay of a row; None unless every seed knows both."""
    return mean_value([run.values["arch"] + run.values["replay"] for run in row.counted])


def pareto_fronts(rows: Sequence[Row]) -> list[list[tuple[float, float]]]:
    """For each condition, the (MB, ACC) of competitors that none beats, by growing memory."""
    points: dict[Key, list[tuple[float, float]]] = {}
    for row in rows:
        memory, accuracy = megabytes(row), row.value("acc")
        if memory and accuracy and not row.reference:
            points.setdefault(row.head.condition, []).append((memory.mean, accuracy.mean))
    fronts = []
    for condition in sorted(points):
        front: list[tuple[float, float]] = []
        for memory_mb, acc in sorted(points[condition], key=lambda p: (p[0], -p[1])):
            if not front or acc > front[-1][1]:
                front.append((memory_mb, acc))
        fronts.append(front)
    return fronts


def _point(ax: Any, row: Row, i: int, name: str) -> Line2D:
    memory, accuracy = megabytes(row), row.value("acc")
    assert memory is not None
    assert accuracy is not None
    look: dict[str, Any] = style.look(i) | {"markersize": 5.5, "linestyle": ""}
    if row.reference:
        look["markerfacecolor"] = "1.0"
    ax.errorbar(
        memory.mean,
        accuracy.mean,
        yerr=accuracy.std,
        xerr=memory.std or None,  # a network that grows by chance
        **look,
        elinewidth=0.8,
        capsize=2,
        zorder=3,
    )
    return Line2D([], [], **look, label=name)


def _log(ax: Any) -> None:
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
