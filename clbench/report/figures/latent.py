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
from clbench.report.figures.checkpoints import SAMPLES, Checkpoints, spaces
from clbench.report.figures.picture import LackingError, Picture, rows, words
from clbench.report.runs import Run
from clbench.report.table import Table

MOST = 6
"""Rows that fit on a page."""
PERPLEXITY = 30.0
_FLAT = 1e-6  # a z that varies less than this over all samples is constant
_FEW = 4
_WORDS, _ONE_LINE = 5, 10  # most entries of a key that say what they are, and in one line
_SIDE = 24  # characters beside a row
_COLOURS = (*style.COLOURS, "#882255", "#999933", "#AAAAAA")  # ten tasks, without shape to help


def draw(table: Table, source: Checkpoints) -> Picture:
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
        raise LackingError(
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
    classes = sorted({int(c) for one in drawn for c in np.unique(one.last.labels)})
    shown = sorted({int(k) for one in drawn for k in np.unique(one.first.labels)})
    tasks, first = runs[0].tasks, shown[-1]
    names = labels(kept)
    sides = [style.wrapped(name, _SIDE) for name in names]
    figure, grid = _grid(
        len(kept),
        left=0.34 if any("\n" in side for side in sides) else 0.22,
        bottom=0.22 if max(len(classes), len(shown)) <= _ONE_LINE else 0.36,
    )
    for axes, one, side in zip(grid, drawn, sides, strict=True):
        axes[0].set_ylabel(side, fontsize=style.SMALL)
        for two, part, groups in ((axes[:2], one.last, classes), (axes[2:], one.first, shown)):
            for ax, z in zip(two, (part.shared, part.private), strict=True):
                _panel(ax, z, part.labels, groups)
    for ax, letter in zip(grid[0], "SPSP", strict=True):
        ax.set_title(letter, pad=2)
    _key(figure, grid[0][:2], f"task {tasks}, by class", "class", classes)
    _key(figure, grid[0][2:], f"tasks 1 to {first}, by task", "task", shown)
    what = [
        f"t-SNE (perplexity {PERPLEXITY:g}, PCA start, seed 0) of z_S = S(x) and z_P = P(x) of "
        f"test data after the last task: left, task {tasks} by class; right, tasks 1 to {first} by "
        "task, each through its own P.",
        f"At most {SAMPLES:,} samples a panel. Axes have no unit, and places in different panels "
        "cannot be compared.",
        "Drawn from "
        + "; ".join(f"{run.method}, seed {run.seed} (run {run.id})" for run in runs)
        + ".",
    ]
    missing = [cell.name for cell in cells if cell not in kept]
    if missing:
        what.append(f"Without a checkpoint, and so not drawn: {', '.join(missing)}.")
    return Picture(figure, words(table, kept, what, names, runs))


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
    return style.names([cell.name for cell in cells], 2 * _SIDE)


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


def _same_seed(cells: Sequence[Cell], source: Checkpoints) -> list[Run]:
    """A run of each row with a checkpoint: of the lowest seed that all have, else of its own."""
    choices = [{run.seed: run for run in c.counted if source.has(run)} for c in cells]
    common = set.intersection(*(set(choice) for choice in choices))
    return [choice[min(common or choice)] for choice in choices]


def _grid(rows: int, left: float, bottom: float) -> tuple[Any, list[list[Any]]]:
    """Square panels, four in a row, with room (in inches) for row names and for keys."""
    gap, middle, top = 0.06, 0.22, 0.3  # inches
    side = (style.TEXT - left - 2 * gap - middle - 0.02) / 4
    height = top + rows * (side + gap) + bottom
    figure = style.new_figure(style.TEXT, height)
    figure.set_layout_engine("none")
    columns = [left + i * (side + gap) + (i > 1) * (middle - gap) for i in range(4)]
    grid = []
    for row in range(rows):
        y = height - top - row * (side + gap) - side
        boxes = [(x / style.TEXT, y / height, side / style.TEXT, side / height) for x in columns]
        grid.append([figure.add_axes(box) for box in boxes])
    return figure, grid


def _key(figure: Any, axes: Sequence[Any], title: str, word: str, groups: Sequence[int]) -> None:
    """What one half of the figure shows, above it, and what its colours mean, below."""
    centre = (axes[0].get_position().x0 + axes[1].get_position().x1) / 2
    figure.text(centre, 0.995, title, ha="center", va="top", fontsize=style.SMALL + 1)
    looks = [_look(i) for i in range(len(groups))]
    one_line = len(groups) <= _ONE_LINE
    figure.legend(
        [Line2D([], [], **look) for look in looks],
        [f"{word} {group}" if len(groups) <= _WORDS else str(group) for group in groups],
        loc="lower center",
        bbox_to_anchor=(centre, 0.0),
        ncols=len(groups) if one_line else -(-len(groups) // 2),
        handlelength=0.8,
        handletextpad=0.4,
        columnspacing=1.0,
    )


def _panel(
    ax: Any, z: NDArray[np.float32], labels: NDArray[np.int64], groups: Sequence[int]
) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(True)
    ax.spines[:].set_color(style.GREY)
    flat = embed(z) if len(z) >= _FEW else None
    if flat is None:
        few = "too few samples" if len(z) < _FEW else "constant"
        word = few if z.shape[1] else "not there"
        ax.text(0.5, 0.5, word, transform=ax.transAxes, ha="center", va="center")
        return
    for i, group in enumerate(groups):
        ax.plot(*flat[labels == group].T, **_look(i), markersize=2.2, markeredgewidth=0, alpha=0.8)


def _look(i: int) -> dict[str, Any]:
    return style.look(i) | {"linestyle": "", "color": _COLOURS[i % len(_COLOURS)]}
