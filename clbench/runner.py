"""One cell -> one record: builds the stream and the method, learns task after task, saves each.

After every task the checkpoint is written, then the record. A run that was stopped goes on at the
last finished task: weights and plugin state come from the checkpoint, and everything random is
seeded anew at the start of each task, so the accuracy matrix is that of an undisturbed run.
"""

import ctypes
import datetime
import io
import json
import resource
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch

from clbench import data
from clbench.errors import UserError
from clbench.lease import BusyError
from clbench.networks.dropout import Dropout
from clbench.provenance import provenance
from clbench.registry import import_class
from clbench.seeding import seed_everything
from clbench.spec import Cell
from clbench.store import SCHEMA, Place, Store
from clbench.stream import Stream
from clbench.training import Strategy

Listener = Callable[[dict[str, Any]], None]


def run(
    cell: Cell,
    place: Place,
    listen: Listener = lambda event: None,
    datasets: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Train one cell to its end, or go on where it was stopped, and return its record.

    `datasets` are used in place of those in the data root. An error inside the method is kept in
    the record (status `failed`, with the traceback).
    """
    store = Store(place.out)
    store.prepare()
    with store.lease(cell.id) as mine:
        if not mine:
            raise BusyError(str(cell))
        existing = store.read(cell.id)
        if existing is not None and existing["status"] == "done":
            return existing
        if text := store.clear_damaged(cell.id):
            listen({"kind": "note", "text": text})
        set_up_torch(cell)
        if datasets is None:
            datasets = {
                name: data.load(name, place.data_root, place.accept_data)
                for name in cell.benchmark.meta.get("datasets", ())
            }
        record = _fresh_record(cell, datasets)
        try:
            stream = make_stream(cell, datasets)
            record["tasks"] = len(stream)
            strategy = _resume(cell, stream, record, store, listen)
            _learn_all(cell, strategy, record, store, listen)
        except (UserError, BusyError):
            raise
        except Exception as error:
            record["status"] = "failed"
            record["failure"] = {
                "error": f"{type(error).__name__}: {error}",
                "traceback": traceback.format_exc(),
            }
            _keep(None, record, store)
        return record


def make_stream(cell: Cell, datasets: dict[str, Any]) -> Stream:
    """The benchmark's stream for the cell's seed."""
    spec = cell.spec
    benchmark = import_class(cell.benchmark)(**spec.benchmark_params)
    return Stream(
        benchmark.sources(datasets, spec.seed),
        name=spec.benchmark,
        backbone=benchmark.backbone,
        protocol=spec.protocol,
        seed=spec.seed,
        device=spec.device,
    )


def refusals(cells: list[Cell], place: Place) -> dict[str, str]:
    """Why cells cannot be trained, by id, found out without training; one seed stands for all."""
    streams: dict[str, Stream | str] = {}
    found: dict[str, str] = {}
    for cell in cells:
        spec = cell.spec
        key = repr((spec.benchmark, spec.benchmark_params, spec.protocol))
        try:
            if key not in streams:
                streams[key] = _stream_or_reason(cell, place)
            stream = streams[key]
            reason = stream if isinstance(stream, str) else refusal(cell, stream)
        except Exception:
            continue  # no mistake of the user's: the run itself fails, and keeps the traceback
        if reason:
            found[cell.id] = reason
    return found


def _stream_or_reason(cell: Cell, place: Place) -> Stream | str:
    names = cell.benchmark.meta.get("datasets", ())
    try:
        datasets = {n: data.load(n, place.data_root, place.accept_data) for n in names}
        return make_stream(cell, datasets)
    except UserError as error:
        return str(error)


def refusal(cell: Cell, stream: Stream) -> str:
    """Why the cell's method cannot run on the stream; empty if it can."""
    reason = import_class(cell.method)(**cell.spec.method_params).refusal(stream)
    return f"{cell.labels['method']} cannot run on {stream.name}: {reason}" if reason else ""


def build(cell: Cell, stream: Stream) -> Strategy:
    """The cell's method on the stream, with initial weights from the seed."""
    if reason := refusal(cell, stream):
        raise UserError(reason)
    method = import_class(cell.method)(**cell.spec.method_params)
    seed_everything(stream.seed, "init")
    strategy: Strategy = method.build(stream)
    if cell.spec.protocol.torch_dropout:
        for module in strategy.model.modules():
            if isinstance(module, Dropout):
                module.fast = False
    if cell.spec.protocol.compile:
        _compile(strategy.model)
    return strategy


def _compile(module: torch.nn.Module) -> None:
    """Compile the chains of layers in a network; its routing by task stays Python."""
    for part in module.children():
        if isinstance(part, torch.nn.Sequential):
            part.compile()
        else:
            _compile(part)


def set_up_torch(cell: Cell) -> None:
    """Threads, determinism and the allocator, for the whole process."""
    try:
        torch.empty(0, device=cell.spec.device)
    except Exception as error:
        why = str(error).partition("\n")[0]
        raise UserError(f"--device {cell.spec.device} cannot be used: {why}") from None
    torch.set_num_threads(cell.spec.threads)
    torch.set_flush_denormal(True)  # weights that decay to 1e-40 would make a step far slower
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if sys.platform == "linux":  # keep freed memory: giving it back costs a page fault each time
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):
            libc.mallopt(-3, 2**30)  # M_MMAP_THRESHOLD
            libc.mallopt(-1, 2**30)  # M_TRIM_THRESHOLD


def _learn_all(
    cell: Cell, strategy: Strategy, record: dict[str, Any], store: Store, listen: Listener
) -> None:
    tasks = record["tasks"]
    before = saving = 0.0
    if not record["R0"]:
        started = time.perf_counter()
        record["R0"] = [strategy.accuracy(i) for i in range(tasks)]
        before = time.perf_counter() - started
    for k in range(record["done"], tasks):

        def on_epoch(epoch: dict[str, float], k: int = k) -> None:
            listen({"kind": "epoch", "task": k + 1, "tasks": tasks, **epoch})

        strategy.schedule.on_epoch = on_epoch
        started = time.perf_counter()
        seed_everything(cell.spec.seed, "task", k)
        curve = strategy.learn(k)
        learned = time.perf_counter()
        parts, strategy.spent = dict(strategy.spent), defaultdict(float)
        # what is not learned yet is measured one task ahead, for forward transfer
        row: list[float | None] = [None] * tasks
        if curve is not None:
            row[: k + 2] = [strategy.accuracy(i) for i in range(min(k + 2, tasks))]
        last = k + 1 == tasks
        valid = [strategy.valid_accuracy(i) for i in range(tasks)] if last else None
        # what JSON cannot hold (a NaN, a tensor) fails here, before the record is touched
        diagnostics = json.loads(json.dumps(strategy.diagnostics(), allow_nan=False))
        tests = before + time.perf_counter() - learned
        before = 0.0
        memory = json.loads(json.dumps(strategy.memory().as_dict(), allow_nan=False))
        record["R"].append(row)
        record["curve"] += [{"task": k + 1, **epoch} for epoch in curve or ()]
        record["diagnostics"].append(diagnostics)
        record["memory"] = memory
        record["seconds"]["train"].append(learned - started)
        record["seconds"]["eval"].append(tests)
        record["seconds"]["total"] = sum(record["seconds"]["train"] + record["seconds"]["eval"])
        parts["rest of training"] = max(0.0, learned - started - sum(parts.values()))
        parts |= {"tests": tests, "saving": saving}
        spent = record["seconds"].setdefault("parts", {})
        record["seconds"]["parts"] = {
            part: spent.get(part, 0.0) + parts.get(part, 0.0) for part in {**spent, **parts}
        }
        record["peak_memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        record["done"] = k + 1
        record["finished"] = _now()
        if last:
            record["status"], record["valid"] = "done", valid
        started = time.perf_counter()
        _keep(strategy, record, store)
        saving = time.perf_counter() - started  # goes into the next record
        known = [value for value in row[: k + 1] if value is not None]
        accuracy = sum(known) / len(known) if known else None
        listen({"kind": "task", "task": k + 1, "tasks": tasks, "accuracy": accuracy})


def _keep(strategy: Strategy | None, record: dict[str, Any], store: Store) -> None:
    """Write the checkpoint, if there is something to go on from, and then the record."""
    checkpoint = None
    if strategy is not None:
        file = io.BytesIO()
        torch.save({"record": json.dumps(record), "state": strategy.state_dict()}, file)
        checkpoint = file.getvalue()
    store.write(record, checkpoint)


def _resume(
    cell: Cell, stream: Stream, record: dict[str, Any], store: Store, listen: Listener
) -> Strategy:
    """The method on the stream, at the last finished task if its checkpoint is there and whole."""
    strategy = build(cell, stream)
    path = store.checkpoint_path(cell.id)
    if not path.exists():
        return strategy
    try:
        content = torch.load(path, weights_only=True)
        kept = json.loads(content["record"])
        same = kept["spec"] == record["spec"] and kept["data"] == record["data"]
        if same:
            strategy.load_state_dict(content["state"])
    except Exception as error:  # torch.load raises many kinds for a damaged file
        reason = f"{path} cannot be read ({type(error).__name__})"
        listen({"kind": "note", "text": f"{reason}; {cell} starts again."})
        return build(cell, stream)
    if not same:
        reason = "its checkpoint is of another version of the method, the benchmark or the data"
        listen({"kind": "note", "text": f"{cell} starts again: {reason}."})
        return strategy
    record.update(kept)
    _keep(None, record, store)  # the record may be one task behind its checkpoint
    return strategy


def _fresh_record(cell: Cell, datasets: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "id": cell.id,
        "status": "partial",
        "spec": cell.versioned(),
        "labels": cell.labels,
        "titles": {"benchmark": cell.benchmark.title, "method": cell.method.title},
        "family": cell.method.meta.get("family", ""),
        "zero_forgetting": bool(cell.method.meta.get("zero_forgetting", False)),
        "tasks": 0,
        "done": 0,
        "R": [],
        "R0": [],
        "valid": [],
        "curve": [],
        "diagnostics": [],
        "memory": {"architecture": 0, "replay": 0, "auxiliary": 0},
        "seconds": {"total": 0.0, "train": [], "eval": [], "parts": {}},
        "peak_memory": 0,
        "data": {name: {"sha256": d.sha256, "note": d.note} for name, d in datasets.items()},
        "provenance": provenance(),
        "started": _now(),
        "finished": "",
        "failure": None,
    }


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
