"""t-SNE of the latent spaces that methods lay open, a row per method, from checkpoints.

Left, test data of the last task by class; right, of the first tasks by task. A panel for each
space that some method declares.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from clbench.errors import UserError
from clbench.report.figures import style
from clbench.report.figures.checkpoints import SAMPLES, Checkpoints, drawn
from clbench.report.figures.picture import LackingError, Picture, shown_rows, words
from clbench.report.installed import laying_open, suggestion
from clbench.report.rows import Row, differences
from clbench.report.runs import Run
from clbench.report.table import Table

MOST = 6
"""Rows, and spaces in a row, that fit on a page."""
PERPLEXITY = 30.0
_FLAT = 1e-6  # a z that varies less than this over all samples is constant
_FEW = 4
_WORDS, _ONE_LINE = 5, 10  # most entries of a key that say what they are, and in one line
_SIDE = 24  # characters beside a row
_COLOURS = (*style.COLOURS, "#882255", "#999933", "#AAAAAA")  # ten tasks, without shape to help


def draw(table: Table, source: Checkpoints) -> Picture:
    """A row of panels per method: every space for the last task, then for the first tasks."""
    rows = shown_rows(
        table,
        "latent",
        tasks=2,
        wants=lambda row: bool(space_names(row)),
        lacking="The figure 'latent' needs runs of a method that lays latent spaces open, and "
        f"{table.benchmark} has none{suggestion(','.join(laying_open('spaces')))}.",
    )
    kept = [row for row in rows if any(source.has(run) for run in row.counted)]
    if not kept:
        raise LackingError(
            f"The figure 'latent' needs checkpoints, and {source.out / 'checkpoints'} has none of "
            f"{', '.join(row.name for row in rows)} on {table.benchmark}: clbench run --rerun all "
            "trains them again."
        )
    if len(kept) > MOST:
        raise UserError(
            f"{len(kept)} methods are too many for the figure 'latent' (at most {MOST}): choose "
            f"some with --methods, for example --methods '{kept[0].head.method}'."
        )
    spaces = list(dict.fromkeys(name for row in kept for name in space_names(row)))
    if len(spaces) > MOST:
        raise UserError(
            f"{len(spaces)} latent spaces are too many for a figure (at most {MOST}): choose some "
            "of the methods with --methods."
        )
    runs = _same_seed(kept, source)
    found = [drawn(run, source) for run in runs]
    classes = sorted({int(c) for one in found for c in np.unique(one.last.labels)})
    shown = sorted({int(k) for one in found for k in np.unique(one.first.labels)})
    tasks, first, half = runs[0].tasks, shown[-1], len(spaces)
    names = labels(kept)
    sides = [style.wrapped(name, _SIDE) for name in names]
    figure, grid = _grid(
        len(kept),
        half,
        left=0.34 if any("\n" in side for side in sides) else 0.22,
        bottom=0.22 if max(len(classes), len(shown)) <= _ONE_LINE else 0.36,
    )
    for axes, one, side in zip(grid, found, sides, strict=True):
        axes[0].set_ylabel(side, fontsize=style.SMALL)
        for ax, name in zip(axes[:half], spaces, strict=True):
            _panel(ax, one.last.spaces.get(name), one.last.labels, classes)
        for ax, name in zip(axes[half:], spaces, strict=True):
            _panel(ax, one.first.spaces.get(name), one.first.labels, shown)
    for ax, name in zip(grid[0], style.names(spaces, 12) * 2, strict=True):
        ax.set_title(name, pad=2)
    _key(figure, grid[0][:half], f"task {tasks}, by class", "class", classes)
    _key(figure, grid[0][half:], f"tasks 1 to {first}, by task", "task", shown)
    behind = "; ".join(f"{run.method}, seed {run.seed} (run {run.id})" for run in runs)
    what = [
        f"t-SNE (perplexity {PERPLEXITY:g}, PCA start, seed 0) of the latent spaces "
        f"{' and '.join(spaces)} of test data after the last task: left, task {tasks} by class; "
        f"right, tasks 1 to {first} by task, each as the network computes it for that task.",
        f"At most {SAMPLES:,} samples per panel. Axes have no unit, and positions in different "
        "panels cannot be compared.",
        f"Drawn from {behind}.",
    ]
    if missing := [row.name for row in rows if row not in kept]:
        what.append(f"Not drawn, as there is no checkpoint: {', '.join(missing)}.")
    return Picture(figure, words(table, kept, what, names, runs))


def space_names(row: Row) -> list[str]:
    """The latent spaces that the method of a row lays open."""
    entries = row.head.lays_open.values()
    return [name for shown in entries if shown.kind == "spaces" for name in shown.names]


def labels(rows: Sequence[Row]) -> list[str]:
    """`key=value` if one parameter is all that tells two rows apart, else their names."""
    if len(rows) == 2 and rows[0].head.setting == rows[1].head.setting:
        learners = [row.head.learner for row in rows]
        apart = [differences(own, learners) for own in learners]
        if len(apart[0]) == 1:
            return [text for words in apart for text in words.values()]
    return style.names([row.name for row in rows], 2 * _SIDE)


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


def _same_seed(rows: Sequence[Row], source: Checkpoints) -> list[Run]:
    """A run of each row with a checkpoint: of the lowest seed that all have, else of its own."""
    choices = [{run.seed: run for run in row.counted if source.has(run)} for row in rows]
    common = set.intersection(*(set(choice) for choice in choices))
    return [choice[min(common or choice)] for choice in choices]


def _grid(rows: int, spaces: int, left: float, bottom: float) -> tuple[Any, list[list[Any]]]:
    """Square panels, two halves of `spaces` in a row, with room (in inches) for names and keys."""
    gap, middle, top = 0.06, 0.22, 0.3
    across = 2 * spaces
    side = min((style.TEXT - left - (across - 2) * gap - middle - 0.02) / across, 2.2)
    height = top + rows * (side + gap) + bottom
    figure = style.new_figure(style.TEXT, height)
    figure.set_layout_engine("none")
    columns = [left + i * (side + gap) + (i >= spaces) * (middle - gap) for i in range(across)]
    grid = []
    for row in range(rows):
        y = height - top - row * (side + gap) - side
        boxes = [(x / style.TEXT, y / height, side / style.TEXT, side / height) for x in columns]
        grid.append([figure.add_axes(box) for box in boxes])
    return figure, grid


def _key(figure: Any, axes: Sequence[Any], title: str, word: str, groups: Sequence[int]) -> None:
    """What one half of the figure shows, above it, and what its colours mean, below."""
    centre = (axes[0].get_position().x0 + axes[-1].get_position().x1) / 2
    figure.text(centre, 0.995, title, ha="center", va="top", fontsize=style.SMALL + 1)
    figure.legend(
        [Line2D([], [], **_look(i)) for i in range(len(groups))],
        [f"{word} {group}" if len(groups) <= _WORDS else str(group) for group in groups],
        loc="lower center",
        bbox_to_anchor=(centre, 0.0),
        ncols=len(groups) if len(groups) <= _ONE_LINE else -(-len(groups) // 2),
        handlelength=0.8,
        handletextpad=0.4,
        columnspacing=1.0,
    )


def _panel(
    ax: Any, z: NDArray[np.float32] | None, labels: NDArray[np.int64], groups: Sequence[int]
) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(True)
    ax.spines[:].set_color(style.GREY)
    flat = embed(z) if z is not None and len(z) >= _FEW else None
    if flat is None:
        few = "too few samples" if len(labels) < _FEW else "constant"
        word = few if z is not None and z.shape[1] else "not there"
        ax.text(0.5, 0.5, word, transform=ax.transAxes, ha="center", va="center")
        return
    for i, group in enumerate(groups):
        ax.plot(*flat[labels == group].T, **_look(i), markersize=2.2, markeredgewidth=0, alpha=0.8)


def _look(i: int) -> dict[str, Any]:
    return style.look(i) | {"linestyle": "", "color": _COLOURS[i % len(_COLOURS)]}
