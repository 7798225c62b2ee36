"""What local workers share: memory and GPUs."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clbench.events import Ended, Started
from clbench.executors import Resources, capacity, local
from clbench.store import Store

MEETS = """
import time
from pathlib import Path

from clbench import Method, Strategy, ordinary


class Meeting(Strategy):
    def learn(self, k):
        folder = Path(__file__).parent / "met"
        folder.mkdir(exist_ok=True)
        (folder / str(self.stream.seed)).touch()
        deadline = time.monotonic() + 60
        while self.stream.seed and len(list(folder.glob("[12]"))) < 2:
            assert time.monotonic() < deadline, "the other run has not started"
            time.sleep(0.05)
        return super().learn(k)


class {name}(Method):
    title = "Meets"
    family = "reference"

    def build(self, stream):
        return Meeting(model=ordinary(stream), stream=stream)
"""


def run_with_memory(
    free: int, cells: list[Any], place: Any, patch: pytest.MonkeyPatch
) -> list[Any]:
    """Run the first cell alone, so that its need is known, then the others; returns the starts and
    ends of those."""
    patch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=free))
    Store(place.out).prepare()
    local.run_cells(cells[:1], place, Resources(1), {}, lambda cell, event: None)
    assert Store(place.out).records()[0][0].peak_memory > 10**6
    told: list[Any] = []

    def listen(cell: Any, event: Any) -> None:
        if isinstance(event, Started | Ended):
            told.append((cell.spec.seed, "" if isinstance(event, Started) else event.status))

    local.run_cells(cells[1:], place, Resources(2), {}, listen)
    return told


def test_a_run_that_would_not_fit_waits_for_the_others(
    cell: Callable[..., Any], place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [cell(seed=seed) for seed in range(3)]
    told = run_with_memory(10**6, cells, place, monkeypatch)
    assert told == [(1, ""), (1, "done"), (2, ""), (2, "done")]


def test_runs_that_fit_train_at_the_same_time(
    cell: Callable[..., Any],
    place: Any,
    method_file: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of the two fails unless it meets the other."""
    method = str(method_file("meets", MEETS))
    told = run_with_memory(10**12, [cell(method, s) for s in range(3)], place, monkeypatch)
    assert sorted(told) == [(1, ""), (1, "done"), (2, ""), (2, "done")]


def test_a_busy_run_is_tried_again_and_nobody_is_told(
    cell: Callable[..., Any], place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is taken between the driver's look at it and the worker's."""
    mine, store = cell(), Store(place.out)
    store.prepare()
    looks: list[bool] = []
    told: list[Any] = []
    is_running = Store.is_running

    def blind(store: Store, run_id: str) -> bool:
        looks.append(len(looks) > 0 and is_running(store, run_id))
        if len(looks) == 5:
            lease.__exit__(None, None, None)
        return looks[-1]

    lease = store.lease(mine.id)
    assert lease.__enter__()
    monkeypatch.setattr(Store, "is_running", blind)
    local.run_cells([mine], place, Resources(1), {}, lambda cell, event: told.append(event))
    assert [event.status for event in told if isinstance(event, Ended)] == ["done"]
    assert looks.count(True) >= 3


def test_a_run_that_will_grow_has_its_memory_kept_for_it(cell: Callable[..., Any]) -> None:
    first, second = cell(seed=0), cell(seed=1)
    needs = capacity.memory_needs(
        [first, second], Store(Path("none")), Resources(2, memory_per_run=900)
    )
    assert needs == {first.id: 900 * 10**9, second.id: 900 * 10**9}
    alone = capacity.free_memory([])
    rest = alone - capacity.free_memory([(os.getpid(), needs[first.id])])
    assert 880 * 10**9 < rest < 900 * 10**9, "what it asks for, less what it has already"


def test_each_run_gets_the_gpu_with_the_fewest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nprintf '0\\n1\\n'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    gpus = capacity.gpus()
    assert gpus == ["0", "1"]
    busy: list[str | None] = []
    for _ in range(4):
        busy.append(capacity.free_gpu(gpus, busy))
    assert busy == ["0", "1", "0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert capacity.gpus() == ["3"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert capacity.free_gpu(capacity.gpus(), []) is None
