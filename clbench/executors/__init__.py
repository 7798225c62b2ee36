"""Ways to run many cells. All share one contract: cells in, events out, records in the store.

Each module has `problems(resources)`, which says what the executor lacks, and `run_cells`, which
trains the cells. Each cell ends in one event `Ended`. A cell that another process is training is
`busy`: no listener hears of that, and the executor tries the cell again until it has ended.
"""

import os
import re
import reprlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from clbench.errors import UserError

if TYPE_CHECKING:
    from clbench.data import DataSet

DataSets: TypeAlias = "dict[str, DataSet]"
"""The data sets that the driver has open, by name, for workers that cannot open their own."""
EXECUTORS = ("local", "slurm", "ray")
COUNTS = {"workers": 1, "cpus_per_run": 1, "gpus_per_run": 0, "time_limit": 1}
"""Resources that are counted, and the least of each."""
MOST = 10**6
MOST_MEMORY = 100_000
"""GB."""


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
    """It becomes a line of a shell script, so it may only be a name."""
    ray_address: str | None = None

    def __post_init__(self) -> None:
        """A UserError for what no machine has; the command line and Python both come here."""
        for name, least in COUNTS.items():
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= MOST:
                raise _refusal(name, value, f"give a whole number from {least} to {MOST:,}")
        memory, partition = self.memory_per_run, self.partition
        if memory is not None and not (
            type(memory) in (int, float) and 0 < memory <= MOST_MEMORY  # also not a number
        ):
            raise _refusal(
                "memory_per_run", memory, f"give GB, above 0 and at most {MOST_MEMORY:,}"
            )
        if partition is not None and not re.fullmatch(r"[\w.,-]+", partition, re.ASCII):
            raise _refusal("partition", partition, "give the name of a partition")


def _refusal(name: str, value: object, instead: str) -> UserError:
    flag = "--" + name.replace("_", "-")
    shown = reprlib.repr(value)
    return UserError(f"{flag} {shown} (in Python: {name}={shown}): {instead}.")
