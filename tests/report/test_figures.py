"""What is drawn is what the records say: axes are read back and compared with sums by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import AxesImage

from clbench.errors import UserError
from clbench.record import Record
from clbench.report import tables
from clbench.report.figures import accuracy, capacity, confusion, matrix, memory, replay, style
from clbench.report.figures.picture import Picture

Make = Callable[..., Record]


def drawn(module: Any, records: list[Record]) -> Picture:
    """The figure of records that are all of one benchmark."""
    (table,) = tables(records)
    with style.styled():
        picture: Picture = module.draw(table)
        picture.figure.canvas.draw()
    return picture


def lines_of(ax: Any) -> list[list[tuple[float, float]]]:
    """The points of every line of an axes, in the order they were drawn."""
    return [[(float(x), float(y)) for x, y in line.get_xydata()] for line in ax.lines]


def legend_of(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def three(
    record: Make, seed: int, shift: float = 0.0, method: str = "ewc", **changes: Any
) -> Record:
    """Three tasks; R is lower triangular but for one task ahead."""
    R = [
        [90.0 + shift, 50.0, None],
        [80.0 + shift, 92.0, 40.0],
        [70.0 + shift, 82.0, 94.0],
    ]
    return record(method, seed, R=R, tasks=3, done=3, R0=[10.0, 10.0, 10.0], **changes)


def test_accuracy_is_the_mean_over_seeds_from_the_task_on(record: Make) -> None:
    figure = drawn(accuracy, [three(record, 0), three(record, 1, shift=2.0)]).figure
    first, second, third, mean = lines_of(figure.axes[0])
    assert first == [(1, 91), (2, 81), (3, 71)]
    assert second == [(2, 92), (3, 82)]  # the 50 of before it was learned is not shown
    assert third == [(3, 94)]
    assert mean == [(1, 91), (2, 86.5), (3, pytest.approx((71 + 82 + 94) / 3))]
    (band, *_) = figure.axes[0].collections
    top = band.get_paths()[0].vertices[:, 1].max()
    assert top == pytest.approx(91 + np.sqrt(2))  # the sample standard deviation of 90 and 92
    assert legend_of(figure) == ["task 1", "task 2", "task 3", "mean of the tasks so far"]


def test_methods_have_a_panel_each_and_what_may_not_be_averaged_stays_apart(record: Make) -> None:
    other = three(record, 0, protocol={"epochs": 4})
    figure = drawn(accuracy, [three(record, 0), other, three(record, 0, method="agem")]).figure
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == ["ewc", "agem", "ewc (epochs=4)"]


def test_joint_training_has_only_its_last_row(grid: list[Record]) -> None:
    figure = drawn(accuracy, grid).figure
    joint = next(ax for ax in figure.axes if ax.get_title() == "joint")
    assert lines_of(joint) == [[(2, 96)], [(2, 85)], [(2, 90.5)]]


def test_many_tasks_are_told_apart_by_shades_with_a_bar(record: Make) -> None:
    n = 12
    R = [[80.0 + i if i <= k else None for i in range(n)] for k in range(n)]
    figure = drawn(accuracy, [record(R=R, tasks=n, done=n, R0=[1.0] * n)]).figure
    panel, bar = figure.axes
    assert bar.get_ylabel() == "task"
    lightness = [sum(to_rgb(line.get_color())) for line in panel.lines[:n]]
    assert lightness == sorted(lightness)
    assert legend_of(figure) == ["mean of the tasks so far"]


def test_the_heat_map_is_r_with_numbers_and_gaps(record: Make) -> None:
    figure = drawn(matrix, [three(record, 0), three(record, 1, shift=2.0)]).figure
    ax = figure.axes[0]
    (image,) = [child for child in ax.get_children() if isinstance(child, AxesImage)]
    shown = image.get_array().filled(np.nan)
    expected = [[91, 50, np.nan], [81, 92, 40], [71, 82, 94]]
    np.testing.assert_allclose(shown, expected)
    places = {text.get_position(): text.get_text() for text in ax.texts}
    assert places[(1, 3)] == "71.0"  # task 1 after task 3
    assert len(places) == 8  # the gap has no number
    assert image.get_clim() == (40, 100)
    assert len(ax.patches) == 3  # frames of the diagonal


def test_confusion_is_the_mean_share_of_answers_per_task(by_class: Make) -> None:
    picture = drawn(confusion, [by_class(0), by_class(1, (65.0, 35.0))])
    ax = picture.figure.axes[0]
    (image,) = [child for child in ax.get_children() if isinstance(child, AxesImage)]
    np.testing.assert_allclose(image.get_array(), [[70, 30], [10, 90]])
    assert "Class-incremental" in picture.text()


def test_confusion_without_class_incremental_runs_says_what_to_name(record: Make) -> None:
    with pytest.raises(UserError, match="scenario=class"):
        drawn(confusion, [record()])


def test_a_title_stays_off_the_bar_beside_the_heat_maps(record: Make) -> None:
    name = "gem[epochs=10,lr=0.05,patience=2000]"
    figure = drawn(matrix, [three(record, 0, method=m) for m in ("ewc", "agem", name)]).figure
    *panels, bar = figure.axes
    titles = [ax.title.get_window_extent() for ax in panels]
    assert max(box.x1 for box in titles) < bar.get_window_extent().x0


def test_large_heat_maps_have_no_numbers(record: Make) -> None:
    n = 13
    R = [[80.0 if i <= k else None for i in range(n)] for k in range(n)]
    figure = drawn(matrix, [record(R=R, tasks=n, done=n, R0=[1.0] * n)]).figure
    assert not figure.axes[0].texts


def test_the_pareto_front_holds_who_is_not_beaten_and_no_reference(record: Make) -> None:
    def point(method: str, mb: float, acc: float, **more: Any) -> Record:
        return record(method, 0, (acc, acc), memory__architecture=int(mb * 1e6), **more)

    records = [
        point("ewc", 1, 80),
        point("agem", 1.5, 85, memory__replay=500_000),  # 2 MB in all
        point("pnn", 3, 84),  # beaten by agem
        point("hat", 3, 90, family="structure"),
        point("gem", 4, 90, family="memory"),  # as good as hat, but larger
        point("joint", 0.5, 99, R=[[None, None], [99.0, 99.0]]),  # a reference
    ]
    figure = drawn(memory, records).figure
    (front,) = memory.pareto_fronts(tables(records)[0].rows)
    assert front == [(1, 80), (2, 85), (3, 90)]
    ax = figure.axes[0]
    assert lines_of(ax)[-1] == [(1, 80), (2, 85), (3, 90), (ax.get_xlim()[1], 90)]
    points = [line[0] for line in lines_of(ax)[:-1] if len(line) == 1]
    assert sorted(points) == [(0.5, 99), (1, 80), (2, 85), (3, 84), (3, 90), (4, 90)]
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    assert all(left < x < right and low < y < high for x, y in points)
    assert legend_of(figure)[-1] == "Pareto front"


def test_runs_under_another_protocol_have_a_front_of_their_own(record: Make) -> None:
    other = record("agem", 0, (99.0, 99.0), protocol={"epochs": 4})
    records = [record("ewc", 0, (80.0, 80.0)), other]
    picture = drawn(memory, records)
    assert memory.pareto_fronts(tables(records)[0].rows) == [[(1.08, 80)], [(1.08, 99)]]
    assert "have fronts of their own" in picture.text()


def sized(
    record: Make, method: str, size: int, seed: int, acc: float, key: str = "kept", **changes: Any
) -> Record:
    """A run whose parameter `key` says how many samples it keeps; 13 is its default."""
    label = f"{method}[{key}={size}]" if size != 13 else method
    changes |= {"family": "memory", "replay_size": key, "spec__method__params": {key: size}}
    return record(label, seed, (acc, acc), **changes)


def test_replay_sizes_are_lines_of_acc_and_bwt(record: Make) -> None:
    records = [
        sized(record, "agem", 1, 0, 80.0),
        sized(record, "agem", 1, 1, 82.0),
        sized(record, "agem", 13, 0, 90.0),
        sized(record, "agem", 13, 1, 90.0),
        sized(record, "er-res", 5, 0, 85.0),
        record("ewc", 0),  # keeps nothing
    ]
    picture = drawn(replay, records)
    left, right = picture.figure.axes
    series = [line for line in lines_of(left) if line]
    assert [(1, 81), (13, 90)] in series
    assert [(5, 85)] in series
    assert [(1, -14), (13, -5)] in lines_of(right)  # against the 95 of when it was learned
    assert legend_of(picture.figure) == ["agem", "er-res"]
    assert [int(t) for t in left.get_xticks()] == [1, 5, 13]


def test_a_line_of_sizes_is_named_without_the_size(record: Make) -> None:
    def of(size: int, step: int, seed: int = 0, **changes: Any) -> Record:
        one = sized(record, "agem", size, seed, 80.0, **changes)
        one.spec.method.params["step"] = step
        one.differs.method |= {"step": step} if step != 5 else {}
        one.id = f"{size:04}{step:04}{seed:04}{len(changes)}"
        return one

    (table,) = tables(
        [of(*size) for size in ((1, 5), (13, 5), (1, 7), (2, 7))]
        + [of(size, 5, spec__protocol__lr=0.5) for size in (1, 2)]
    )
    lines = replay.by_size(table.rows)
    assert {name: list(sizes) for name, sizes in lines.items()} == {
        "agem": [1, 13],
        "agem[step=7]": [1, 2],
        "agem (lr=0.5)": [1, 2],
    }


def shares(record: Make, seed: int, first: float, unit: str = "%") -> Record:
    return record(
        "mine",
        seed,
        diagnostics=[{"used": [first, 30.0]}, {"used": [60.0, 70.0]}],
        lays_open={"used": {"title": "Share in use", "kind": "layers", "unit": unit}},
    )


def test_capacity_is_a_line_per_layer(record: Make) -> None:
    picture = drawn(capacity, [shares(record, 0, 20.0), shares(record, 1, 40.0), record("ewc", 0)])
    (ax,) = picture.figure.axes
    assert lines_of(ax) == [[(1, 30), (2, 60)], [(1, 30), (2, 70)]]
    assert legend_of(picture.figure) == ["layer 1", "layer 2"]
    assert "Share in use (%)" in picture.text()


def test_layers_that_are_no_shares_are_not_drawn_as_capacity(record: Make) -> None:
    with pytest.raises(UserError, match="two-tasks has none"):
        drawn(capacity, [shares(record, 0, 20.0, unit="")])


def test_two_entries_of_one_method_have_a_panel_each(record: Make) -> None:
    one = shares(record, 0, 20.0)
    one.lays_open["free"] = one.lays_open["used"].__class__(title="Free", kind="layers", unit="%")
    one.diagnostics = [entry | {"free": [1.0]} for entry in one.diagnostics]
    figure = drawn(capacity, [one]).figure
    assert [ax.get_title() for ax in figure.axes] == ["mine: Share in use", "mine: Free"]


@pytest.mark.parametrize("name", ["a_$x^2$_b%", "_hidden", r"$\frac{1}$", "中文", "tab\tand\nline"])
def test_names_are_literal(record: Make, name: str) -> None:
    figure = drawn(memory, [record(name, 0), record("ewc", 0)]).figure
    shown = {"中文": "[U+4E2D][U+6587]", "tab\tand\nline": "tab and line"}.get(name, name)
    assert shown in legend_of(figure)
    assert all(not text.get_parse_math() for text in figure.legends[0].get_texts())


def test_long_names_lose_their_middle_and_stay_apart(record: Make) -> None:
    long = [f"mine[{'x' * 300}={end}]" for end in ("1", "2")] + ["y" * 100 + "a" + "y" * 100]
    long.append("y" * 100 + "b" + "y" * 100)
    picture = drawn(memory, [record(name, 0, family="memory") for name in long])
    shown = legend_of(picture.figure)
    assert len(set(shown)) == 5
    assert all(len(name) <= 50 for name in shown)
    assert all(name in picture.text() for name in long)  # in full in the caption
    drawn(accuracy, [three(record, 0, method=name) for name in long])


def test_the_caption_says_what_seeds_protocol_runs_and_what_is_missing(
    grid: list[Record], record: Make
) -> None:
    failed = record("finetune", 7, status="failed", R=[], done=0)
    said = " ".join(drawn(accuracy, [*grid, failed]).text().split())
    assert said.startswith("Two Tasks (two-tasks). Test accuracy (%) on each task")
    assert "mean and sample standard deviation over 2 seeds (0, 1)" in said
    assert "Protocol: lr=0.05" in said
    assert "finetune: 1 of 3 seeds failed (seed 7)." in said
    assert all(one.id in said for one in grid)


def test_the_caption_is_about_the_setting_that_names_differ_from(record: Make) -> None:
    """Only agem records its memory, yet its name says what sets it apart from the others."""
    odd = {"protocol": {"lr": 0.5}}
    bare = {"memory": {}}
    records = [record("ewc", 0, **bare), record("pnn", 0, **bare), record("agem", 0, **odd)]
    picture = drawn(memory, records)
    assert legend_of(picture.figure)[0] == "agem (lr=0.5)"
    said = " ".join(picture.text().split())
    assert "Protocol: lr=0.05, momentum=0" in said
    assert "A method made with anything else says so in parentheses." in said


def test_looks_differ_without_colour() -> None:
    for n in (5, 7):
        looks = [style.look(i, n) for i in range(n)]
        assert len({look["marker"] for look in looks}) == n
        assert len({look["color"] for look in looks}) == n
    everything = {(look["color"], look["marker"]) for look in map(style.look, range(24))}
    assert len(everything) == 24
