"""One round of misfortune: start a grid, let something go wrong, run the same command again.

Afterwards the records must equal those of an undisturbed grid. No finished task may have been
learned a second time, unless the round itself destroyed its files.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from clbench.data import load
from clbench.store import Store

GRID = ["run", "--methods", "finetune,ewc,er-res", "--epochs", "3", "--batch-size", "16"]
GRID += ["--benchmarks", "split-mnist", "--accept-data"]
PATIENCE = 300
"""Seconds after which a command that has not ended fails the round."""


class Grid:
    """The command, its folders, and the processes that it started."""

    def __init__(self, folder: Path, cluster: Any = None) -> None:
        self.out, self.cache, self.data = (folder / name for name in ("out", "cache", "data"))
        write_mnist(self.data)
        self.words = [sys.executable, "-m", "clbench", *GRID, "--workers", "2"]
        self.cluster = cluster
        if cluster is not None:
            self.words += ["--executor", "ray", "--ray-address", cluster.address]
        self.log = folder / "log"
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [*self.words, "--out", str(self.out)],
                env=os.environ | {"CLBENCH_CACHE": str(self.cache), "CLBENCH_DATA": str(self.data)},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.started.append(process)
        return process

    def finish(self) -> None:
        """Run the command until nothing is left to do, as a user would."""
        for _ in range(3):
            if self.start().wait(PATIENCE) == 0:
                return
        raise AssertionError(f"the same command does not finish:\n{self.log.read_text()}")

    def below(self) -> list[psutil.Process]:
        """The processes that the driver has started, and theirs."""
        with contextlib.suppress(psutil.Error):
            return psutil.Process(self.started[0].pid).children(recursive=True)
        return []

    def records(self) -> dict[str, Any]:
        return {r.method: r for r in Store(self.out).records()[0]}

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()


def write_mnist(root: Path) -> None:
    """The 5,000 embedded digits in the files that MNIST comes in."""
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for stem, part in {"train": "train", "t10k": "test"}.items():
        given = load("mnist-5k", root, accept=False).parts[part]
        arrays = {"images-idx3": given.images[:, 0], "labels-idx1": given.labels.astype(np.uint8)}
        for name, array in arrays.items():
            head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
            (folder / f"{stem}-{name}-ubyte").write_bytes(head + array.tobytes())


def kill_driver(grid: Grid, dice: random.Random) -> None:
    grid.started[0].kill()


def kill_a_worker(grid: Grid, dice: random.Random) -> None:
    if below := grid.below():
        with contextlib.suppress(psutil.Error):
            dice.choice(below).kill()


def kill_all(grid: Grid, dice: random.Random) -> None:
    for process in [*grid.below(), psutil.Process(grid.started[0].pid)]:
        with contextlib.suppress(psutil.Error):
            process.kill()


def _signal(*numbers: signal.Signals) -> Callable[[Grid, random.Random], None]:
    def send(grid: Grid, dice: random.Random) -> None:
        for number in numbers:
            with contextlib.suppress(ProcessLookupError):
                grid.started[0].send_signal(number)
            time.sleep(dice.uniform(0, 0.2))

    return send


def second_driver(grid: Grid, dice: random.Random) -> None:
    grid.start()


def cut_checkpoint(grid: Grid, dice: random.Random) -> None:
    kill_all(grid, dice)
    _cut(grid.out / "checkpoints", dice)


def cut_record(grid: Grid, dice: random.Random) -> None:
    kill_all(grid, dice)
    _cut(grid.out / "records", dice)


def flip_a_byte_of_the_cache(grid: Grid, dice: random.Random) -> None:
    kill_all(grid, dice)
    if files := sorted(p for p in grid.cache.rglob("*") if p.is_file() and p.stat().st_size):
        path = dice.choice(files)
        content = bytearray(path.read_bytes())
        content[dice.randrange(len(content))] ^= 0xFF
        path.write_bytes(content)


def lose_a_file_of_the_data(grid: Grid, dice: random.Random) -> None:
    kill_all(grid, dice)
    path = dice.choice(sorted(p for p in grid.data.rglob("*") if p.is_file()))
    content = path.read_bytes()
    path.unlink()
    assert grid.start().wait(PATIENCE) in (0, 2)
    said = grid.log.read_text()
    assert "Traceback" not in said, said
    path.write_bytes(content)


def lose_a_file_of_the_cache(grid: Grid, dice: random.Random) -> None:
    if files := sorted(p for p in grid.cache.rglob("*") if p.is_file()):
        dice.choice(files).unlink()


def lose_a_node(grid: Grid, dice: random.Random) -> None:
    nodes = sorted(grid.cluster.worker_nodes, key=lambda node: node.unique_id)
    grid.cluster.remove_node(dice.choice(nodes), allow_graceful=False)
    grid.cluster.add_node(num_cpus=1)


def fill_the_disk(grid: Grid, dice: random.Random) -> None:
    """Needs an output folder on a file system of its own; see `tmpfs`."""
    filler = grid.out / "filler"
    with contextlib.suppress(OSError), filler.open("wb") as file:
        while True:
            file.write(bytes(2**16))
            file.flush()
    grid.started[0].wait(PATIENCE)
    filler.unlink()


def _cut(folder: Path, dice: random.Random) -> None:
    if files := sorted(folder.glob("[!.]*")):
        path = dice.choice(files)
        path.write_bytes(path.read_bytes()[: dice.randrange(path.stat().st_size)])


MISFORTUNES: dict[str, Callable[[Grid, random.Random], None]] = {
    "kill -9 the driver": kill_driver,
    "kill -9 a worker": kill_a_worker,
    "kill -9 all": kill_all,
    "SIGTERM": _signal(signal.SIGTERM),
    "SIGHUP": _signal(signal.SIGHUP),
    "SIGINT twice": _signal(signal.SIGINT, signal.SIGINT),
    "a second driver": second_driver,
    "half a checkpoint": cut_checkpoint,
    "half a record": cut_record,
    "a flipped byte in the cache": flip_a_byte_of_the_cache,
    "a lost file of the data": lose_a_file_of_the_data,
    "a lost file of the cache": lose_a_file_of_the_cache,
    "a full disk": fill_the_disk,
    "a lost node of Ray": lose_a_node,
    "kill -9 the driver of runs on Ray": kill_driver,
}
DRIVER_LIVES = (
    "a second driver",
    "kill -9 a worker",
    "a lost file of the cache",
    "a lost node of Ray",
)
DESTRUCTIVE = ("half a checkpoint", "half a record")
"""Rounds that destroy the files of one run, which may then be learned again."""


@contextlib.contextmanager
def ray_cluster() -> Any:
    """Two nodes with one core each, and a head; None without Ray."""
    try:
        from ray.cluster_utils import Cluster
    except ImportError:
        yield None
        return
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        yield cluster
    finally:
        cluster.shutdown()


@contextlib.contextmanager
def tmpfs(folder: Path, size: str = "40m") -> Any:
    """A small file system in memory at `folder`; False where it cannot be mounted."""
    folder.mkdir(parents=True)
    mounted = os.getuid() == 0 and not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
        capture_output=True, check=False,
    ).returncode  # fmt: skip
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


def play(name: str, folder: Path, expected: dict[str, Any], seed: int) -> dict[str, Any]:
    """Play one round; an AssertionError if it costs more than it may."""
    dice = random.Random(seed)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(ray_cluster()) if "Ray" in name else None
        if "Ray" in name and cluster is None:
            return {"round": name, "skipped": "Ray is not installed"}
        grid = Grid(folder, cluster)
        stack.callback(grid.end)
        if name == "a full disk" and not stack.enter_context(tmpfs(grid.out)):
            return {"round": name, "skipped": "a small file system cannot be mounted here"}
        driver = grid.start()
        _wait_until(
            lambda: driver.poll() is not None or any(r.done for r in grid.records().values()),
            dice.uniform(0, 3),
        )
        kept = grid.records()
        MISFORTUNES[name](grid, dice)
        if name not in DRIVER_LIVES:
            driver.wait(PATIENCE)
        grid.finish()
        for process in grid.started:
            process.wait(PATIENCE)
        found = grid.records()
        again = _learned_again(kept, found)
        if name not in DESTRUCTIVE:
            assert not again, f"{again} tasks were learned a second time"
        for method, R in expected.items():
            assert found[method].status == "done"
            assert found[method].R == R, f"{method} differs after {name}"
        assert not any(Store(grid.out).is_running(run.id) for run in found.values())
        assert not list((grid.out / "records").glob(".*")), "half-written files are left"
        return {"round": name, "finished before": sum(r.done for r in kept.values())}


def _learned_again(kept: dict[str, Any], found: dict[str, Any]) -> int:
    """Tasks whose training time has changed: it is never the same twice."""
    return sum(
        old != new
        for method, record in kept.items()
        for old, new in zip(record.seconds.train, found[method].seconds.train, strict=False)
    )


def _wait_until(what: Callable[[], Any], then: float) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.02)
    time.sleep(then)


def undisturbed(folder: Path) -> dict[str, Any]:
    """R of each method, with nothing in the way."""
    grid = Grid(folder)
    folder.mkdir(parents=True, exist_ok=True)
    grid.finish()
    return {method: record.R for method, record in grid.records().items()}


def clear(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
