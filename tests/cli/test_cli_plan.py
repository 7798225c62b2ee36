"""`clbench run --dry-run`: what is to be trained, and how long it will take."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clbench.cli.plan import Guess, estimates
from clbench.store import Store


def test_a_dry_run_shows_the_plan_and_leaves_no_trace(
    here: Path, clbench: Callable[..., Any]
) -> None:
    result = clbench("run --methods 'ewc[strength=500],@memory' --seeds 0,7 --dry-run")
    assert result.code == 0
    lines = [line for line in result.out.splitlines() if line.startswith("split-mnist-5k")]
    assert len(lines) >= 6
    assert all(line.split()[4:6] == ["missing", "train"] for line in lines)
    assert "ewc[strength=500]" in result.out
    assert f"{len(lines)} of {len(lines)} runs to train" in result.out
    assert not (here / "results").exists()


def test_a_dry_run_knows_what_is_done_and_estimates(
    here: Path, clbench: Callable[..., Any]
) -> None:
    assert clbench("run --methods finetune --benchmarks ./tiny.py --workers 1").code == 0
    plan = clbench("run --methods finetune --benchmarks ./tiny.py --seeds 2 --dry-run --workers 1")
    done, missing = [line for line in plan.out.splitlines() if line.startswith("tiny")]
    assert done.split()[4] == "done"
    assert missing.split()[4:6] == ["missing", "train"]
    assert "1 of 2 runs to train: about" in plan.out
    assert "?" not in missing


def past(here: Path, cell: Any, epochs: list[int], each: float, **changes: Any) -> None:
    """Keep a finished run of `cell` with so many epochs in each task, of so many seconds each."""
    record = {
        "schema": 1, "id": cell.id, "status": "done", "spec": cell.versioned(),
        "labels": cell.labels, "tasks": 3, "done": 3, "R": [], "memory": {}, "data": {},
        "failure": None,
        "curve": [{"task": k + 1} for k, n in enumerate(epochs) for _ in range(n)],
        "seconds": {"train": [n * each for n in epochs], "eval": [1.0, 1.0, 1.0]},
    }  # fmt: skip
    Store(here / "results").prepare()
    Store(here / "results").write(record | changes)


@pytest.mark.parametrize(
    ("epochs", "words"),
    [
        (2, "about 1 min 03 s with 1 worker, from runs with other epochs"),
        (4, "about 2 min 03 s with 2 workers"),  # one run is no shorter for that
        (9, "at most about 4 min 33 s with 1 worker, from runs with other epochs"),
    ],
)
def test_an_estimate_is_by_the_epochs_of_runs_with_another_budget(
    here: Path, clbench: Callable[..., Any], cell: Callable[..., Any], epochs: int, words: str
) -> None:
    past(here, cell(epochs=4), [4, 4, 4], 10.0)
    plan = clbench(
        f"run --methods finetune,ewc --benchmarks ./tiny.py --seeds 1, --epochs {epochs} "
        f"--dry-run --workers {words.partition('with ')[2][0]}"
    )
    known, unknown = [line for line in plan.out.splitlines() if line.startswith("tiny")]
    assert known.endswith(words.removeprefix("about ").replace("about ", "").partition(" with")[0])
    assert unknown.split()[-1] == "?"
    assert f"2 of 2 runs to train: {words}; no past run says how long the other 1 take." in plan.out


def test_a_task_that_stopped_on_its_own_would_again(here: Path, cell: Callable[..., Any]) -> None:
    past(here, cell(epochs=20), [5, 20, 8], 10.0)
    store, fewer, more = Store(here / "results"), cell(epochs=7), cell(epochs=30)
    assert estimates([fewer], store) == {fewer.id: Guess(3 + 19 * 10, ("epochs",), most=False)}
    assert estimates([more], store) == {more.id: Guess(3 + 43 * 10, ("epochs",), most=True)}


def test_an_estimate_is_from_the_runs_that_differ_least(
    here: Path, cell: Callable[..., Any]
) -> None:
    past(here, cell(epochs=4, lr=0.2), [4, 4, 4], 10.0)
    past(here, cell(epochs=4), [4, 4, 4], 20.0)
    past(here, cell(seed=1, epochs=4), [4, 4, 4], 40.0)
    store, other, same = Store(here / "results"), cell(epochs=2), cell(seed=3, epochs=4)
    assert estimates([other], store) == {other.id: Guess(3 + 6 * 30, ("epochs",), most=False)}
    assert estimates([same], store) == {same.id: Guess(3 + 12 * 30, (), most=False)}


def test_a_record_that_lacks_its_times_is_no_past_run(here: Path, cell: Callable[..., Any]) -> None:
    past(here, cell(), [2, 2, 2], 10.0, seconds={})
    assert estimates([cell(seed=1)], Store(here / "results")) == {}
