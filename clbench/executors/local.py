"""Cells in worker processes on this machine, one process per run.

Workers are forked from a server that has imported torch and Avalanche once; this process imports
neither. A run waits until there is enough free memory, if runs like it took more. With several
GPUs each run gets one. A worker that dies takes only its own run with it. When this process dies,
in any way, its workers see the pipe close and stop.
"""

import os
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from clbench.events import Ended, Listener
from clbench.executors import DataSets, Resources
from clbench.executors.capacity import free_gpu, free_memory, gpus, memory_needs
from clbench.executors.processes import start, why_ended
from clbench.executors.turns import Turns
from clbench.executors.work import work
from clbench.spec import Cell
from clbench.store import Place, Store


@dataclass
class _Worker:
    cell: Cell
    process: Any
    pipe: Connection
    gpu: str | None
    end: Ended | None = None


def problems(resources: Resources) -> list[str]:
    """This executor needs nothing but this machine."""
    return []


def run_cells(
    cells: list[Cell], place: Place, resources: Resources, datasets: DataSets, listen: Listener
) -> None:
    """Run the cells, at most `workers` at a time; wait for what another process trains."""
    place = place.absolute()
    store = Store(place.out)
    turns = Turns(store, listen)
    waiting = list(cells)
    running: list[_Worker] = []
    needs, devices = memory_needs(cells, store, resources), gpus()
    try:
        while waiting or running:
            while len(running) < resources.workers:
                cell = next(filter(turns.has_come, waiting), None)
                taken = [(worker.process.pid, needs[worker.cell.id]) for worker in running]
                if cell is None or (running and needs[cell.id] > free_memory(taken)):
                    break
                waiting.remove(cell)
                busy = [worker.gpu for worker in running]
                gpu = free_gpu(devices, busy) if cell.spec.device == "cuda" else None
                running.append(_Worker(cell, *start(_train, cell, place, gpu), gpu))
            if not running:  # what is left is not due, or another process trains it
                turns.say(waiting)
                time.sleep(0.5)
            for worker in _next_events(running, listen):
                running.remove(worker)
                end = worker.end
                if end and end.status == "busy" and turns.again(worker.cell, end.text):
                    waiting.append(worker.cell)
    finally:
        for worker in running:
            worker.process.kill()
            worker.process.join()


def _next_events(running: list[_Worker], listen: Listener) -> list[_Worker]:
    """Wait for events, pass them on, and return the workers that have ended."""
    wait([worker.pipe for worker in running], timeout=1.0)
    gone = []
    for worker in running:
        try:
            while worker.pipe.poll():
                event = worker.pipe.recv()
                if isinstance(event, Ended):
                    worker.end = event
                if worker.end is None or worker.end.status != "busy":
                    listen(worker.cell, event)
        except (EOFError, OSError):
            worker.process.join()
            if worker.end is None:
                listen(worker.cell, Ended("died", why_ended(worker.process.exitcode)))
            gone.append(worker)
    return gone


def _train(cell: Cell, place: Place, gpu: str | None, pipe: Connection) -> None:
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    pipe.send(work(cell, place, lambda cell, event: pipe.send(event)))
    pipe.close()
