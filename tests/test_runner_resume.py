"""A run that was stopped goes on at its last finished task, whatever stopped it."""

import errno
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from test_runner import numbers

from clbench import store
from clbench.errors import UserError
from clbench.events import Note, TaskEnded
from clbench.record import Record
from clbench.runner import run
from clbench.store import Store

STOPS = """
from clbench import Method, Strategy, ordinary

class Stopping(Strategy):
    def learn(self, k):
        if k == 2 and PATH.exists():
            raise KeyboardInterrupt
        return super().learn(k)

class {name}(Method):
    title = "Stops"
    family = "reference"

    def build(self, stream):
        from clbench.methods.er_res import ReservoirReplayPlugin
        plugins = [ReservoirReplayPlugin(9)]
        return Stopping(model=ordinary(stream), stream=stream, plugins=plugins)
"""


@pytest.fixture
def stops(method_file: Callable[..., Path], tmp_path: Path) -> str:
    """A method that is interrupted in its third task as long as a file is there."""
    flag = tmp_path / "interrupt"
    flag.write_text("")
    head = f"from pathlib import Path\nPATH = Path({str(flag)!r})\n"
    return str(method_file("stops", head + STOPS))


def interrupted(cell: Callable[..., Any], place: Any, stops: str) -> Record:
    with pytest.raises(KeyboardInterrupt):
        run(cell(stops), place)
    (Path(stops).parent / "interrupt").unlink()
    record = Store(place.out).read(cell(stops).id)
    assert record is not None
    assert (record.status, record.done) == ("partial", 2)
    return record


@pytest.fixture
def undisturbed(cell: Callable[..., Any], place: Any, stops: str) -> Callable[[], Any]:
    """The numbers of a run in another folder that nothing stopped."""
    return lambda: numbers(run(cell(stops), replace(place, out=place.out / "undisturbed")))


def test_a_run_goes_on_at_the_last_finished_task(
    cell: Callable[..., Any], place: Any, stops: str, undisturbed: Callable[[], Any]
) -> None:
    before = interrupted(cell, place, stops)
    events: list[Any] = []
    record = run(cell(stops), place, lambda cell, event: events.append(event))
    assert {e.task for e in events} == {3}
    assert record.curve[:4] == before.curve
    assert record.seconds.train[:2] == before.seconds.train
    assert numbers(record) == undisturbed()


DROPS = """
import torch
from avalanche.training.plugins import SupervisedPlugin

class Drops(SupervisedPlugin):
    kept = None

    def after_training_exp(self, strategy, **kwargs):
        at = strategy.clock.train_exp_counter
        self.kept = torch.zeros((100, 500, 0)[at]) if at < 2 else None
"""


@pytest.mark.parametrize("stopped", [False, True])
def test_the_memory_of_a_run_is_the_largest_after_any_task(
    cell: Callable[..., Any], place: Any, method_file: Callable[..., Path], stopped: bool
) -> None:
    text = DROPS + STOPS.replace("[ReservoirReplayPlugin(9)]", "[Drops()]")
    flag = place.out.parent / "interrupt"
    path = str(
        method_file("stops", f"from pathlib import Path\nPATH = Path({str(flag)!r})\n{text}")
    )
    if stopped:
        flag.write_text("")
        interrupted(cell, place, path)
    record = run(cell(path), place)
    assert record.status == "done"
    assert (record.memory.auxiliary, record.memory_found) == (2000, True)


GLOBAL = """
import functools

from avalanche.training.plugins import SupervisedPlugin

from clbench import Method, Strategy, ordinary

class Tally:
    tasks = 0

TALLY, LIST = Tally(), []

def counting():
    tasks = 0
    def count():
        nonlocal tasks
        tasks += 1
    return count

COUNT = counting()

def defaults(seen=[]):
    seen.append(1)

class Plain(SupervisedPlugin):
    def shared(self, tasks=[]):
        tasks.append(1)

    def after_training_exp(self, strategy, **kwargs):
        CHANGE

class {name}(Method):
    title = "Global"
    family = "regularization"

    def build(self, stream):
        return Strategy(model=ordinary(stream), stream=stream, plugins=[Plain()])
"""


@pytest.mark.parametrize(
    "change",
    [
        "TALLY.tasks += 1",
        "LIST.append(1)",
        "COUNT()",
        "defaults()",
        "self.shared()",
        "defaults.n = len(LIST) + 1",
    ],
)  # fmt: skip
def test_a_run_with_state_in_its_module_says_that_it_starts_again_while_it_trains(
    cell: Callable[..., Any], place: Any, method_file: Callable[..., Path], change: str
) -> None:
    path = str(method_file("global", GLOBAL.replace("CHANGE", change)))
    events: list[Any] = []
    record = run(cell(path), place, lambda cell, event: events.append(event))
    why = "training changes a value of a module or a class, the loss, or hooks of the network"
    assert record.starts_again == why
    assert [e.text for e in events if isinstance(e, Note)] == [
        f"{cell(path)} starts again if it is interrupted: {why}."
    ]


def test_a_module_whose_values_stay_is_resumable(
    cell: Callable[..., Any], place: Any, method_file: Callable[..., Path]
) -> None:
    path = str(method_file("global", GLOBAL.replace("CHANGE", "pass")))
    assert run(cell(path), place).starts_again == ""


DEVIATES = """
import torch
from torch import nn
from torch.optim import SGD
from torch.optim.lr_scheduler import ExponentialLR
from avalanche.training.plugins import SupervisedPlugin
from clbench import Method, Strategy, ordinary

class Stopping(Strategy):
    def learn(self, k):
        if k == 2 and PATH.exists():
            raise KeyboardInterrupt
        return super().learn(k)

class Hook(SupervisedPlugin):
    def __init__(self, change=lambda strategy: None, step=lambda: None):
        super().__init__()
        self.change, self.step = change, step

    def after_training_exp(self, strategy, **kwargs):
        self.change(strategy)

    def after_training_epoch(self, strategy, **kwargs):
        self.step()

class Smooth(nn.Module):
    def forward(self, out, y):
        return nn.functional.cross_entropy(out, y, label_smoothing=0.3)

def smooth(strategy):
    strategy._criterion = LOSS

class {name}(Method):
    title = "Deviates"
    family = "regularization"

    def build(self, stream):
        model = ordinary(stream)
        own = SGD(model.parameters(), lr=0.1, momentum=0.5)
        scheduler = ExponentialLR(own, 0.7)
        strategy = Stopping(model=model, stream=stream, plugins=[PLUGIN])
        DO
        return strategy
"""
TORCHS = "nn.CrossEntropyLoss(label_smoothing=0.3)"


@pytest.mark.parametrize(
    ("plugin", "do", "loss", "resumes"),
    [
        ("Hook()", "smooth(strategy)", TORCHS, True),
        ("Hook()", "smooth(strategy)", "Smooth()", True),
        ("Hook(smooth)", "pass", TORCHS, False),
        ("Hook(smooth)", "pass", "Smooth()", False),
        ("Hook(step=lambda: scheduler.step())", "strategy.optimizer = own", TORCHS, False),
        ("Hook()", "strategy.optimizer, strategy.plugins[-1].kept = own, scheduler", TORCHS, True),
    ],
)
def test_a_method_with_its_own_loss_or_scheduler_goes_on_or_starts_again(
    cell: Callable[..., Any],
    place: Any,
    method_file: Callable[..., Path],
    tmp_path: Path,
    plugin: str,
    do: str,
    loss: str,
    resumes: bool,
) -> None:
    text = DEVIATES.replace("PLUGIN", plugin).replace("DO", do).replace("LOSS", loss)
    flag = tmp_path / "interrupt"
    path = str(
        method_file("deviates", f"from pathlib import Path\nPATH = Path({str(flag)!r})\n{text}")
    )
    undisturbed = run(cell(path), replace(place, out=place.out / "undisturbed"))
    assert undisturbed.decided
    flag.write_text("")
    before = interrupted(cell, place, path)
    assert (before.starts_again == "") is resumes
    events: list[Any] = []
    record = run(cell(path), place, lambda cell, event: events.append(event))
    tasks = {e.task for e in events if isinstance(e, TaskEnded)}
    assert tasks == ({3} if resumes else {1, 2, 3})
    assert numbers(record) == numbers(undisturbed)


class Evil:
    """Unpickled, it would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.write_text, (self.path, "executed")


def truncated(path: Path, proof: Path) -> None:
    path.write_bytes(path.read_bytes()[:-500])


def empty(path: Path, proof: Path) -> None:
    path.write_bytes(b"")


def evil_pickle(path: Path, proof: Path) -> None:
    path.write_bytes(pickle.dumps({"record": "{}", "state": Evil(proof)}))


def evil_checkpoint(path: Path, proof: Path) -> None:
    content = torch.load(path, weights_only=True)
    content["state"]["plugins"] = [Evil(proof)]
    torch.save(content, path)


def other_layout(path: Path, proof: Path) -> None:
    torch.save({"record": "{}", "state": {}}, path)


def other_network(path: Path, proof: Path) -> None:
    content = torch.load(path, weights_only=True)
    content["state"]["model"]["heads.0.weight"] = torch.zeros(7, 256)
    torch.save(content, path)


@pytest.mark.parametrize(
    "damage", [truncated, empty, evil_pickle, evil_checkpoint, other_layout, other_network]
)
def test_a_damaged_checkpoint_is_never_executed_and_the_run_starts_again(
    cell: Callable[..., Any],
    place: Any,
    stops: str,
    undisturbed: Callable[[], Any],
    tmp_path: Path,
    damage: Callable[[Path, Path], None],
) -> None:
    interrupted(cell, place, stops)
    path, proof = Store(place.out).checkpoint_path(cell(stops).id), tmp_path / "proof"
    damage(path, proof)
    events: list[Any] = []
    record = run(cell(stops), place, lambda cell, event: events.append(event))
    assert not proof.exists()
    [note] = [e.text for e in events if isinstance(e, Note)]
    assert note.startswith(f"{path} is damaged (")
    assert {e.task for e in events if isinstance(e, TaskEnded)} == {1, 2, 3}
    assert numbers(record) == undisturbed()


def test_a_checkpoint_of_another_version_is_not_used(
    cell: Callable[..., Any], place: Any, stops: str, undisturbed: Callable[[], Any]
) -> None:
    interrupted(cell, place, stops)
    old = cell(stops)
    newer = replace(old, method=replace(old.method, meta=old.method.meta | {"version": 2}))
    assert newer.id == old.id
    events: list[Any] = []
    record = run(newer, place, lambda cell, event: events.append(event))
    assert any(isinstance(e, Note) and "version" in e.text for e in events)
    assert record.status == "done"
    assert numbers(record) == undisturbed()


@pytest.mark.parametrize("done", [1, 2])
def test_a_kill_between_checkpoint_and_record_loses_nothing(
    cell: Callable[..., Any], place: Any, done: int
) -> None:
    """The record on disk is one task behind; the checkpoint may even be that of the last task."""
    states: list[str] = []
    path = Store(place.out).record_path(cell().id)

    def note(cell: Any, event: Any) -> None:
        if isinstance(event, TaskEnded):
            states.append(path.read_text())

    finished = run(cell(), place, note)
    path.write_text(states[done - 1])
    assert Store(place.out).read(cell().id) != finished
    assert run(cell(), place) == finished
    assert Store(place.out).read(cell().id) == finished


def test_a_full_disk_is_a_sentence_and_keeps_the_tasks_before(
    cell: Callable[..., Any], place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = numbers(run(cell(seed=1), place))
    Store(place.out).replace(cell(seed=1).id)
    real, calls = store.write_atomically, []

    def fills_up(path: Path, content: bytes, root: Path) -> None:
        calls.append(path)
        if len(calls) > 3:  # a record at the start, then a checkpoint and a record per task
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, content, root)

    monkeypatch.setattr(store, "write_atomically", fills_up)
    with pytest.raises(UserError, match="No space left"):
        run(cell(seed=1), place)
    record = Store(place.out).read(cell(seed=1).id)
    assert record is not None
    assert (record.status, record.done) == ("partial", 1)
    monkeypatch.undo()
    assert numbers(run(cell(seed=1), place)) == undisturbed
