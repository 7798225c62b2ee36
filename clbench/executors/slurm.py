"""Cells as jobs of a SLURM cluster, submitted as one array through submitit.

The output folder must be on a file system that the nodes share: jobs write records and checkpoints
there as local workers do. The ticket `<out>/slurm/<id>.json` names the job of a run, so that a
driver that comes back watches the job instead of submitting it again. When a job is preempted or
its time is over, submitit puts it back into the queue, and it goes on at the last finished task.
"""

import contextlib
import importlib.util
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from clbench.errors import UserError
from clbench.events import Ended, Listener, Started, TaskEnded, end_of
from clbench.executors import DataSets, Resources
from clbench.executors.processes import safe_path
from clbench.executors.turns import Turns
from clbench.executors.work import work
from clbench.files import read_bounded, refuse_links, write_atomically
from clbench.limits import checked_id
from clbench.provenance import versions
from clbench.spec import Cell
from clbench.store import Place, Store

POLL = 2.0
"""Seconds between two looks at the queue."""
PATIENCE = 600.0
"""Seconds that a controller may be silent once it has answered."""
GRACE = 30.0
"""Seconds to wait for the end of a job that has left the queue: file systems can be slow."""
LONGEST_ARRAY = 1000
"""Jobs in one array: SLURM's own limit is 1,001 unless it is raised."""
WARNING = 60
"""Seconds between the signal and the end of a job's time."""
TICKET = 100_000
"""Bytes of a ticket."""
NEVER = (
    "BadConstraints", "InvalidAccount", "InvalidQOS", "PartitionConfig", "PartitionNodeLimit",
    "PartitionTimeLimit",
)  # fmt: skip
"""Reasons for which a job can never start."""


class Ticket(msgspec.Struct, omit_defaults=True):
    """What is known about the job of a run."""

    job: str = ""
    """Number of the job; empty if none was submitted."""
    end: Ended | None = None


class Job:
    """What submitit runs on a node."""

    def __init__(self, place: Place, expected: dict[str, str], time_limit: int) -> None:
        self.place, self.expected, self.time_limit = place, expected, time_limit
        self.started = 0.0
        self.done = -1
        """Finished tasks when the time of the job was last over."""

    def __call__(self, cell: Cell) -> None:
        from submitit import JobEnvironment

        self.started = time.monotonic()
        _end_when_not_requeued()
        # the driver may have died before it could write the ticket
        _write(_path(self.place, cell), Ticket(JobEnvironment().job_id))
        self._end(cell, work(cell, self.place, lambda cell, event: None, self.expected))

    def checkpoint(self, cell: Cell) -> Any:
        """Called by submitit when the job must make room; None ends it, anything else goes back
        into the queue. All finished tasks are on disk."""
        from submitit.helpers import DelayedSubmission

        record = Store(self.place.out).read(cell.id)
        done = record.done if record is not None else 0
        if time.monotonic() - self.started > 60 * self.time_limit - 1.5 * WARNING:
            if done == self.done:
                text = "no task was finished before the job's time was over; raise --time-limit"
                self._end(cell, Ended("refused", text))
                return None
            self.done = done
        return DelayedSubmission(self, cell)

    def _end(self, cell: Cell, end: Ended) -> None:
        path = _path(self.place, cell)
        _write(path, Ticket(_read(path).job, end))


def _end_when_not_requeued() -> None:
    """End the process when submitit does not put its job back into the queue. submitit raises in
    the handler of a signal, in the middle of a method, and that must not count as a failure."""
    theirs = signal.getsignal(signal.SIGUSR2)

    def ours(number: int, frame: Any) -> None:
        try:
            theirs(number, frame)  # type: ignore[operator, misc]
        except Exception as error:
            sys.exit(f"{type(error).__name__}: {error}")

    if callable(theirs):
        signal.signal(signal.SIGUSR2, ours)


def problems(resources: Resources) -> list[str]:
    """What the executor needs and does not find here."""
    found = []
    if importlib.util.find_spec("submitit") is None:
        found.append("--executor slurm needs submitit: pip install 'clbench[slurm]'.")
    if shutil.which("sbatch") is None:
        found.append("--executor slurm: there is no `sbatch` here; call clbench on the cluster.")
    return found


def run_cells(
    cells: list[Cell], place: Place, resources: Resources, datasets: DataSets, listen: Listener
) -> None:
    """Submit the cells that are not in the queue, and watch all of them to their end."""
    place = Place(place.out.resolve(), place.data_root.resolve(), place.accept_data)
    store = Store(place.out)
    try:
        (place.out / "slurm").mkdir(parents=True, exist_ok=True)
        refuse_links(place.out / "slurm", place.out)
    except OSError as error:
        raise UserError(f"{place.out} cannot be written to: {error.strerror}.") from None
    turns = Turns(store, listen)
    waiting = {cell.id: cell for cell in cells}
    told: dict[str, int] = {}
    missed: dict[str, float] = {}
    queue, heard = _queue(), time.monotonic()
    for cell in cells:  # tickets of an earlier command, whose job is gone
        if not _is_queued(place, cell, queue):
            _path(place, cell).unlink(missing_ok=True)
    try:
        while waiting:
            try:
                queue, heard = _queue(), time.monotonic()
            except UserError:
                if time.monotonic() - heard > PATIENCE:
                    raise
                time.sleep(POLL)
                continue
            idle = [c for c in waiting.values() if not _is_queued(place, c, queue)]
            missed = {c.id: missed[c.id] for c in idle if c.id in missed}  # others are back
            new = []
            for cell in idle:
                end = _ended(place, store, cell)
                if end is None:
                    new.append(cell)
                elif end.status == "busy":
                    if turns.has_come(cell):
                        _path(place, cell).unlink(missing_ok=True)
                        if turns.again(cell, end.text):
                            new.append(cell)
                        else:
                            del waiting[cell.id]
                    else:
                        turns.say([cell])
                elif end.status == "died" and heard - missed.setdefault(cell.id, heard) <= GRACE:
                    continue  # its end may not be visible yet
                else:
                    listen(cell, end)
                    _path(place, cell).unlink(missing_ok=True)
                    del waiting[cell.id]
            free = resources.workers - (len(waiting) - len(new))
            if new and free > 0:
                _submit(new[:LONGEST_ARRAY], place, replace(resources, workers=free))
            for cell in list(waiting.values()):
                _tell(cell, store, told, listen)
                job = _read(_path(place, cell)).job
                if (reason := queue.get(job, "")) in NEVER:
                    _cancel(job)
                    why = f"SLURM can never start its job ({reason})"
                    text = f"{why}: ask for less (--time-limit too), or for another --partition"
                    listen(cell, Ended("refused", text))
                    del waiting[cell.id]
            if waiting:
                time.sleep(POLL)
    except KeyboardInterrupt:
        _cancel(*(job for cell in waiting.values() if (job := _read(_path(place, cell)).job)))
        for cell in waiting.values():
            _path(place, cell).unlink(missing_ok=True)
        raise


def _submit(cells: list[Cell], place: Place, resources: Resources) -> None:
    import submitit

    executor = submitit.SlurmExecutor(folder=place.out / "slurm", max_num_timeout=10**6)
    memory = resources.memory_per_run
    optional = {
        "gpus_per_node": resources.gpus_per_run,
        "mem": f"{round(memory * 1000)}M" if memory else None,
        "partition": resources.partition,
    }
    executor.update_parameters(
        job_name="clbench",
        setup=[f"export {name}={shlex.quote(value)}" for name, value in safe_path().items()],
        cpus_per_task=resources.cpus_per_run,
        time=resources.time_limit,
        array_parallelism=resources.workers,
        signal_delay_s=WARNING,
        stderr_to_stdout=True,
        **{key: value for key, value in optional.items() if value},
    )
    try:
        jobs = executor.map_array(Job(place, versions(), resources.time_limit), cells)
    except submitit.core.utils.FailedJobError as error:
        reason = " ".join(str(error).split()).partition("sbatch: error: ")[2] or str(error)
        raise UserError(f"SLURM rejected the jobs: {reason}") from None
    for cell, job in zip(cells, jobs, strict=True):
        if _read(_path(place, cell)).job != job.job_id:  # it may have begun, or ended
            _write(_path(place, cell), Ticket(job.job_id))


def _ended(place: Place, store: Store, cell: Cell) -> Ended | None:
    """How a cell that is not in the queue has ended, if it was there."""
    record = store.read(cell.id)
    if record is not None and record.status != "partial":  # whichever driver submitted it
        return end_of(record)
    ticket = _read(_path(place, cell))
    if ticket.end is not None or not ticket.job:
        return ticket.end
    log = place.out / "slurm" / f"{ticket.job}_0_log.out"
    words = "its job left the queue before its end (cancelled, out of memory, or its node failed)"
    return Ended("died", f"{words}; see {log}")


def _tell(cell: Cell, store: Store, told: dict[str, int], listen: Listener) -> None:
    """Report what the record of a cell says: that it has started, or which task it has learned."""
    record = store.read(cell.id)
    if record is None or record.done <= told.get(cell.id, -1):
        return
    told[cell.id] = record.done
    if not record.done:
        listen(cell, Started())
        return
    row = [value for value in record.R[-1][: record.done] if value is not None]
    accuracy = sum(row) / len(row) if row else None
    listen(cell, TaskEnded(record.done, record.tasks, accuracy))


def _queue() -> dict[str, str]:
    """Our jobs that wait or run, as SLURM writes them (`12_3` in an array), and why they wait."""
    listed = _command("squeue", "--me", "-h", "-r", "-o", "%i %r")
    return dict(line.split(maxsplit=1) for line in listed.splitlines())


def _is_queued(place: Place, cell: Cell, queue: dict[str, str]) -> bool:
    return _read(_path(place, cell)).job in queue


def _cancel(*jobs: str) -> None:
    if jobs:
        with contextlib.suppress(UserError):  # one that has just ended is unknown to it
            _command("scancel", *jobs)


def _command(*words: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    except subprocess.TimeoutExpired:
        raise UserError("SLURM does not answer; jobs that it already has continue.") from None
    except subprocess.CalledProcessError as error:
        raise UserError(f"SLURM does not answer: {' '.join(error.stderr.split())}") from None
    return done.stdout


def _path(place: Place, cell: Cell) -> Path:
    return place.out / "slurm" / f"{checked_id(cell.id)}.json"


def _read(path: Path) -> Ticket:
    """The ticket in a file; one that is missing or damaged says nothing."""
    with contextlib.suppress(OSError, UnicodeDecodeError, RecursionError, msgspec.DecodeError):
        return msgspec.json.decode(read_bounded(path, TICKET), type=Ticket)
    return Ticket()


def _write(path: Path, ticket: Ticket) -> None:
    try:
        write_atomically(path, msgspec.json.encode(ticket), path.parent.parent)
    except OSError as error:
        raise UserError(f"{path.parent} cannot be written to: {error.strerror}.") from error
