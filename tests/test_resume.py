"""Killed, interrupted or robbed of a worker: the same command goes on, to the same numbers.

The command runs as a user's would, in a process and a session of its own, on the default stream.
"""

import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from clbench.store import Place, Store

WORDS = "run --methods ewc,er-res --epochs 6 --batch-size 16 --seeds 1 --workers 2 --out"
METHODS = ("ewc", "er-res")
PATIENCE = 300
"""Seconds after which a command that makes no progress at all is given up."""


def wait_for(what: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.02)
    return found


class Driver:
    """The command in a session of its own, and the processes below it."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.words = [*shlex.split(WORDS), str(out)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "clbench", *self.words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_until_some_task_is_finished(self) -> list[psutil.Process]:
        """Returns the workers."""
        wait_for(lambda: self.process.poll() is not None or Store(self.out).records()[0])
        assert self.process.poll() is None, self.process.communicate()[1]
        below = psutil.Process(self.process.pid).children(recursive=True)
        server = next(p for p in below if any(c.ppid() == p.pid for c in below))
        return [p for p in below if p.ppid() == server.pid]

    def below(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def unfinished(self) -> list[str]:
        """Ids of runs that had finished some task and not all when it was stopped."""
        return [r.id for r in Store(self.out).records()[0] if r.status == "partial"]


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path / "out")
    yield made
    if made.process.poll() is None:
        made.process.kill()
    made.process.communicate()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """R of the same runs in this process and another folder, with nothing in their way."""
    from clbench.grid import make_grid
    from clbench.runner import run

    place = Place(tmp_path_factory.mktemp("undisturbed"), Path("no-data"))
    cells = make_grid("ewc,er-res", "split-mnist-5k", [0], {"epochs": 6, "batch_size": 16})
    return {cell.id: run(cell, place).R for cell in cells}


def results(out: Path) -> dict[str, Any]:
    found, problems = Store(out).records()
    assert problems == []
    assert {r.status for r in found} == {"done"}
    return {r.id: r.R for r in found}


def test_after_kill_9_the_same_command_goes_on(
    driver: Driver, clbench: Callable[..., Any], undisturbed: dict[str, Any]
) -> None:
    driver.wait_until_some_task_is_finished()
    below = driver.below()
    assert len(below) >= 3  # the server and two workers
    driver.process.kill()
    driver.process.communicate()
    gone, alive = psutil.wait_procs(below, timeout=PATIENCE)
    assert alive == []
    assert len(gone) == len(below)
    partial = driver.unfinished()
    assert partial
    again = clbench(*driver.words)
    assert again.code == 0
    assert "starts again" not in again.err
    assert results(driver.out) == undisturbed


def test_ctrl_c_prints_the_command_that_goes_on(
    driver: Driver, clbench: Callable[..., Any], undisturbed: dict[str, Any]
) -> None:
    workers = driver.wait_until_some_task_is_finished()
    driver.process.send_signal(signal.SIGINT)
    _, said = driver.process.communicate()
    assert driver.process.returncode == 130
    assert "Traceback" not in said
    assert "the same command goes on from there" in said
    assert psutil.wait_procs(workers, timeout=PATIENCE)[1] == []
    assert driver.unfinished()
    last = said.strip().splitlines()[-1].strip()
    assert shlex.split(last) == ["clbench", *driver.words]
    assert clbench(*shlex.split(last)[1:]).code == 0
    assert results(driver.out) == undisturbed


def test_a_killed_worker_takes_only_its_own_run_with_it(
    driver: Driver, clbench: Callable[..., Any], undisturbed: dict[str, Any]
) -> None:
    workers = driver.wait_until_some_task_is_finished()
    workers[0].kill()
    _, said = driver.process.communicate()
    assert driver.process.returncode == 1
    assert "died: its process was killed (signal 9" in said
    assert "1 of 2 runs have no result" in said
    assert "Traceback" not in said
    states = sorted(r.status for r in Store(driver.out).records()[0])
    assert states in (["done", "partial"], ["done"])
    again = clbench(*driver.words)
    assert again.code == 0
    assert results(driver.out) == undisturbed
    assert all(name in again.out for name in METHODS)
