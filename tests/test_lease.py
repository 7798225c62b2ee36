"""One holder at a time; a lease outlives neither its process nor its heartbeat."""

import contextlib
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from made import an_id, record

from clbench import lease
from clbench.errors import UserError
from clbench.lease import BusyError, Lease, hold, is_held
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


def test_a_dead_process_that_is_not_yet_reaped_holds_nothing(path: Path) -> None:
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
    path = store.lease_path(an_id("run"))
    first = record("run")
    with store.lease(an_id("run")) as mine:
        assert mine
        store.write(first, b"first")
        write(path, machine="another", pid=1, token="new")
        with pytest.raises(BusyError):
            store.write(record("run", peak_memory=2), b"second")
    assert store.read(an_id("run")) == first
    assert store.checkpoint_path(an_id("run")).read_bytes() == b"first"
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


def holder_of(path: Path) -> str:
    token: str = json.loads(path.read_text())["token"]
    return token


def race(path: Path, step: int, may: Callable[[], bool] = lambda: True) -> tuple[list[str], bool]:
    """`late` takes the lease; before line `step` of lease.py runs, `fast` takes it if it `may`.

    Returns who has the lease, at most one, and whether that line was reached.
    """
    late, fast = Lease(path), Lease(path)
    winners: dict[str, str] = {}
    before, lines = sys.gettrace(), 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != lease.__file__:
            return None
        if event == "line":
            lines += 1
            if lines == step and may():
                sys.settrace(None)
                if lease._take(fast):
                    winners["fast"] = fast.token
                sys.settrace(trace)
        return trace

    sys.settrace(trace)
    try:
        if lease._take(late):
            winners["late"] = late.token
    finally:
        sys.settrace(before)
    assert list(winners.values()) in ([], [holder_of(path)]), (step, winners)
    return list(winners), lines >= step


def test_a_lease_that_is_linked_meanwhile_is_not_replaced(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old holder ends after the first attempt of `late`; `fast` links at any later line."""
    guard = lease.guard

    def guard_after_release(folder: Path) -> Any:
        path.unlink(missing_ok=True)
        return guard(folder)

    monkeypatch.setattr(lease, "guard", guard_after_release)
    seen, reached, step = set(), True, 0
    while reached:
        step += 1
        write(path, machine=lease._machine(), pid=os.getpid(), token="old")
        winners, reached = race(path, step, may=lambda: not path.exists())
        assert len(winners) == 1
        seen |= {*winners}
    assert seen == {"fast", "late"}


@pytest.mark.parametrize("gone", [True, False])
def test_without_locks_too_one_takes_the_lease(
    path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    """The old holder is gone, or there is none; `fast` takes the lease at any line of `late`."""
    monkeypatch.setattr(lease, "guard", contextlib.nullcontext)
    dead, seen, reached, step = dead_process(), set(), True, 0
    while reached:
        step += 1
        path.unlink(missing_ok=True)
        if gone:
            write(path, machine=lease._machine(), pid=dead, token="old")
        winners, reached = race(path, step)
        seen |= {*winners}
        assert [p for p in path.parent.iterdir() if p != path] == []
    assert seen == {"fast", "late"}


def test_a_slow_holder_that_ends_leaves_the_lease_of_the_next_one_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "guard", contextlib.nullcontext)
    slow, next_one = Lease(path), Lease(path)
    assert lease._take(slow)
    os.utime(path, (0, 0))
    assert lease._take(next_one)
    lease._remove(path, slow.content())
    assert holder_of(path) == next_one.token


@pytest.mark.parametrize(("age", "taken_at"), [(0, []), (lease.LAPSE + 10, [2])])
def test_a_process_killed_while_it_removed_a_lease_delays_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch, age: float, taken_at: list[int]
) -> None:
    write(path, machine=lease._machine(), pid=dead_process(), token="old")
    with monkeypatch.context() as killed:
        killed.setattr(Path, "unlink", lambda *_, **__: None)
        assert not lease._take(Lease(path))
    (claim,) = path.parent.glob("*.end")
    then = time.time() - age
    os.utime(claim, (then, then))
    assert [attempt for attempt in (1, 2) if lease._take(Lease(path))] == taken_at


def test_a_folder_that_cannot_be_written_to_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written to"), hold(tmp_path / "no" / "run"):
        pass
