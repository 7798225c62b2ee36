"""The rules in `clbench.lease`, by a model; and leases that a stranger or an accident has left."""

import contextlib
import errno
import fcntl
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clbench import lease
from clbench.errors import UserError
from clbench.events import Note
from clbench.executors.turns import Turns
from clbench.lease import BusyError, Lease, guard, hold, is_held
from clbench.store import Store

sys.path.insert(0, str(Path(__file__).parents[1]))
from made import an_id

RUN = an_id("run")
OLD = json.dumps({"machine": "gone", "pid": 1, "token": "old"}).encode()
STEPS = {os: ("link",), Path: ("touch", "unlink", "lstat"), lease: ("read_bounded",)}
"""What a process does to the folder that others see: it can be held up before each of them."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / RUN


class Actor(threading.Thread):
    """A process that takes a lease, trains, and ends; it does one step each time it may."""

    def __init__(self, path: Path, active: list[str]) -> None:
        super().__init__(daemon=True)
        self.lease, self.active = Lease(path), active
        self.go, self.waits = threading.Semaphore(0), threading.Semaphore(0)
        self.over, self.trained, self.error = False, False, ""

    def pause(self) -> None:
        self.waits.release()
        self.go.acquire()

    def step(self) -> None:
        self.go.release()
        self.waits.acquire()

    def run(self) -> None:
        self.pause()
        try:
            if lease._take(self.lease):
                self.lease.check()
                self.active.append(self.lease.token)
                self.pause()
                if len(self.active) > 1:
                    self.error = "two train at the same time"
                self.lease.check()
                self.trained = True
                self.active.remove(self.lease.token)
                lease._remove(self.lease.path, self.lease.content())
        except BaseException as error:
            self.error = repr(error)
        self.over = True
        self.waits.release()


@pytest.fixture
def stepwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each step, an actor waits until it may; there are no locks."""

    def slow(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **more: Any) -> Any:
            me = threading.current_thread()
            if isinstance(me, Actor):
                me.pause()
            return function(*args, **more)

        return wrapped

    for owner, names in STEPS.items():
        for name in names:
            monkeypatch.setattr(owner, name, slow(getattr(owner, name)))
    monkeypatch.setattr(lease, "guard", contextlib.nullcontext)


def play(path: Path, switches: tuple[int, ...]) -> tuple[list[Actor], int]:
    """Two actors; the other one goes on after each number of steps in `switches`, and at the end
    of one. Returns them and the steps that they took."""
    active: list[str] = []
    actors = [Actor(path, active), Actor(path, active)]
    for actor in actors:
        actor.start()
        actor.waits.acquire()
    now, steps = 0, 0
    while not all(actor.over for actor in actors):
        if actors[now].over or steps in switches:
            now = 1 - now if not actors[1 - now].over else now
        actors[now].step()
        steps += 1
    for actor in actors:
        actor.join()
    return actors, steps


@pytest.mark.parametrize("old", [None, OLD], ids=["free", "gone"])
@pytest.mark.usefixtures("stepwise")
def test_in_every_interleaving_with_two_switches_one_trains_at_a_time(
    path: Path, old: bytes | None
) -> None:
    """Exhaustive: two processes, one lease that is free or left behind, a switch at any two steps;
    nobody trains beside another, somebody does, and nothing stays behind."""
    played, both, steps, first, second = 0, 0, 2, 0, 0
    while first < steps - 1:
        first, second = first + 1, first + 1
        while second < steps:
            second += 1
            if old is not None:
                path.write_bytes(old)
                os.utime(path, (0, 0))
            actors, steps = play(path, (first, second))
            played += 1
            assert [actor.error for actor in actors] == ["", ""], (first, second)
            trained = sum(actor.trained for actor in actors)
            assert trained >= 1, (first, second)
            both += trained == 2
            assert [*path.parent.iterdir()] == [], (first, second)
    assert played > 100
    assert 0 < both < played


def test_a_lease_from_the_future_is_gone(path: Path) -> None:
    path.write_bytes(OLD)
    for ahead, held in ((lease.LAPSE / 2, True), (lease.SKEW * 2, False)):
        then = time.time() + ahead
        os.utime(path, (then, then))
        assert is_held(path) is held
    with hold(path) as mine:
        assert mine is not None


def test_a_lease_a_little_from_the_future_is_taken_by_the_clock_of_the_files(path: Path) -> None:
    path.write_bytes(OLD)
    then = time.time() + 2 * lease.LAPSE
    os.utime(path, (then, then))
    assert is_held(path)
    with hold(path) as mine:
        assert mine is not None


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [fifo, device, huge, folder])
def test_a_lease_that_cannot_be_read_is_a_sentence_and_no_wait(
    path: Path, make: Callable[[Path], None]
) -> None:
    make(path)
    assert not is_held(path)
    with pytest.raises(UserError, match="cannot be read"), hold(path):
        pass
    assert [p.name for p in path.parent.iterdir() if p.name.startswith(f".{RUN}")] == []


def test_unreadable_is_told_apart_from_taken_over(path: Path) -> None:
    mine = Lease(path)
    assert lease._take(mine)
    mine.check()
    path.unlink()
    with pytest.raises(BusyError):
        mine.check()
    path.write_bytes(b'{"token": "new", "pid": 7, "host": "far\x1b[2J"}')
    with pytest.raises(BusyError):
        mine.check()
    path.write_bytes(json.dumps({"token": "new", "pid": 7, "host": "far\x1b[2J"}).encode())
    with pytest.raises(BusyError, match=r"process 7 on far\?\[2J has taken it over"):
        mine.check()
    path.unlink()
    path.mkdir()
    with pytest.raises(UserError, match="cannot be read"):
        mine.check()
    path.rmdir()
    path.parent.rename(path.parent.with_name("moved"))
    with pytest.raises(UserError, match="is gone"):
        mine.check()
    path.parent.mkdir()


@pytest.mark.parametrize("make", [fifo, folder, lambda p: p.symlink_to(p.with_name("victim"))])
def test_a_guard_that_is_no_file_is_neither_written_nor_waited_for(
    path: Path, make: Callable[[Path], None]
) -> None:
    make(path.with_name(".guard"))
    path.write_bytes(OLD)
    os.utime(path, (0, 0))
    with pytest.raises(UserError, match="cannot be written to"), hold(path):
        pass
    assert not path.with_name("victim").exists()


def test_a_guard_that_is_held_is_waited_for_a_while_and_its_holder_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "PATIENCE", 0.0)
    with (tmp_path / ".guard").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(OSError, match=rf"process {os.getpid()}\b") as caught, guard(tmp_path):
            pass
        assert caught.value.errno == errno.EAGAIN
    with guard(tmp_path):
        pass


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK])
def test_a_file_system_without_hard_links_is_named_as_such(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def link(*args: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(UserError, match="hard links"), hold(path):
        pass
    assert [*path.parent.iterdir()] == []


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "out")
    made.prepare()
    return made


def test_who_is_waited_for_is_said_once(store: Store, cell: Callable[..., Any]) -> None:
    made, told = cell(), []
    turns = Turns(store, lambda cell, event: told.append(event))
    assert turns.has_come(made)
    turns.say([made])
    assert told == []
    with store.lease(made.id) as mine:
        assert mine
        assert not turns.has_come(made)
        turns.say([made])
        turns.say([made])
        [note] = told
        assert isinstance(note, Note)
        assert f"process {os.getpid()} on " in note.text
    assert turns.has_come(made)
