"""Cells as jobs of a SLURM cluster, submitted as one array through submitit.

The output folder must be on a file system that the nodes share: jobs write records and checkpoints
there as local workers do. `<out>/slurm/<id>.json` says which job a run is, so that a driver that
comes back watches it instead of submitting it again. When a job is preempted or its time is over,
submitit puts it back into the queue, and it goes on at the last finished task.
"""

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from clbench.errors import UserError
from clbench.executors import Listener, Resources
from clbench.executors.work import end_of, work
from clbench.files import write_atomically
from clbench.provenance import versions
from clbench.spec import Cell
from clbench.store import Place, Store

POLL = 2.0
"""Seconds between two looks at the queue."""
PATIENCE = 600.0
"""Seconds that a controller may be silent once it has answered."""
GRACE = 30.0
"""Seconds after a job has left the queue in which its end may yet be seen."""
LONGEST_ARRAY = 1000
"""Jobs in one array: SLURM's own limit is 1,001 unless it is raised."""
WARNING = 60
"""Seconds between the signal and the end of a job's time."""
NEVER = (
    "BadConstraints",
    "InvalidAccount",
    "InvalidQOS",
    "PartitionConfig",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
)
"""Reasons for which a job waits in vain."""


class Job:
    """What submitit runs on a node."""

    def __init__(self, place: Place, expected: dict[str, str], time_limit: int) -> None:
        self.place, self.expected, self.time_limit = place, expected, time_limit
        self.started = 0.0
        self.done = -1
        """Tasks that were finished when the job's time was over the last time."""

    def __call__(self, cell: Cell) -> None:
        from submitit import JobEnvironment

        self.started = time.monotonic()
        _end_when_not_requeued()
        # the driver may have died before it could write down whose job this is
        _write(_ticket(self.place, cell), {"job": JobEnvironment().job_id})
        self._end(cell, work(cell, self.place, lambda event: None, self.expected))

    def checkpoint(self, cell: Cell) -> Any:
        """Asked for by submitit when the job must make room; None: not into the queue again.

        All finished tasks are on disk.
        """
        from submitit.helpers import DelayedSubmission

        record = Store(self.place.out).read(cell.id)
        done = record["done"] if record is not None else 0
        if time.monotonic() - self.started > 60 * self.time_limit - 1.5 * WARNING:
            if done == self.done:
                text = "no task was finished before the job's time was over; raise --time-limit"
                self._end(cell, {"kind": "end", "status": "refused", "text": text})
                return None
            self.done = done
        return DelayedSubmission(self, cell)

    def _end(self, cell: Cell, end: dict[str, Any]) -> None:
        ticket = _ticket(self.place, cell)
        _write(ticket, _read(ticket) | {"end": end})


def _end_when_not_requeued() -> None:
    """What submitit raises when a job does not go back into the queue ends the process: it comes
    out of a signal, in the middle of a method, whose failure it is not."""
    theirs = signal.getsignal(signal.SIGUSR2)

    def ours(number: int, frame: Any) -> None:
        try:
            theirs(number, frame)  # type: ignore[operator, misc]
        except Exception as error:
            sys.exit(f"{type(error).__name__}: {error}")

    if callable(theirs):
        signal.signal(signal.SIGUSR2, ours)


def run_cells(cells: list[Cell], place: Place, resources: Resources, listen: Listener) -> None:
    """Submit the cells that are not in the queue, and watch all of them to their end."""
    place = Place(place.out.resolve(), place.data_root.resolve(), place.accept_data)
    try:
        (place.out / "slurm").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{place.out / 'slurm'} cannot be made: {error.strerror}.") from None
    store = Store(place.out)
    waiting = {cell.id: cell for cell in cells}
    known: dict[str, int] = {}
    missed: dict[str, float] = {}
    queue, heard = _queue(), time.monotonic()
    for cell in cells:  # of an earlier command, whose job is gone
        if not _is_queued(place, cell, queue):
            _ticket(place, cell).unlink(missing_ok=True)
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
            new = []
            for cell in idle:
                end = _ended(place, store, cell)
                if end is None or (end["status"] == "busy" and not store.is_running(cell.id)):
                    new.append(cell)
                elif end["status"] == "died" and not _is_late(missed, cell):
                    continue
                elif end["status"] != "busy":
                    listen(cell, end)
                    _ticket(place, cell).unlink(missing_ok=True)
                    del waiting[cell.id]
            free = resources.workers - (len(waiting) - len(new))
            if new and free > 0:
                _submit(new[:LONGEST_ARRAY], place, replace(resources, workers=free))
            for cell in list(waiting.values()):
                _tell(cell, store, known, listen)
                job = _read(_ticket(place, cell)).get("job", "")
                if (reason := queue.get(job, "")) in NEVER:
                    _cancel(job)
                    why = f"SLURM can never start its job ({reason})"
                    text = f"{why}: ask for less (--time-limit too), or for another --partition"
                    listen(cell, {"kind": "end", "status": "refused", "text": text})
                    del waiting[cell.id]
            if waiting:
                time.sleep(POLL)
    except KeyboardInterrupt:
        jobs = [job for c in waiting.values() if (job := _read(_ticket(place, c)).get("job"))]
        _cancel(*jobs)
        for cell in waiting.values():
            _ticket(place, cell).unlink(missing_ok=True)
        raise


def _is_late(missed: dict[str, float], cell: Cell) -> bool:
    """Whether a job is gone for so long that its end would be seen on a slow file system too."""
    return time.monotonic() - missed.setdefault(cell.id, time.monotonic()) > GRACE


def _submit(cells: list[Cell], place: Place, resources: Resources) -> None:
    try:
        import submitit
    except ImportError:
        raise UserError("--executor slurm needs submitit: pip install 'clbench[slurm]'.") from None
    if shutil.which("sbatch") is None:
        raise UserError("--executor slurm: there is no `sbatch` here; call clbench on the cluster.")
    executor = submitit.SlurmExecutor(folder=place.out / "slurm", max_num_timeout=10**6)
    options: dict[str, Any] = {
        "job_name": "clbench",
        "cpus_per_task": resources.cpus_per_run,
        "time": resources.time_limit,
        "array_parallelism": resources.workers,
        "signal_delay_s": WARNING,
        "stderr_to_stdout": True,
    }
    if resources.gpus_per_run:
        options["gpus_per_node"] = resources.gpus_per_run
    if resources.memory_per_run:
        options["mem"] = f"{round(resources.memory_per_run * 1000)}M"
    if resources.partition:
        options["partition"] = resources.partition
    executor.update_parameters(**options)
    try:
        jobs = executor.map_array(Job(place, versions(), resources.time_limit), cells)
    except submitit.core.utils.FailedJobError as error:
        reason = " ".join(str(error).split()).partition("sbatch: error: ")[2] or str(error)
        raise UserError(f"SLURM does not take the jobs: {reason}") from None
    for cell, job in zip(cells, jobs, strict=True):
        if _read(_ticket(place, cell)).get("job") != job.job_id:  # it may have begun, or ended
            _write(_ticket(place, cell), {"job": job.job_id})


def _ended(place: Place, store: Store, cell: Cell) -> dict[str, Any] | None:
    """How a cell that is not in the queue has ended, if it was there."""
    record = store.read(cell.id)
    if record is not None and record["status"] != "partial":  # whichever driver submitted it
        return end_of(record)
    ticket = _read(_ticket(place, cell))
    if "job" not in ticket:
        return None
    if "end" in ticket:
        end: dict[str, Any] = ticket["end"]
        return end
    log = place.out / "slurm" / f"{ticket['job']}_0_log.out"
    words = "its job left the queue before its end (cancelled, out of memory, or its node failed)"
    return {"kind": "end", "status": "died", "text": f"{words}; see {log}"}


def _tell(cell: Cell, store: Store, known: dict[str, int], listen: Listener) -> None:
    """Pass on which task a cell has reached, as its record says."""
    record = store.read(cell.id)
    if record is None or record["done"] <= known.get(cell.id, 0):
        return
    known[cell.id] = done = record["done"]
    row = [value for value in record["R"][-1][:done] if value is not None]
    accuracy = sum(row) / len(row) if row else None
    event = {"task": done, "tasks": record["tasks"], "accuracy": accuracy}
    listen(cell, {"kind": "task", **event})


def _queue() -> dict[str, str]:
    """All jobs of ours that wait or run, as SLURM writes them (`12_3` in an array), and why they
    wait."""
    listed = _command("squeue", "--me", "-h", "-r", "-o", "%i %r")
    return dict(line.split(maxsplit=1) for line in listed.splitlines())


def _is_queued(place: Place, cell: Cell, queue: dict[str, str]) -> bool:
    return _read(_ticket(place, cell)).get("job") in queue


def _cancel(*jobs: str) -> None:
    if jobs:
        with contextlib.suppress(UserError):  # one that has just ended is unknown to it
            _command("scancel", *jobs)


def _command(*words: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    except FileNotFoundError:
        raise UserError(
            f"--executor slurm: there is no `{words[0]}` here; call clbench on the cluster."
        ) from None
    except subprocess.TimeoutExpired:
        raise UserError("SLURM does not answer; the jobs that it has go on.") from None
    except subprocess.CalledProcessError as error:
        raise UserError(f"SLURM does not answer: {' '.join(error.stderr.split())}") from None
    return done.stdout


def _ticket(place: Place, cell: Cell) -> Path:
    return place.out / "slurm" / f"{cell.id}.json"


def _read(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(path.read_bytes())
        if isinstance(found, dict):
            return found
    return {}


def _write(path: Path, content: dict[str, Any]) -> None:
    try:
        write_atomically(path, json.dumps(content).encode())
    except OSError as error:
        raise UserError(f"{path.parent} cannot be written to: {error.strerror}.") from error
