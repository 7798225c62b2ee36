"""Records as runs write them, small enough to work out by hand."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Record = dict[str, Any]
PROTOCOL = {
    "lr": 0.05,
    "momentum": 0.0,
    "weight_decay": 0.0,
    "batch_size": 64,
    "epochs": 200,
    "patience": 5,
    "lr_factor": 3.0,
    "lr_min": 0.0001,
    "valid": 0.15,
}
FAMILIES = {"ewc": "regularization", "pnn": "structure", "agem": "memory"}
TITLES = {"ewc": "EWC", "pnn": "PNN", "agem": "A-GEM", "joint": "ORD-JT", "finetune": "ORD-FT"}


def make_record(
    method: str = "ewc",
    seed: int = 0,
    last: tuple[float, float] = (90.0, 80.0),
    first: float = 95.0,
    **changes: Any,
) -> Record:
    """A finished run of two tasks: R = [[first, 60], last]. Keys like `spec__threads` reach in."""
    name = method.partition("[")[0]
    record: Record = {
        "schema": 1,
        "id": "",
        "status": "done",
        "spec": {
            "benchmark": {"name": "two-tasks", "params": {}, "version": 1},
            "method": {"name": name, "params": {"label": method}, "version": 1, "source": None},
            "protocol": dict(PROTOCOL),
            "seed": seed,
            "threads": 1,
            "device": "cpu",
        },
        "labels": {"benchmark": "two-tasks", "method": method, "protocol": ""},
        "titles": {"benchmark": "Two Tasks", "method": TITLES.get(name, name)},
        "family": FAMILIES.get(name, "reference"),
        "zero_forgetting": False,
        "tasks": 2,
        "done": 2,
        "R": [[first, 60.0], list(last)],
        "R0": [50.0, 48.0],
        "curve": [],
        "memory": {"architecture": 1_080_000, "replay": 0, "auxiliary": 2_160_000},
        "seconds": {"total": 4.0 + seed, "train": [2.0, 2.0], "eval": [0.0, 0.0]},
        "data": {"mnist-5k": {"sha256": "ab" * 32, "note": ""}},
        "provenance": {},
        "failure": None,
    }
    for path, value in changes.items():
        *parents, key = path.split("__")
        inside = record
        for parent in parents:
            inside = inside[parent]
        inside[key] = value
    text = json.dumps([record["spec"], record["labels"]], sort_keys=True)
    record["id"] = record["id"] or hashlib.sha256(text.encode()).hexdigest()[:12]
    return record


@pytest.fixture
def record() -> Callable[..., Record]:
    return make_record


@pytest.fixture
def grid() -> list[Record]:
    """Four methods, two seeds: joint is the bound, pnn forgets nothing, finetune a lot."""
    records = []
    for seed in (0, 1):
        records += [
            make_record("finetune", seed, (60.0 + seed, 90.0)),
            make_record("ewc[strength=500]", seed, (85.0 + seed, 80.0)),
            make_record(
                "pnn",
                seed,
                (95.0, 82.0 - seed),
                zero_forgetting=True,
                memory__architecture=2_500_000,
            ),
            make_record("agem", seed, (91.0, 81.0 + seed), memory__replay=815_360),
            make_record("joint", seed, (96.0, 85.0), R=[[None, None], [96.0, 85.0]]),
        ]
    return records


@pytest.fixture
def save(tmp_path: Path) -> Callable[[list[Record]], Path]:
    """Write records where `clbench run --out` would; the folder."""

    def write(records: list[Record]) -> Path:
        folder = tmp_path / "results" / "records"
        folder.mkdir(parents=True, exist_ok=True)
        for one in records:
            (folder / f"{one['id']}.json").write_text(json.dumps(one))
        return tmp_path / "results"

    return write
