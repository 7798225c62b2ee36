"""Ways to run many cells. All share one contract: cells in, events out, records in the store.

Each module has `problems(resources)`, which says what the executor lacks, and `run_cells`, which
trains the cells. Each cell ends in one event `Ended`. A cell that another process is training is
`busy`: no listener hears of that, and the executor tries the cell again until it has ended.
"""

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from clbench.data import DataSet

DataSets: TypeAlias = "dict[str, DataSet]"
"""The data sets that the driver has open, by name, for workers that cannot open their own."""
EXECUTORS = ("local", "slurm", "ray")


def usable_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Resources:
    """How many runs train at the same time, and what each of them gets."""

    workers: int = field(default_factory=usable_cores)
    cpus_per_run: int = 1
    gpus_per_run: int = 0
    memory_per_run: float | None = None
    """GB."""
    time_limit: int = 24 * 60
    """Minutes of a SLURM job; a run that is not done by then goes back into the queue."""
    partition: str | None = None
    ray_address: str | None = None
