"""Cells in worker processes on this machine, one process per run.

Workers are forked from a server that has imported torch and Avalanche once; this process imports
neither, so it answers at once. A run is not started beside others if runs like it took more memory
than there is; of several GPUs each run gets one. A worker that dies takes only its run with it, and
when this process dies, however it dies, its workers see the pipe close and stop.
"""

import contextlib
import multiprocessing as mp
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from clbench.errors import UserError
from clbench.executors import Listener, Resources
from clbench.executors.work import ListenerGoneError, work
from clbench.provenance import explain_import
from clbench.registry import import_class
from clbench.spec import Cell
from clbench.store import Place, Store


@dataclass
class _Worker:
    cell: Cell
    process: Any
    pipe: Connection
    gpu: str | None
    ended: dict[str, Any] | None = field(default=None)


def run_cells(cells: list[Cell], place: Place, resources: Resources, listen: Listener) -> None:
    """Run the cells, at most `workers` at a time; what another process trains is waited for."""
    context = _context()
    store = Store(place.out)
    waiting = list(cells)
    running: list[_Worker] = []
    needs, gpus = _memory_needs(cells, store, resources), _gpus()
    try:
        while waiting or running:
            while len(running) < resources.workers:
                cell = next((c for c in waiting if not store.is_running(c.id)), None)
                if cell is None or (running and needs[cell.id] > _free_memory(running, needs)):
                    break
                waiting.remove(cell)
                gpu = _free_gpu(gpus, running) if cell.spec.device == "cuda" else None
                running.append(_start(context, cell, place, gpu))
            if not running:  # what is left is being trained by another process
                time.sleep(0.5)
            for worker in _next_events(running, listen):
                running.remove(worker)
                if worker.ended is not None and worker.ended["status"] == "busy":
                    waiting.append(worker.cell)
    finally:
        for worker in running:
            worker.process.kill()
            worker.process.join()


def look_ahead(cells: list[Cell], place: Place) -> dict[str, str]:
    """Import what the cells need, in a process of its own; a UserError if something does not.

    Returns, by id, why cells cannot be trained: methods that refuse a stream, and the like.
    """
    context = _context()
    ours, theirs = context.Pipe()
    process = context.Process(target=_import_all, args=(cells, place, theirs), daemon=True)
    process.start()
    theirs.close()
    refused: dict[str, str] = {}
    try:
        problem, refused = ours.recv()
    except EOFError:
        process.join()
        problem = f"The methods cannot be imported: {_why(process.exitcode)}."
    if problem:
        raise UserError(problem)
    return refused


def _import_all(cells: list[Cell], place: Place, pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_driver, args=(pipe,), daemon=True).start()
    try:
        from clbench.runner import refusals
    except Exception as error:
        pipe.send((explain_import(error), {}))
        os._exit(1)
    problems = []
    for declaration in {d.path: d for c in cells for d in (c.method, c.benchmark)}.values():
        try:
            import_class(declaration)
        except UserError as error:
            problems.append(str(error))
    pipe.send(("\n".join(problems), {} if problems else refusals(cells, place)))
    os._exit(0)


def _context() -> Any:
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["clbench.executors.preload"])
    return context


def _start(context: Any, cell: Cell, place: Place, gpu: str | None) -> _Worker:
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(cell, place, theirs, gpu), daemon=True)
    process.start()
    theirs.close()
    return _Worker(cell, process, ours, gpu)


def _memory_needs(cells: list[Cell], store: Store, resources: Resources) -> dict[str, int]:
    """The bytes that the user says a run takes, or the most that one like it has ever taken; 0 if
    there was none."""
    if resources.memory_per_run:
        return {cell.id: int(resources.memory_per_run * 1e9) for cell in cells}
    peaks: dict[tuple[str, str], int] = {}
    for record in store.each([]):
        key = (record["labels"]["benchmark"], record["labels"]["method"])
        peaks[key] = max(peaks.get(key, 0), int(record.get("peak_memory") or 0))
    return {c.id: peaks.get((c.labels["benchmark"], c.labels["method"]), 0) for c in cells}


def _free_memory(running: list[_Worker], needs: dict[str, int]) -> int:
    """Bytes that a new process can have beside those that are running, which may yet grow."""
    import psutil

    free = int(psutil.virtual_memory().available)
    for worker in running:
        with contextlib.suppress(psutil.Error):
            free -= max(
                0, needs[worker.cell.id] - psutil.Process(worker.process.pid).memory_info().rss
            )
    return free


def _gpus() -> list[str]:
    """The GPUs that this process may use, without waking them."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [gpu for gpu in visible.split(",") if gpu.strip()]
    command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return []


def _free_gpu(gpus: list[str], running: list[_Worker]) -> str | None:
    """The GPU that has the fewest runs."""
    busy = [worker.gpu for worker in running]
    return min(gpus, key=busy.count, default=None)


def _next_events(running: list[_Worker], listen: Listener) -> list[_Worker]:
    """Wait for something to happen, pass it on, and return the workers that have ended."""
    wait([worker.pipe for worker in running], timeout=1.0)
    gone = []
    for worker in running:
        try:
            while worker.pipe.poll():
                event = worker.pipe.recv()
                if event["kind"] == "end":
                    worker.ended = event
                listen(worker.cell, event)
        except (EOFError, OSError):
            worker.process.join()
            if worker.ended is None:
                code = worker.process.exitcode
                listen(worker.cell, {"kind": "end", "status": "died", "text": _why(code)})
            gone.append(worker)
    return gone


def _why(code: int | None) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed (signal 9; is the machine out of memory?)"
    if code is not None and code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"


def _work(cell: Cell, place: Place, pipe: Connection, gpu: str | None) -> None:
    """A worker's life: one run. Ctrl-C is the driver's business."""
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_driver, args=(pipe,), daemon=True).start()
    try:
        pipe.send(work(cell, place, pipe.send))
        pipe.close()
    except (ListenerGoneError, OSError):  # the driver is gone
        os._exit(1)
    os._exit(0)  # skips the tear-down of torch, which has nothing left to save


def _die_with_driver(pipe: Connection) -> None:
    """The driver never sends: the read ends only when the driver is gone."""
    try:
        pipe.recv()
    except (EOFError, OSError):
        os._exit(1)
