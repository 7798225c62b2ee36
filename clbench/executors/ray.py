"""Cells as tasks of a Ray cluster, which needs no file system in common.

Every finished task travels back to the store of this machine at once: a record and a checkpoint, as
bytes, through an inbox beside this process. When a node is lost, its run starts on another one,
asks the inbox for its last state and goes on there. A node reads data sets from its own data root.
If it has none, it gets them from here through Ray's object store, once per node.
"""

import contextlib
import importlib.util
import os
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, TypeAlias

from clbench import data
from clbench.errors import UserError
from clbench.events import Ended, Event, Listener, Note, TaskEnded, end_of
from clbench.executors import DataSets, Resources
from clbench.executors.quiet import silence_packages
from clbench.executors.turns import Turns
from clbench.executors.work import work
from clbench.files import read_bounded, write_atomically
from clbench.lease import BusyError
from clbench.limits import CHECKPOINT, RECORD
from clbench.provenance import versions
from clbench.record_file import parse
from clbench.spec import Cell
from clbench.store import Place, Store

Letter: TypeAlias = tuple[str, Event | None, dict[str, bytes]]
"""Id of a run, an event, and the bytes of its record and checkpoint if they are new."""
Sent: TypeAlias = dict[str, tuple[str, Any]]
"""The checksum of each data set, and its reference in Ray's object store."""
POLL = 0.5
"""Seconds between two looks into the inbox."""
RETRIES = 20
"""How often a run is started again after its process or node was lost."""


class Inbox:
    """An actor on the driver's node: keeps what runs send, and unfinished runs' last state."""

    def __init__(self) -> None:
        self.states: dict[str, dict[str, bytes]] = {}
        self.letters: list[Letter] = []

    def send(self, run_id: str, event: Event | None, state: dict[str, bytes]) -> None:
        if state:
            self.states[run_id] = state
        self.letters.append((run_id, event, state))

    def keep(self, run_id: str, state: dict[str, bytes]) -> None:
        self.states[run_id] = state

    def state(self, run_id: str) -> dict[str, bytes]:
        return self.states.get(run_id, {})

    def empty(self) -> list[Letter]:
        letters, self.letters = self.letters, []
        return letters


def problems(resources: Resources) -> list[str]:
    """What the executor needs and does not find. Ray itself would wait for minutes."""
    if importlib.util.find_spec("ray") is None:
        return ["--executor ray needs Ray: pip install 'clbench[ray]'."]
    address = resources.ray_address or ""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon:  # else `auto`, or a name that Ray knows
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except (OSError, ValueError, OverflowError) as error:
            return [f"--ray-address {address}: no Ray cluster answers ({error})."]
    return []


def run_cells(
    cells: list[Cell], place: Place, resources: Resources, datasets: DataSets, listen: Listener
) -> None:
    """Run the cells on the cluster, at most `workers` at a time; hold the lease of each here."""
    place = place.absolute()
    store = Store(place.out)
    by_id = {cell.id: cell for cell in cells}
    waiting = list(cells)
    running: dict[Any, Cell] = {}
    turns = Turns(store, listen)
    lost: dict[str, str] = {}  # taken over by another driver, while this one was held up
    with contextlib.ExitStack() as leases:
        ray = _connect(resources)
        leases.callback(ray.shutdown)
        _check(ray, resources)
        # a reference inside of a value is not fetched with it: only nodes that lack the data do so
        sent = {name: (used.sha256, ray.put(used)) for name, used in datasets.items()}
        node = ray.get_runtime_context().get_node_id()
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        inbox = ray.remote(Inbox).options(num_cpus=0, scheduling_strategy=here).remote()
        task = ray.remote(_train).options(
            num_cpus=resources.cpus_per_run,
            num_gpus=resources.gpus_per_run,
            memory=int(resources.memory_per_run * 1e9) if resources.memory_per_run else None,
            max_retries=RETRIES,
        )
        held: dict[str, contextlib.ExitStack] = {}
        while waiting or running:
            for cell in [*filter(turns.has_come, waiting)]:
                if len(running) >= resources.workers:
                    break
                lease = leases.enter_context(contextlib.ExitStack())
                waiting.remove(cell)
                if not lease.enter_context(store.lease(cell.id)):
                    if turns.again(cell, f"{store.holder(cell.id)} is training it"):
                        waiting.append(cell)
                    continue
                if text := store.clear_damaged(cell.id):
                    listen(cell, Note(text))
                record = store.read(cell.id)
                if record is not None and record.status == "done":  # by another driver meanwhile
                    listen(cell, end_of(record))
                    lease.close()
                    continue
                held[cell.id] = lease
                ray.get(inbox.keep.remote(cell.id, _state(store, cell.id)))
                running[task.remote(cell, place, inbox, sent, versions())] = cell
            if not running:  # what is left is being trained by another process
                turns.say(waiting)
                time.sleep(POLL)
            ended, _ = ray.wait([*running], timeout=POLL) if running else ([], [])
            for run_id, event, state in ray.get(inbox.empty.remote()):
                try:
                    _keep(store, run_id, state)
                except BusyError as error:
                    lost[run_id] = str(error)
                if event is not None:
                    listen(by_id[run_id], event)
            for reference in ended:
                cell = running.pop(reference)
                try:
                    end: Ended = ray.get(reference)
                except ray.exceptions.RayError as error:
                    end = Ended("died", f"Ray gave it up: {' '.join(str(error).split())[:300]}")
                if why := lost.pop(cell.id, ""):
                    if turns.again(cell, why):
                        waiting.append(cell)
                else:
                    listen(cell, end)
                inbox.keep.remote(cell.id, {})
                held.pop(cell.id).close()


def _train(cell: Cell, place: Place, inbox: Any, sent: Sent, expected: dict[str, str]) -> Ended:
    """On a node: train in a folder of its own, and send what is finished to the inbox."""
    import ray

    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        store.prepare()
        _keep(store, cell.id, ray.get(inbox.state.remote(cell.id)))
        sent_once = False

        def listen(cell: Cell, event: Event) -> None:
            nonlocal sent_once
            # the first record comes before the first task ends, and names the run
            new = isinstance(event, TaskEnded) or not sent_once
            state = _state(store, cell.id) if new else {}
            sent_once = sent_once or bool(state)
            ray.get(inbox.send.remote(cell.id, event, state))

        mine = Place(store.root, place.data_root, place.accept_data)
        end = work(cell, mine, listen, expected, _datasets(ray, cell, mine, sent))
        # what was kept after the last task: a failure, or a record that was done before
        ray.get(inbox.send.remote(cell.id, None, _state(store, cell.id)))
        return end


def _datasets(ray: Any, cell: Cell, place: Place, sent: Sent) -> DataSets:
    """The data sets of a cell: the node's own if they are the driver's, else the driver's."""
    found = {}
    for name in cell.benchmark.meta.get("datasets", ()):
        checksum, reference = sent[name]
        with contextlib.suppress(UserError):
            found[name] = data.load(name, place.data_root, place.accept_data)
        if name not in found or found[name].sha256 != checksum:
            found[name] = ray.get(reference)
    return found


def _state(store: Store, run_id: str) -> dict[str, bytes]:
    """A run's record and checkpoint as they stand on disk."""
    paths = {"record": store.record_path(run_id), "checkpoint": store.checkpoint_path(run_id)}
    limits = {"record": RECORD, "checkpoint": CHECKPOINT}
    found = {}
    for name, path in paths.items():
        with contextlib.suppress(OSError):  # there is none, or none that a run can have written
            found[name] = read_bounded(path, limits[name])
    return found


def _keep(store: Store, run_id: str, state: dict[str, bytes]) -> None:
    """Write the received files to the places where a local run writes them."""
    if "record" in state:
        store.write(parse(state["record"], run_id), state.get("checkpoint"))
    elif "checkpoint" in state:  # the record was damaged; the checkpoint has it too
        write_atomically(store.checkpoint_path(run_id), state["checkpoint"], store.root)


def _connect(resources: Resources) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # a run that asks for no GPU leaves CUDA_VISIBLE_DEVICES as it is
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    silence_packages()
    address = resources.ray_address or ""
    import ray
    from ray.job_config import JobConfig

    class OwnPath(JobConfig):
        """Ray puts the current folder first on the path of its workers, so that a file `numpy.py`
        there would run. With this they get it only if this process has it."""

        def _serialize(self) -> Any:
            given: list[str] = vars(self)["_py_driver_sys_path"]
            self._py_driver_sys_path = [folder for folder in given if folder in sys.path]
            return super()._serialize()

    options: dict[str, Any] = {"address": address} if address else {"include_dashboard": False}
    if not address:
        options |= {"num_cpus": resources.workers * resources.cpus_per_run, "address": "local"}
    if not address.startswith("ray://"):  # a client's path stays with the client
        options["job_config"] = OwnPath()
    try:
        ray.init(log_to_driver=False, logging_level="ERROR", **options)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"--ray-address {address}: no Ray cluster answers ({reason}).") from None
    return ray


def _check(ray: Any, resources: Resources) -> None:
    """Refuse at once what no node can ever give."""
    wanted = {"CPU": resources.cpus_per_run, "GPU": resources.gpus_per_run}
    if resources.memory_per_run:
        wanted["memory"] = int(resources.memory_per_run * 1e9)
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(all(node.get(k, 0) >= v for k, v in wanted.items()) for node in nodes):
        return
    most = {k: max(node.get(k, 0) for node in nodes) for k in wanted}
    words = ", ".join(f"{most[k]:g} {k}" for k in wanted)
    raise UserError(
        f"No node of the Ray cluster has what a run asks for; the most that there is: {words}."
    )
