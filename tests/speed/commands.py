"""Cases that are whole commands: how fast they start, how runs share cores, what tests cost."""

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CLBENCH = [sys.executable, "-m", "clbench"]
HERE = Path(__file__).parent
ALL_TASKS = "finetune,ewc,si,mas,lwf,hat,packnet,agem,er-res,derpp,ucb,vcl,vcl-c,acl"


def _run(command: list[str], **extra: str) -> float:
    started = time.perf_counter()
    subprocess.run(
        command, check=True, env=os.environ | extra, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return time.perf_counter() - started


def _row(case: str, beside: str, mine: float, theirs: float, goal: float | None) -> dict[str, Any]:
    return {
        "case": case, "threads": 1, "beside": beside, "clbench_seconds": mine, "seconds": theirs,
        "times_as_fast": theirs / mine, "goal": goal,
    }  # fmt: skip


def start(repeats: int, root: Path) -> list[dict[str, Any]]:
    """Commands that train nothing, beside the import of click."""
    with tempfile.TemporaryDirectory() as folder:
        _run([*CLBENCH, "run", "--methods", "finetune", "--epochs", "1", "--out", folder])
        contenders = {
            "click": [sys.executable, "-c", "import click"],
            "--help": [*CLBENCH, "--help"],
            "ls": [*CLBENCH, "ls", "methods"],
            "status": [*CLBENCH, "status", "--out", folder],
        }
        seconds: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(repeats):
            for name, command in contenders.items():
                seconds[name].append(_run(command))
    middle = {name: statistics.median(times) for name, times in seconds.items()}
    return [
        _row(f"start {name}", "import click", middle[name], middle["click"], 1 / 3)
        for name in contenders
        if name != "click"
    ]


def first_step(repeats: int, root: Path) -> list[dict[str, Any]]:
    """From `clbench run` to the first step of two runs, beside an import of Avalanche."""
    firsts, seconds, imports = [], [], []
    for _ in range(repeats):
        imports.append(_run([sys.executable, "-c", "import avalanche.training"]))
        with tempfile.TemporaryDirectory() as folder:
            notes = Path(folder) / "notes"
            command = [*CLBENCH, "run", "--methods", str(HERE / "first_step.py"), "--seeds", "2"]
            started = time.time()
            _run([*command, "--epochs", "1", "--workers", "2", "--out", folder],
                 FIRST_STEP=str(notes))  # fmt: skip
            times = sorted(float(line) - started for line in notes.read_text().splitlines())
        firsts.append(times[0])
        seconds.append(times[1])
    limit = statistics.median(imports) + 1
    return [
        _row("first step", "import avalanche.training + 1 s", statistics.median(firsts), limit, 1),
        _row("second worker", "the first", statistics.median(seconds), statistics.median(firsts),
             None),
    ]  # fmt: skip


def workers(repeats: int, root: Path) -> list[dict[str, Any]]:
    """Eight equal runs with one worker and with two; the import, which both pay once, is in it."""
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(min(repeats, 3)):
        for n, times in seconds.items():
            with tempfile.TemporaryDirectory() as folder:
                command = [*CLBENCH, "run", "--methods", "finetune", "--benchmarks", "split-mnist"]
                command += ["--seeds", "8", "--epochs", "15", "--workers", str(n), "--out", folder]
                times.append(_run(command))
    one, two = (statistics.median(times) for times in seconds.values())
    return [_row("workers: two", "one", two, one, 1.8)]


def _record(method: str, benchmark: str, epochs: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = [*CLBENCH, "run", "--methods", method, "--benchmarks", benchmark]
        _run([*command, "--epochs", str(epochs), "--workers", "1", "--out", folder])
        [file] = (Path(folder) / "records").glob("*.json")
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return found


def evaluation(repeats: int, root: Path) -> list[dict[str, Any]]:
    """The share of tests in a run of the fewest epochs that the protocol can end after.

    It stops when the learning rate is below its least, each step down after `patience` epochs. Runs
    have two epochs a task, of which the second stands for all that would follow.
    """
    rows = []
    for benchmark in ("split-mnist", "permuted-mnist", "split-cifar100"):
        for method in ("finetune", "acl"):
            record = _record(method, benchmark, 2)
            p, seconds = record["spec"]["protocol"], record["seconds"]
            drops = math.ceil(math.log(p["lr"] / p["lr_min"], p["lr_factor"]))
            epochs = drops * p["patience"]
            another = sum(epoch["seconds"] for epoch in record["curve"] if epoch["epoch"] == 2)
            tests, train = sum(seconds["eval"]), sum(seconds["train"]) + (epochs - 2) * another
            rows.append(_row(f"tests, {method}, {benchmark}, {epochs} epochs", "5 % of the run",
                             tests, 0.05 * (tests + train), 1.0))  # fmt: skip
    return rows


def tasks(method: str) -> Callable[[int, Path], list[dict[str, Any]]]:
    """What the last ten of forty tasks cost beside the last five of ten; 12,800 samples a task.

    And the MB that ten tasks more add: to thirty beside to ten.
    """

    def case(repeats: int, root: Path) -> list[dict[str, Any]]:
        from contenders import task_costs

        late, early = [], []
        for _ in range(min(repeats, 3)):
            short, long = (
                task_costs(method, f"permuted-mnist[tasks={n}]", 12_800, root) for n in (10, 40)
            )
            late += [seconds for seconds, _ in long[30:]]
            early += [seconds for seconds, _ in short[5:]]
        middle = [statistics.median(times) for times in (late, early)]
        rows = [_row(f"a task of 40, {method}", "a task of 10", *middle, 1 / 1.1)]
        grown = [(long[k + 10][1] - long[k][1]) / 1e6 for k in (9, 29)]
        if all(grown):
            rows.append(_row(f"MB of 10 tasks more, {method}", "the same, early", *grown[::-1], 1))
        return rows

    return case


COMMANDS: dict[str, Callable[[int, Path], list[dict[str, Any]]]] = {
    "start": start,
    "first-step": first_step,
    "workers": workers,
    "evaluation": evaluation,
    **{f"tasks-{method}": tasks(method) for method in ALL_TASKS.split(",")},
}
