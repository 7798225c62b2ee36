"""One holder at a time; a lease outlives neither its process nor its heartbeat."""

import json
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import pytest

from clbench import lease
from clbench.errors import UserError
from clbench.lease import BusyError, hold, is_held
from clbench.store import Store

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run"


def write(path: Path, age: float = 0.0, **holder: Any) -> None:
    path.write_text(json.dumps(holder))
    then = time.time() - age
    os.utime(path, (then, then))


def dead_process() -> int:
    process = FORK.Process(target=lambda: None)
    process.start()
    process.join()
    assert process.pid is not None
    return process.pid


def test_a_lease_is_free_again_after_its_holder(path: Path) -> None:
    with hold(path) as first:
        assert first is not None
        assert is_held(path)
        with hold(path) as second:
            assert second is None
        assert is_held(path)  # who did not get it does not end it
    assert not is_held(path)
    assert [p.name for p in path.parent.iterdir()] == [".guard"]


def test_the_lease_of_a_dead_process_of_this_machine_is_taken_at_once(path: Path) -> None:
    write(path, machine=lease._machine(), pid=dead_process(), token="old")
    with hold(path) as mine:
        assert mine is not None


def test_a_process_that_is_dead_and_not_buried_holds_nothing(path: Path) -> None:
    process = FORK.Process(target=os._exit, args=(0,))
    process.start()
    while Path(f"/proc/{process.pid}/stat").read_text().split()[2] != "Z":
        time.sleep(0.01)
    write(path, machine=lease._machine(), pid=process.pid, token="old")
    assert not is_held(path)
    process.join()


@pytest.mark.parametrize(("age", "held"), [(lease.LAPSE - 10, True), (lease.LAPSE + 10, False)])
def test_the_holder_on_another_machine_is_known_by_its_heartbeat(
    path: Path, age: float, held: bool
) -> None:
    write(path, age, machine="another", pid=dead_process(), token="old")
    assert is_held(path) is held
    with hold(path) as mine:
        assert (mine is None) is held


def test_a_living_process_without_a_heartbeat_loses_its_lease(path: Path) -> None:
    write(path, lease.LAPSE + 10, machine=lease._machine(), pid=os.getpid(), token="old")
    assert not is_held(path)


def test_the_heart_beats_while_the_body_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "BEAT", 0.01)
    with hold(path):
        os.utime(path, (0, 0))
        while path.stat().st_mtime == 0:
            time.sleep(0.01)
        assert is_held(path)


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"pid": 1e400}', '{"pid": -1}'])
def test_a_damaged_lease_can_be_taken(path: Path, content: str) -> None:
    path.write_text(content.replace("{", f'{{"machine": "{lease._machine()}", ', 1))
    with hold(path) as mine:
        assert mine is not None


def test_who_lost_the_lease_writes_nothing_and_leaves_the_new_one_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.prepare()
    path = tmp_path / "leases" / "run"
    record = {"id": "run"}
    with store.lease("run") as mine:
        assert mine
        store.write(record, b"first")
        write(path, machine="another", pid=1, token="new")
        with pytest.raises(BusyError):
            store.write(record | {"late": True}, b"second")
    assert json.loads(store.record_path("run").read_text()) == record
    assert store.checkpoint_path("run").read_bytes() == b"first"
    assert json.loads(path.read_text())["token"] == "new"


def _fight(path: Path, start: Any, won: Any, end: Any) -> None:
    start.wait()
    with hold(path) as mine:
        if mine is not None:
            won.put(mine.token)
        end.wait()


def test_of_many_that_find_the_holder_gone_one_takes_the_lease(path: Path) -> None:
    for _ in range(5):
        write(path, machine=lease._machine(), pid=dead_process(), token="old")
        start, end, won = FORK.Event(), FORK.Barrier(8), FORK.Queue()
        fighters = [
            FORK.Process(target=_fight, args=(path, start, won, end), daemon=True) for _ in range(8)
        ]
        for fighter in fighters:
            fighter.start()
        start.set()
        for fighter in fighters:
            fighter.join()
        winners = [won.get()]
        assert won.empty(), f"{winners} and {won.get()}"
        assert not path.exists()


def test_a_folder_that_cannot_be_written_to_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written to"), hold(tmp_path / "no" / "run"):
        pass
