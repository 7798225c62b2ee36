"""Replay size against ACC and BWT, a line per method (the paper's memory figure)."""

from typing import Any

from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from clbench.report.figures import style
from clbench.report.figures.picture import LackingError, Picture, shown_rows, words
from clbench.report.installed import replay_sizes, suggestion
from clbench.report.rows import Row
from clbench.report.runs import Facts, Key
from clbench.report.table import Table
from clbench.report.words import spread


def draw(table: Table) -> Picture:
    """Samples per class that a method keeps, on a logarithmic axis with room for zero."""
    example = next((f"{m}[{p}=1],{m}[{p}=5]" for m, p in replay_sizes().items()), "")
    rows = shown_rows(
        table,
        "replay",
        tasks=2,
        wants=lambda row: row.head.kept is not None and not row.reference,
        lacking=f"The figure 'replay' needs methods that keep a number of samples per class, "
        f"and {table.benchmark} has none{suggestion(example)}.",
    )
    lines = by_size(rows)
    if all(len(line) < 2 for line in lines.values()):
        raise LackingError(
            f"The figure 'replay' needs a method with at least two numbers of samples per "
            f"class, and {table.benchmark} has none{suggestion(example)}."
        )
    names = dict(zip(lines, style.names(list(lines)), strict=True))
    across = style.across(list(names.values()))
    figure = style.new_figure(style.TEXT, 2.0 + 0.16 * -(-len(lines) // across))
    axes = figure.subplots(1, 2)
    for ax, key, label in zip(axes, ("acc", "bwt"), ("ACC (%)", "BWT (%)"), strict=True):
        for i, line in enumerate(lines.values()):
            _line(ax, line, key, i)
        _axis(ax, sorted({size for line in lines.values() for size in line}))
        ax.set_xlabel("samples kept per class")
        ax.set_ylabel(label)
    axes[1].axhline(0, color=style.GREY, linewidth=0.6, zorder=1)
    handles = [Line2D([], [], **style.look(i)) for i in range(len(lines))]
    figure.legend(handles, list(names.values()), loc="outside lower center", ncols=across)
    what = [
        "ACC and BWT against the number of samples per class that a method keeps for replay.",
        "ACC: mean over all tasks of the test accuracy after the last task. BWT: its change since "
        "a task was learned, mean over all tasks but the last.",
        spread(rows, "Points and bars"),
    ]
    what += [f"{names[full]} is {full}." for full in names if names[full] != full]
    return Picture(figure, words(table, rows, what))


def by_size(rows: list[Row]) -> dict[str, dict[int, Row]]:
    """Rows that differ in nothing but the samples they keep, by size, under their common name."""
    groups: dict[tuple[Key, str], dict[int, Row]] = {}
    for row in rows:
        run, size = row.head, row.head.kept
        assert size is not None
        learner = {k: v for k, v in run.learner.items() if k != f"params.{run.replay_size}"}
        same = (run.setting.key, Facts(learner).key, run.data.key, run.notes.key)
        groups.setdefault((same, run.replay_size), {})[size] = row
    named: dict[str, dict[int, Row]] = {}
    for (_, parameter), sizes in groups.items():
        name = next(iter(sizes.values())).name_without(parameter)
        while name in named:  # apart for a reason that no name tells
            name += "'"
        named[name] = dict(sorted(sizes.items()))
    return named


def _line(ax: Any, line: dict[int, Row], key: str, i: int) -> None:
    values = {size: value for size, row in line.items() if (value := row.value(key)) is not None}
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
