"""The paper's t-SNE figure: z_S and z_P of ACL, a row per method, without training again.

Left, test data of the last task by class; right, of the first tasks by task. With D, S is meant to
hide the task; P is free to show it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from clbench.errors import UserError
from clbench.report.cells import Cell
from clbench.report.figures import style
from clbench.report.figures.checkpoints import SAMPLES, Latents, Source, spaces
from clbench.report.figures.picture import Lacking, Picture, rows, words
from clbench.report.runs import Run
from clbench.report.table import Table

MOST = 6
"""Rows that fit on a page."""
PERPLEXITY = 30.0
_FLAT = 1e-6  # a z that varies less than this over all samples is constant
_FEW = 4


def draw(table: Table, source: Source) -> Picture:
    """Four panels a method: S and P for the last task, S and P for the first tasks."""
    cells = rows(
        table,
        "latent",
        tasks=2,
        wants=lambda cell: {"params.shared", "params.private"} <= cell.head.learner.keys(),
        lacking=f"The figure 'latent' needs runs of acl, and {table.benchmark} has none: "
        "clbench run --methods 'acl,acl[discriminator=false]' makes some.",
    )
    kept = [cell for cell in cells if any(source.has(run) for run in cell.counted)]
    if not kept:
        raise Lacking(
            f"The figure 'latent' needs checkpoints, and {source.out / 'checkpoints'} has none of "
            f"acl on {table.benchmark}: clbench run --rerun all trains them again."
        )
    if len(kept) > MOST:
        raise UserError(
            f"{len(kept)} methods are too many for the figure 'latent' (at most {MOST}): choose "
            "some with --methods, for example --methods 'acl[preset=paper]'."
        )
    runs = _same_seed(kept, source)
    drawn = [spaces(run, source) for run in runs]
    tasks, first = runs[0].tasks, int(drawn[0].first.labels.max())
    figure = style.new_figure(style.TEXT, 1.62 * len(kept) + 0.7)
    left, right = figure.subfigures(1, 2, width_ratios=(1.06, 1))  # row names stand on the left
    axes = _half(left, [one.last for one in drawn], f"task {tasks}, by class", "class")
    for ax, name in zip(axes, labels(kept), strict=True):
        ax.set_ylabel(name)
    _half(right, [one.first for one in drawn], f"tasks 1 to {first}, by task", "task")
    what = [
        f"t-SNE (perplexity {PERPLEXITY:g}, PCA start, seed 0) of z_S = S(x) and z_P = P(x) of "
        f"test data after the last task: left, task {tasks} by class; right, tasks 1 to {first} by "
        "task, each through its own P.",
        f"At most {SAMPLES:,} samples a panel. Axes have no unit, and distances between panels no "
        "meaning.",
        "Drawn from "
        + "; ".join(f"{run.method}, seed {run.seed} (run {run.id})" for run in runs)
        + ".",
    ]
    missing = [cell.name for cell in cells if cell not in kept]
    if missing:
        what.append(f"Without a checkpoint, and so not drawn: {', '.join(missing)}.")
    return Picture(figure, words(table, kept, what, [cell.name for cell in kept]))


def labels(cells: Sequence[Cell]) -> list[str]:
    """`with D` and `without D` if that is all that tells two rows apart, else their names."""
    key = "params.discriminator"
    with_d = [cell.head.learner.get(key) == "true" for cell in cells]
    others = [
        {k: v for k, v in cell.head.learner.items() if k != key} | cell.head.setting
        for cell in cells
    ]
    if len(cells) == 2 and with_d[0] != with_d[1] and others[0] == others[1]:
        return ["with D" if d else "without D" for d in with_d]
    return style.titles([cell.name for cell in cells], 24)


def embed(z: NDArray[np.float32]) -> NDArray[np.float64] | None:
    """Two dimensions for z, (n, width); None if it is constant or not there."""
    if z.shape[1] == 0 or float(np.ptp(z, axis=0).max()) <= _FLAT:
        return None
    wide = np.pad(z.astype(np.float64), ((0, 0), (0, max(0, 2 - z.shape[1]))))
    perplexity = min(PERPLEXITY, (len(z) - 1) / 3)
    with threadpool_limits(1):  # sums in the same order every time
        model = TSNE(perplexity=perplexity, init="pca", learning_rate="auto", random_state=0)
        found: NDArray[np.float64] = model.fit_transform(wide)
    return found


def _same_seed(cells: Sequence[Cell], source: Source) -> list[Run]:
    """A run of each row with a checkpoint: of the lowest seed that all have, else of its own."""
    choices = [{run.seed: run for run in c.counted if source.has(run)} for c in cells]
    common = set.intersection(*(set(choice) for choice in choices))
    return [choice[min(common or choice)] for choice in choices]


def _half(figure: Any, drawn: Sequence[Latents], title: str, word: str) -> list[Any]:
    """S and P of every row, coloured alike, with the key below; the axes of the first column."""
    grid = figure.subplots(len(drawn), 2, squeeze=False)
    figure.suptitle(title, fontsize=style.SMALL + 1)
    groups = sorted({int(label) for part in drawn for label in np.unique(part.labels)})
    for row, part in zip(grid, drawn, strict=True):
        _panel(row[0], part.shared, part.labels, groups)
        _panel(row[1], part.private, part.labels, groups)
    for ax, letter in zip(grid[0], "SP", strict=True):
        ax.set_title(letter)
    looks = [style.look(i, len(groups)) | {"linestyle": ""} for i in range(len(groups))]
    handles = [Line2D([], [], **look) for look in looks]
    entries = [f"{word} {group}" for group in groups]
    figure.legend(
        handles,
        entries,
        loc="outside lower center",
        ncols=style.across(entries, style.COLUMN),
        handlelength=1.0,
        columnspacing=1.0,
    )
    return [row[0] for row in grid]


def _panel(
    ax: Any, z: NDArray[np.float32], labels: NDArray[np.int64], groups: Sequence[int]
) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(True)
    ax.spines[:].set_color(style.GREY)
    ax.set_box_aspect(1)
    flat = embed(z) if len(z) >= _FEW else None
    if flat is None:
        few = "too few samples" if len(z) < _FEW else "constant"
        word = few if z.shape[1] else "not there"
        ax.text(0.5, 0.5, word, transform=ax.transAxes, ha="center", va="center")
        return
    for i, group in enumerate(groups):
        look = style.look(i, len(groups)) | {"linestyle": ""}
        ax.plot(*flat[labels == group].T, **look, markersize=2.2, markeredgewidth=0, alpha=0.8)
