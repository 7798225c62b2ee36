"""Progress: a tree on a terminal, lines elsewhere."""

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from clbench.cli.progress import Progress, duration
from clbench.grid import make_grid

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


def epoch(task: int, number: int) -> dict[str, Any]:
    return {"kind": "epoch", "task": task, "tasks": 5, "epoch": number, "valid_accuracy": 81.25}


def test_the_tree_shows_benchmark_method_seed_task_and_accuracy(
    progress: Callable[[bool], tuple[Progress, io.StringIO]],
) -> None:
    shown, text = progress(True)
    shown.listen(CELLS[0], {"kind": "start"})
    shown.listen(CELLS[1], {"kind": "task", "task": 1, "tasks": 5, "accuracy": 97.5})
    shown.listen(CELLS[1], epoch(2, 3))
    shown.console.print(shown._tree())
    lines = [" ".join(line.split()) for line in text.getvalue().splitlines()]
    assert "split-mnist-5k" in lines
    assert "ewc seed 0 starting" in lines
    assert "seed 1 task 2 of 5, epoch 3, valid 81.2 %, accuracy so far 97.50 %" in lines
    assert any("0 of 4 runs, about" in line for line in lines)


def test_an_ended_run_counts_once(
    progress: Callable[[bool], tuple[Progress, io.StringIO]], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, text = progress(False)
    monkeypatch.setattr("clbench.cli.progress.time.monotonic", lambda: shown.started + 100)
    shown.listen(CELLS[0], {"kind": "task", "task": 5, "tasks": 5, "accuracy": 90.0})
    shown.listen(CELLS[0], {"kind": "end", "status": "done", "text": ""})
    # one of four runs took 100 s, so three more take 300
    assert text.getvalue().splitlines()[-1].endswith("ACC 90.00 %, about 5 min 00 s left")


def test_without_a_terminal_each_end_is_a_line(
    progress: Callable[[bool], tuple[Progress, io.StringIO]],
) -> None:
    shown, text = progress(False)
    with shown:
        shown.listen(CELLS[0], epoch(1, 1))
        shown.listen(CELLS[0], {"kind": "task", "task": 5, "tasks": 5, "accuracy": 90.0})
        shown.listen(CELLS[0], {"kind": "end", "status": "done", "text": ""})
        shown.listen(CELLS[1], {"kind": "end", "status": "busy", "text": ""})
        shown.listen(CELLS[1], {"kind": "note", "text": "it starts again."})
        shown.listen(CELLS[1], {"kind": "end", "status": "failed", "text": "Oh: [no]"})
    lines = text.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("[1/4] split-mnist-5k ewc seed 0: ACC 90.00 %, about ")
    assert lines[1].startswith("[2/4] split-mnist-5k ewc seed 1: failed: Oh: [no], about ")
    assert shown.notes == ["it starts again."]
    assert {cell_id: end["status"] for cell_id, end in shown.ended.items()} == {
        CELLS[0].id: "done", CELLS[1].id: "failed",
    }  # fmt: skip
