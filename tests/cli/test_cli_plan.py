"""`clbench run --dry-run`: what is to be trained, and how long it will take."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clbench.cli.plan import Guess, estimates
from clbench.record import Clock, Epoch, Record
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


def past(here: Path, cell: Any, epochs: list[int], each: float, train: bool = True) -> None:
    """Keep a finished run of `cell` with so many epochs in each task, of so many seconds each."""
    curve = [
        Epoch(task=k + 1, epoch=n + 1, lr=0.1, loss=1.0, valid_loss=1.0, valid_accuracy=50.0)
        for k, count in enumerate(epochs)
        for n in range(count)
    ]
    clock = Clock(train=[n * each for n in epochs] if train else [], eval=[1.0, 1.0, 1.0])
    record = Record(
        id=cell.id,
        status="done",
        spec=cell.versioned(),
        differs=cell.differs,
        tasks=3,
        done=3,
        R=[[50.0] * 3] * 3,
        curve=curve,
        seconds=clock,
    )
    Store(here / "results").prepare()
    Store(here / "results").write(record)


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
    past(here, cell(), [2, 2, 2], 10.0, train=False)
    assert estimates([cell(seed=1)], Store(here / "results")) == {}


@pytest.mark.parametrize("device", ["no-such-device", "meta"])
def test_a_dry_run_names_a_device_that_does_not_exist(
    here: Path, clbench: Callable[..., Any], device: str
) -> None:
    plan = clbench(f"run --methods finetune --benchmarks ./tiny.py --device {device} --dry-run")
    assert plan.code == 2
    assert "1 of 1 runs to train" in plan.out, "the plan comes first"
    assert f"--device {device}" in plan.err
    assert not (here / "results").exists()


def test_a_dry_run_names_what_a_method_declares_to_refuse(
    here: Path, clbench: Callable[..., Any]
) -> None:
    plan = clbench("run --methods finetune,hat --benchmarks ./tiny.py --weight-decay 0.1 --dry-run")
    assert plan.code == 2
    assert "2 of 2 runs to train" in plan.out
    assert "weight_decay=0.1" in plan.err


def test_a_dry_run_names_all_data_that_are_missing_or_not_accepted(
    some_mnist: Path, clbench: Callable[..., Any]
) -> None:
    command = "run --methods finetune --benchmarks split-mnist,split-cifar100 --dry-run"
    plan = clbench(f"{command} --data-root some-mnist")
    assert plan.code == 2
    assert "2 of 2 runs to train" in plan.out
    assert "cifar-100-python" in plan.err
    assert "--accept-data" in plan.err, "5,000 of the 70,000 digits"
    accepted = clbench(f"{command} --data-root some-mnist --accept-data")
    assert accepted.code == 2
    assert "cifar-100-python" in accepted.err
    assert "--accept-data" not in accepted.err


def test_a_dry_run_of_finished_runs_needs_no_data(
    some_mnist: Path, clbench: Callable[..., Any]
) -> None:
    command = "run --methods finetune --benchmarks split-mnist --epochs 1 --accept-data --data-root"
    assert clbench(f"{command} some-mnist").code == 0
    plan = clbench(f"{command} nowhere --dry-run")
    assert (plan.code, plan.err) == (0, "")
    assert "0 of 1 runs to train" in plan.out
    assert clbench(f"{command} nowhere").code == 0
    assert clbench(f"{command} nowhere --rerun all").code == 2


@pytest.mark.parametrize("width", [80, 120])
def test_a_plan_fits_the_terminal(
    here: Path, clbench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    method = "acl[discriminator=false,diff=0.1]"
    plan = clbench(f"run --methods '{method}' --benchmarks './tiny.py[tasks=4]' --dry-run")
    table = plan.out.split("\n\n")[0]
    assert max(map(len, table.splitlines())) <= width
    assert "missing" in table
