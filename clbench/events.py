"""What a run reports while it trains. Every listener is called as `listen(cell, event)`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from clbench.record import Epoch, Record
    from clbench.spec import Cell

Status: TypeAlias = Literal["done", "paused", "failed", "refused", "died", "busy"]


@dataclass(frozen=True)
class Started:
    """The process of the run is up."""


@dataclass(frozen=True)
class EpochEnded:
    """An epoch of task `task` (from 1) is over."""

    task: int
    tasks: int
    epoch: "Epoch"


@dataclass(frozen=True)
class TaskEnded:
    """Task `task` (from 1) is learned and saved."""

    task: int
    tasks: int
    accuracy: float | None
    """Mean test accuracy (%) on the tasks so far; None where nothing was tested."""


@dataclass(frozen=True)
class Note:
    """Something that a user should know, and that stops nothing."""

    text: str


@dataclass(frozen=True)
class Ended:
    """The run is over: `done`, `paused` (after the task at which it was to stop), `failed` (the
    record says how), `refused` (a sentence for the user), `died` (the process is gone) or `busy`
    (another process trains it)."""

    status: Status
    text: str = ""


Event: TypeAlias = Started | EpochEnded | TaskEnded | Note | Ended
Listener: TypeAlias = Callable[["Cell", Event], None]


def end_of(record: "Record") -> Ended:
    """The end of a run as its record tells it."""
    if record.status == "partial":
        return Ended("paused", f"{record.done} of {record.tasks} tasks learned")
    return Ended(record.status, record.failure.error if record.failure else "")
