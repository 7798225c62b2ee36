"""Ways to run many cells. All share one contract: cells in, events out, records in the store.

Each module has two functions. `problems(resources)` says what the executor lacks, without starting
anything. `run_cells(cells, place, resources, datasets, listen)` trains the cells. `datasets` are
those that the driver has open, for workers that cannot open their own. Each cell ends in one
event `Ended`: `done`, `failed` (the record says how), `refused` (a sentence for the user) or
`died` (the process is gone). A cell that another process is training is `busy`: no listener hears
of that, and the executor tries the cell again until it has ended.
"""

from dataclasses import dataclass

EXECUTORS = ("local", "slurm", "ray")


@dataclass(frozen=True)
class Resources:
    """How many runs train at the same time, and what each of them gets."""

    workers: int = 1
    cpus_per_run: int = 1
    gpus_per_run: int = 0
    memory_per_run: float | None = None
    """GB."""
    time_limit: int = 24 * 60
    """Minutes of a SLURM job; a run that is not done by then goes back into the queue."""
    partition: str | None = None
    ray_address: str | None = None
