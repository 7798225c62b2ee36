"""Ways to run many cells. All share one contract: cells in, events out, records in the store.

Each module has `run_cells(cells, place, resources, listen)`. Every cell ends in one event of kind
`end`, whose `status` is `done`, `failed` (kept in the record), `refused` (a sentence for the user),
or `died` (the process is gone).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clbench.spec import Cell

EXECUTORS = ("local", "slurm", "ray")

Listener = Callable[["Cell", dict[str, Any]], None]


@dataclass(frozen=True)
class Resources:
    """How many runs at a time, and what each gets: the options of the same names."""

    workers: int
    cpus_per_run: int = 1
    gpus_per_run: int = 0
    memory_per_run: float | None = None
    """GB."""
    time_limit: int = 24 * 60
    """Minutes until a job of SLURM is asked to make room; it is put into the queue again."""
    partition: str | None = None
    ray_address: str | None = None
