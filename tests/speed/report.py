"""How long `clbench report --format md` takes, beside a bare loop of json.loads over its files.

python tests/speed/report.py [RECORDS [TASKS [EPOCHS]]]
"""

import gc
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))

from conftest import epochs, make_record

from clbench.record import Record
from clbench.record_file import encode

METHODS = ("ewc", "agem", "pnn", "joint", "finetune", "si", "lwf", "hat", "packnet", "acl")
OPEN = {
    "used": {"title": "Share in use", "kind": "layers", "unit": "%"},
    "cost": {"title": "Cost", "kind": "number", "below": 0.5, "warning": "{value:.1f} is low."},
    "without": {"title": "Accuracy without a part", "kind": "without", "unit": "%"},
}


def like_real(number: int, tasks: int, epochs_per_task: int) -> Record:
    """A record as large as a real one: ten seeds, ten methods, and strengths or benchmarks."""
    seed, rest = number % 10, number // 10
    method, rest = METHODS[rest % 10], rest // 10
    accuracies = [
        [(7 * i + 3 * k + number) % 50 + 50.0 for i in range(tasks)] for k in range(tasks)
    ]
    part: dict[str, Any] = {"nothing": 98.7654321, "part_zeroed": 97.1234567}
    return make_record(
        f"{method}[strength={rest % 10 + 2}]",
        seed,
        benchmark=f"stream-{rest // 10}[tasks={tasks}]",
        tasks=tasks,
        done=tasks,
        R=accuracies,
        R0=[10.123456] * tasks,
        valid=[95.123456] * tasks,
        curve=epochs(*[epochs_per_task] * tasks, samples=12_345, seconds=1.234567),
        lays_open=OPEN,
        diagnostics=[
            {"used": [12.345678] * 4, "cost": 1.2345678, "without": {"1": part, "2": part}}
        ]
        * tasks,
        seconds={"total": 123.456, "train": [20.123456] * tasks, "eval": [1.123456] * tasks},
        provenance={
            "versions": {"python": "3.11.7", "torch": "2.4.1", "clbench": "0.1.0"},
            "host": "a-host",
            "platform": "Linux-6.1-x86_64",
            "cpu": "a processor",
            "cores": 2,
            "argv": ["clbench", "run", "--methods", method, "--seeds", "10"],
        },
    )


def main(records: int = 10_000, tasks: int = 5, epochs_per_task: int = 50) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "records"
        place.mkdir()
        for number in range(records):
            record = like_real(number, tasks, epochs_per_task)
            (place / f"{record.id}.json").write_bytes(encode(record))
        files = sorted(place.glob("*.json"))
        size = sum(path.stat().st_size for path in files) / len(files) / 1000
        print(f"{len(files)} records of T={tasks}, {epochs_per_task} epochs, {size:.0f} kB each")
        bare = min(_timed(lambda: _loop(files)) for _ in range(2))
        began = time.perf_counter()
        from clbench.cli.report import command

        imports = time.perf_counter() - began
        arguments = ["--out", folder, "--format", "md"]
        took = min(_timed(lambda: command.main(arguments, standalone_mode=False)) for _ in range(2))
        print(
            f"json.loads {bare:.2f} s, report {took:.2f} s ({took / bare:.2f} times), "
            f"imports {imports:.2f} s more",
            file=sys.stderr,
        )


def _loop(files: list[Path]) -> None:
    for path in files:
        json.loads(path.read_bytes())


def _timed(work: Any) -> float:
    gc.collect()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
