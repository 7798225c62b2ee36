"""What local workers share: memory and GPUs."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clbench.executors import Resources, local
from clbench.store import Store


@pytest.mark.parametrize(("free", "together"), [(10**6, False), (10**12, True)])
def test_a_run_that_would_not_fit_waits_for_the_others(
    cell: Callable[..., Any], place: Any, monkeypatch: pytest.MonkeyPatch, free: int, together: bool
) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=free))
    first = cell(seed=0)
    Store(place.out).prepare()
    local.run_cells([first], place, Resources(1), lambda cell, event: None)
    assert Store(place.out).records()[0][0]["peak_memory"] > 10**6
    told: list[tuple[int, str]] = []

    def listen(cell: Any, event: dict[str, Any]) -> None:
        if event["kind"] in ("start", "end"):
            told.append((cell.spec.seed, event["kind"]))

    local.run_cells([cell(seed=1), cell(seed=2)], place, Resources(2), listen)
    alone = [(1, "start"), (1, "end"), (2, "start"), (2, "end")]
    assert sorted(told) == sorted(alone)
    if not together:
        assert told == alone


def test_a_run_that_will_grow_has_its_memory_kept_for_it(cell: Callable[..., Any]) -> None:
    first, second = cell(seed=0), cell(seed=1)
    needs = local._memory_needs(
        [first, second], Store(Path("none")), Resources(2, memory_per_run=900)
    )
    assert needs == {first.id: 900 * 10**9, second.id: 900 * 10**9}
    worker: Any = SimpleNamespace(cell=first, process=SimpleNamespace(pid=os.getpid()))
    alone = local._free_memory([], needs)
    rest = alone - local._free_memory([worker], needs)
    assert 880 * 10**9 < rest < 900 * 10**9, "what it asks for, less what it has already"


def test_each_run_gets_the_gpu_with_the_fewest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nprintf '0\\n1\\n'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    gpus = local._gpus()
    assert gpus == ["0", "1"]
    running: list[Any] = []
    for _ in range(4):
        running.append(SimpleNamespace(gpu=local._free_gpu(gpus, running)))
    assert [worker.gpu for worker in running] == ["0", "1", "0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert local._gpus() == ["3"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert local._free_gpu(local._gpus(), []) is None
