"""Free resources of this machine: memory for one more run, and the GPU with the fewest runs."""

import contextlib
import os
import subprocess
from collections.abc import Iterable

from clbench.executors import Resources
from clbench.spec import Cell
from clbench.store import Store


def memory_needs(cells: list[Cell], store: Store, resources: Resources) -> dict[str, int]:
    """Bytes per run, by id: what the user says, else the most that a past run of the same method
    and benchmark took, else 0."""
    if resources.memory_per_run:
        return {cell.id: int(resources.memory_per_run * 1e9) for cell in cells}
    peaks: dict[tuple[str, str], int] = {}
    for record in store.each([]):
        key = (record.benchmark, record.method)
        peaks[key] = max(peaks.get(key, 0), record.peak_memory)
    return {c.id: peaks.get((c.labels["benchmark"], c.labels["method"]), 0) for c in cells}


def free_memory(running: Iterable[tuple[int, int]]) -> int:
    """Bytes that are free for one more process. Running processes may still grow; `running` has
    the id and the final size in bytes of each."""
    import psutil

    free = int(psutil.virtual_memory().available)
    for pid, needed in running:
        with contextlib.suppress(psutil.Error):
            free -= max(0, needed - psutil.Process(pid).memory_info().rss)
    return free


def gpus() -> list[str]:
    """The GPUs that this process may use, found without initializing CUDA."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [gpu for gpu in visible.split(",") if gpu.strip()]
    command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return []


def free_gpu(gpus: list[str], busy: list[str | None]) -> str | None:
    """The GPU that has the fewest runs; None without GPUs."""
    return min(gpus, key=busy.count, default=None)
