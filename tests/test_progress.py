"""Progress: a tree on a terminal, lines elsewhere."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from clbench.events import Ended, EpochEnded, Note, Started, TaskEnded
from clbench.grid import make_grid
from clbench.progress import QUIET_SECONDS, Progress, duration
from clbench.record import Epoch

CELLS = make_grid("ewc,er-res", "split-mnist-5k", [0, 1], {})


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"),
     (3599.7, "1 h 00 min"), (7500, "2 h 05 min")],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.fixture
def progress() -> Callable[[bool], tuple[Progress, io.StringIO]]:
    def make(terminal: bool) -> tuple[Progress, io.StringIO]:
        text = io.StringIO()
        console = Console(file=text, force_terminal=terminal, width=120, color_system=None)
        return Progress(CELLS, console), text

    return make


def epoch(task: int, number: int) -> EpochEnded:
    return EpochEnded(
        task,
        5,
        Epoch(task=task, epoch=number, lr=0.1, loss=1.0, valid_loss=1.0, valid_accuracy=81.25),
    )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the progress takes for the time; a test sets it."""
    now = [1000.0]
    monkeypatch.setattr("clbench.progress.time.monotonic", lambda: now[0])
    return now


def test_the_tree_shows_benchmark_method_seed_task_and_accuracy(
    progress: Callable[[bool], tuple[Progress, io.StringIO]],
) -> None:
    shown, text = progress(True)
    shown.listen(CELLS[0], Started())
    shown.listen(CELLS[1], TaskEnded(1, 5, 97.5))
    shown.listen(CELLS[1], epoch(2, 3))
    shown.console.print(shown._tree())
    lines = [" ".join(line.split()) for line in text.getvalue().splitlines()]
    assert "split-mnist-5k" in lines
    assert "ewc seed 0 starting" in lines
    assert "seed 1 task 2 of 5, epoch 3, valid 81.2 %, accuracy so far 97.50 %" in lines
    assert any("0 of 4 runs, about" in line for line in lines)


def test_an_ended_run_counts_once(
    progress: Callable[[bool], tuple[Progress, io.StringIO]], clock: list[float]
) -> None:
    shown, text = progress(False)
    clock[0] += 100
    shown.listen(CELLS[0], TaskEnded(5, 5, 90.0))
    shown.listen(CELLS[0], Ended("done"))
    # one of four runs took 100 s, so three more take 300
    assert text.getvalue().splitlines()[-1].endswith("ACC 90.00 %, about 5 min 00 s left")


def test_a_resumed_run_counts_only_the_tasks_that_are_left(
    progress: Callable[[bool], tuple[Progress, io.StringIO]], clock: list[float]
) -> None:
    shown, _ = progress(False)
    shown.cells = CELLS[:1]
    shown.listen(CELLS[0], Started())
    shown.listen(CELLS[0], epoch(4, 1))  # tasks 1 to 3 are those of an earlier command
    clock[0] += 100
    shown.listen(CELLS[0], TaskEnded(4, 5, 90.0))
    assert shown._left() == "about 1 min 40 s left", "one of two tasks took 100 s"


def test_without_a_terminal_each_end_is_a_line(
    progress: Callable[[bool], tuple[Progress, io.StringIO]],
) -> None:
    shown, text = progress(False)
    with shown:
        shown.listen(CELLS[0], TaskEnded(5, 5, 90.0))
        shown.listen(CELLS[0], Ended("done"))
        shown.listen(CELLS[1], Note("it starts again."))
        shown.listen(CELLS[1], Ended("failed", "Oh: [no]"))
    lines = text.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("[1/4] split-mnist-5k ewc seed 0: ACC 90.00 %, about ")
    assert lines[1] == "Note: it starts again."
    assert lines[2].startswith("[2/4] split-mnist-5k ewc seed 1: failed: Oh: [no], about ")


def test_without_a_terminal_a_run_has_a_line_at_once_and_then_one_per_quiet_time(
    progress: Callable[[bool], tuple[Progress, io.StringIO]], clock: list[float]
) -> None:
    shown, text = progress(False)
    shown.listen(CELLS[0], Started())
    shown.listen(CELLS[1], Started())
    first, second = text.getvalue().splitlines()
    assert str(CELLS[0]) in first
    assert str(CELLS[1]) in second
    for n in range(4 * QUIET_SECONDS + 1):  # an epoch per second, all in the first task
        shown.listen(CELLS[0], epoch(1, n + 1))
        clock[0] += 1
    lines = text.getvalue().splitlines()[2:]
    assert len(lines) == 4
    assert "task 1 of 5" in lines[0]
    assert f"epoch {QUIET_SECONDS + 1}," in lines[0]
    shown.listen(CELLS[1], epoch(1, 1))  # its own last line is long ago
    assert str(CELLS[1]) in text.getvalue().splitlines()[-1]
