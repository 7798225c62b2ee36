"""Which trials go on, which is the best, and that a search that was stopped finds the same."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made import record

from clbench.errors import UserError
from clbench.grid import chosen
from clbench.record import Failure
from clbench.runner import run
from clbench.spec import Cell
from clbench.store import Store
from clbench.tuning import outcome
from clbench.tuning.outcome import Entry
from clbench.tuning.plan import Effort, Target, keep, searches
from clbench.tuning.search import (
    SEEDS,
    Search,
    UnfinishedError,
    affordable,
    carry_out,
    most_epochs,
)

FACTS = {"tuned_on": "tiny", "looked_at": "first 3 tasks", "clbench": "0", "command": "clbench"}


@pytest.fixture
def search(tiny: Path) -> Callable[..., Search]:
    """A search on the tiny benchmark."""

    def make(method: str = "ewc", trials: int = 8, tasks: int = 3, **how: Any) -> Search:
        [(benchmark, values)] = chosen("benchmark", str(tiny))
        [(declared, given)] = chosen("method", method)
        overrides = how.pop("overrides", {})
        return Search(declared, given, benchmark, values, overrides, tasks, trials, **how)

    return make


@pytest.fixture
def store(place: Any) -> Store:
    made = Store(place.out)
    made.prepare()
    return made


class Scores:
    """Trains nothing: a run has the accuracies that a test has written down for its trial."""

    def __init__(self, search: Search, store: Store, early: list[Any], late: list[Any]) -> None:
        self.store, self.early, self.late = store, early, late
        self.number = {self._key(cell): i for i, cell in enumerate(search.cells)}
        self.trained: list[tuple[int, int, int | None]] = []
        """Trial, seed and last task, in order."""

    def _key(self, cell: Cell) -> str:
        return replace(cell, spec=replace(cell.spec, seed=0)).id

    def __call__(self, cells: list[Cell]) -> None:
        for cell in cells:
            i = self.number[self._key(cell)]
            self.trained.append((i, cell.spec.seed, cell.until))
            self.write(cell, self.early[i], self.late[i])

    def write(self, cell: Cell, early: Any, late: Any) -> None:
        at = SEEDS.index(cell.spec.seed)
        last = late[at] if isinstance(late, tuple) else late
        rows = [[50.0, None, None], [early, early, None], [last, last, last]]
        done = cell.until or 3
        if early is None or last is None:  # it fails in the second or in the last task
            done = 1 if early is None else min(done, 2)
        made: dict[str, Any] = {"spec": cell.versioned(), "tasks": 3, "done": done, "data": {}}
        made |= {"status": "done" if done == 3 else "partial", "R": rows[:done]}
        if early is None or (last is None and cell.until is None):
            made |= {"status": "failed", "failure": Failure(error="x", traceback="")}
        self.store.write(record(cell.id, **made))


def test_half_of_the_trials_stop_early_and_the_best_three_are_repeated(
    search: Callable[..., Search], store: Store
) -> None:
    made = search(trials=8)
    early = [10.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, None]
    late = [20.0, 80.0, 90.0, (75.0, 50.0, 10.0), 70.0, 99.0, 99.0, 99.0]
    train = Scores(made, store, early, late)
    assert carry_out([made], train, store) == [made]
    first, rest = train.trained[:8], train.trained[8:]
    assert first == [(i, 1000, 2) for i in range(8)]
    # the better half, and the usual values although they are the worst
    assert rest[:5] == [(i, 1000, None) for i in (0, 1, 2, 3, 4)]
    repeated = {(i, seed, None) for i in (0, 1, 2, 3) for seed in (1001, 1002)}
    assert set(rest[5:]) == repeated
    entry = made.entry(store, FACTS)
    assert entry.best == 2
    assert entry.values == made.values(2)
    assert [trial.state for trial in entry.trials] == [
        *["finished"] * 5, "pruned", "pruned", "failed"
    ]  # fmt: skip
    assert entry.trials[3].scores == [75.0, 50.0, 10.0]
    assert [len(trial.scores) for trial in entry.trials] == [3, 3, 3, 3, 1, 0, 0, 0]
    assert (entry.count("pruned"), entry.count("failed"), entry.usual) == (2, 1, 20.0)


def test_the_mean_over_all_tuning_seeds_decides(
    search: Callable[..., Search], store: Store
) -> None:
    made = search(trials=3)
    lucky, steady = (99.0, 50.0, 50.0), (80.0, 80.0, 80.0)
    carry_out([made], Scores(made, store, [60.0, 70.0, 80.0], [60.0, lucky, steady]), store)
    assert made.entry(store, FACTS).best == 2


def test_of_equal_trials_the_earlier_one_is_taken(
    search: Callable[..., Search], store: Store
) -> None:
    made = search(trials=6)
    carry_out([made], Scores(made, store, [70.0] * 6, [80.0] * 6), store)
    assert made.kept(store) == [0, 1, 2]
    assert made.entry(store, FACTS).best == 0


def test_a_method_without_early_scores_loses_no_trial(
    search: Callable[..., Search], store: Store, place: Any
) -> None:
    """Joint training learns nothing before its last task."""
    made = search("joint", trials=3)
    carry_out([made], lambda cells: [run(cell, place) for cell in cells], store)
    entry = made.entry(store, FACTS)
    assert [trial.state for trial in entry.trials] == ["finished"] * 3
    assert all(trial.early is None for trial in entry.trials)


def test_a_trial_that_fails_later_is_counted_and_changes_no_choice(
    search: Callable[..., Search], store: Store
) -> None:
    made = search(trials=4)
    train = Scores(made, store, [50.0, 90.0, 60.0, 40.0], [50.0, None, 60.0, 99.0])
    carry_out([made], train, store)
    entry = made.entry(store, FACTS)
    assert [trial.state for trial in entry.trials] == ["finished", "failed", "finished", "pruned"]
    assert made.kept(store) == [0, 1, 2]  # as before the failure was known
    assert made.entry(store, FACTS) == entry


def test_without_a_result_of_every_trial_nothing_is_said(
    search: Callable[..., Search], store: Store
) -> None:
    made = search(trials=4)
    train = Scores(made, store, [50.0] * 4, [50.0] * 4)

    def died(cells: list[Cell]) -> None:
        train([cell for cell in cells if cell.id != made.cells[3].id])

    assert carry_out([made], died, store) == []
    with pytest.raises(UnfinishedError, match="has no result"):
        made.entry(store, FACTS)
    failed = search("si", trials=1)
    nothing = Scores(failed, store, [None], [None])
    carry_out([failed], nothing, store)
    with pytest.raises(UnfinishedError, match="no trial has finished"):
        failed.entry(store, FACTS)


def test_one_or_two_tasks_leave_no_room_to_stop_early(search: Callable[..., Search]) -> None:
    assert all(cell.until is None for cell in search(tasks=2).first())
    assert all(cell.until == 2 for cell in search(tasks=3).first())


def test_a_budget_counts_epochs_of_all_rungs(search: Callable[..., Search]) -> None:
    # 8 trials of 2 tasks, 5 of the third, and 4 repeated twice: (16 + 5 + 24) / 3
    assert most_epochs(8, 3, 10, True) == 150
    assert affordable(150, 3, 10, True) == 8
    assert affordable(149, 3, 10, True) == 7
    assert most_epochs(8, 3, 10, False) == 160
    assert search(budget=30).number == affordable(30, 3, 2, True)
    with pytest.raises(UserError, match="--budget 5: one trial of ewc takes up to 6 epochs"):
        search(budget=5)


def test_every_method_gets_the_same_number_of_trials_whatever_its_space(tiny: Path) -> None:
    [(benchmark, values)] = chosen("benchmark", str(tiny))
    target = Target("tiny", benchmark, values, 3, 3)
    found = searches("finetune,ewc,si,acl", [target], {}, Effort(20, budget=60))
    assert len({search.number for _, search in found}) == 1
    assert len({len(search.space.dimensions) for _, search in found}) > 1


def test_a_value_that_is_given_stays(search: Callable[..., Search]) -> None:
    made = search("si[damping=0.5]", overrides={"lr": 0.25})
    assert {cell.spec.method_params["damping"] for cell in made.cells} == {0.5}
    assert {cell.spec.protocol.lr for cell in made.cells} == {0.25}
    assert made.space.method == "si[damping=0.5]"
    with pytest.raises(UserError, match="without validation data"):
        search(overrides={"valid": 0.0})


def stopped(place: Any, after: int) -> Callable[[list[Cell]], None]:
    """Trains, and is interrupted after so many runs."""
    left = iter(range(after))

    def train(cells: list[Cell]) -> None:
        for cell in cells:
            if next(left, None) is None:
                raise KeyboardInterrupt
            run(cell, place)

    return train


@pytest.mark.parametrize("after", [2, 5, 9])
def test_a_search_that_was_stopped_finds_the_same(
    search: Callable[..., Search], place: Any, after: int
) -> None:
    def whole(where: Any) -> Entry:
        made, store = search("ewc", trials=4), Store(where.out)
        carry_out([made], lambda cells: [run(cell, where) for cell in cells], store)
        return made.entry(store, FACTS)

    with pytest.raises(KeyboardInterrupt):
        carry_out([search("ewc", trials=4)], stopped(place, after), Store(place.out))
    assert whole(place) == whole(replace(place, out=place.out / "undisturbed"))


def test_tpe_chooses_by_results_and_goes_on_as_it_was(
    search: Callable[..., Search], place: Any
) -> None:
    pytest.importorskip("optuna")

    def whole(where: Any) -> tuple[Entry, list[str]]:
        order: list[str] = []

        def train(cells: list[Cell]) -> None:
            order.extend(cell.id for cell in cells)
            for cell in cells:
                assert cell.until is None  # the next trial waits for the whole of this one
                run(cell, where)

        made = search("ewc", trials=13, sampler="tpe", overrides={"epochs": 1})
        assert len(made.cells) == 1
        carry_out([made], train, Store(where.out))
        return made.entry(Store(where.out), FACTS), order

    begun = search("ewc", trials=13, sampler="tpe", overrides={"epochs": 1})
    with pytest.raises(KeyboardInterrupt):
        carry_out([begun], stopped(place, 12), Store(place.out))
    entry, order = whole(place)
    assert (entry, order) == whole(replace(place, out=place.out / "undisturbed"))
    assert [trial.id for trial in entry.trials] == order[:13]
    assert {trial.state for trial in entry.trials} == {"finished"}
    points = search("ewc", trials=13, overrides={"epochs": 1})
    assert {cell.id for cell in points.cells} & set(order) == {order[0]}  # the usual values


def test_tpe_without_optuna_is_a_sentence(
    clbench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tiny: Path
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    said = clbench(f"tune --methods ewc --benchmarks {tiny} --sampler tpe --trials 2")
    assert (said.code, said.out) == (2, "")
    assert "--sampler tpe needs Optuna: pip install 'clbench[optuna]'" in said.err


COMMAND = "tune --methods finetune,ewc --benchmarks ./tiny.py --trials 4 --workers 1"


def test_a_search_that_was_killed_goes_on_and_writes_the_same_file(
    tiny: Path, tmp_path: Path
) -> None:
    places = tmp_path / "killed", tmp_path / "undisturbed"
    for folder in places:
        folder.mkdir()
        shutil.copy(tiny, folder)
    program = [sys.executable, "-m", "clbench", *COMMAND.split()]
    victim = subprocess.Popen(program, cwd=places[0], stdout=subprocess.DEVNULL)
    for _ in _until(victim):
        if len([*places[0].glob("results/trials/checkpoints/*.pt")]) > 2:
            break
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    assert not [*places[0].glob("results/tuned/*.toml")]
    for folder in places:
        subprocess.run(program, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    killed, undisturbed = ((p / "results/tuned/tiny.toml").read_bytes() for p in places)
    assert killed == undisturbed
    names = [entry.name for entry in outcome.read(places[0] / "results/tuned/tiny.toml").method]
    assert names == ["ewc", "finetune"]


def _until(process: Any) -> Iterator[None]:
    while process.poll() is None:
        yield
        time.sleep(0.05)


def test_what_is_found_for_one_stream_on_another_is_written_for_the_one(
    tiny: Path, store: Store, place: Any
) -> None:
    [(benchmark, values)] = chosen("benchmark", str(tiny))
    targets = [Target(name, benchmark, values, 3, 3) for name in ("split-mnist", "permuted-mnist")]
    found = searches("ewc", targets, {}, Effort(3))
    assert len({id(search) for _, search in found}) == 1  # it is searched once
    made = found[0][1]
    carry_out([made], Scores(made, store, [50.0] * 3, [50.0, 60.0, 70.0]), store)
    written, lacking = keep(found, store, place.out, {"clbench": "0", "command": "x"})
    assert [path.name for path in written] == ["split-mnist.toml", "permuted-mnist.toml"]
    assert lacking == []
    [entry] = outcome.read(outcome.place_of(place.out, "permuted-mnist")).method
    assert outcome.words(entry, "permuted-mnist") == "3 trials, all 3 tasks of tiny, 3 seeds"
    assert outcome.words(entry, "tiny") == "3 trials, all 3 tasks, 3 seeds"
