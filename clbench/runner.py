"""One cell -> one record: builds the stream and the method, learns task after task, saves each.

After every task the checkpoint is written, then the record. A run that was stopped goes on at the
last finished task: weights and plugin state come from the checkpoint, and everything random is
seeded anew at the start of each task, so the accuracy matrix is that of an undisturbed run.
"""

import datetime
import io
import json
import resource
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import msgspec
import torch

from clbench import data
from clbench.build import build, make_stream, set_up_torch
from clbench.errors import UserError
from clbench.events import EpochEnded, Listener, Note, TaskEnded
from clbench.lease import BusyError
from clbench.provenance import provenance
from clbench.record import DataUse, Epoch, Failure, Record, Shown, Titles, encode, parse
from clbench.seeding import seed_everything
from clbench.spec import Cell
from clbench.store import Place, Store
from clbench.stream import Stream
from clbench.training import Strategy


def run(
    cell: Cell,
    place: Place,
    listen: Listener = lambda cell, event: None,
    datasets: dict[str, Any] | None = None,
) -> Record:
    """Train one cell to its end, or go on where it was stopped, and return its record.

    `datasets` replace those in the data root. An error inside the method is kept in the record
    (status `failed`, with the traceback).
    """
    store = Store(place.out)
    store.prepare()
    with store.lease(cell.id) as mine:
        if not mine:
            raise BusyError(f"{store.holder(cell.id)} is training it")
        existing = store.read(cell.id)
        if existing is not None and existing.status == "done":
            return existing
        if text := store.clear_damaged(cell.id):
            listen(cell, Note(text))
        set_up_torch(cell)
        if datasets is None:
            datasets = {
                name: data.load(name, place.data_root, place.accept_data)
                for name in cell.benchmark.meta.get("datasets", ())
            }
        tasks = 0
        try:
            stream = make_stream(cell, datasets)
            tasks = len(stream)
            fresh = _fresh_record(cell, datasets, tasks)
            strategy, record = _resume(cell, stream, fresh, store, listen)
            _learn_all(cell, strategy, record, store, listen)
        except (UserError, BusyError):
            raise
        except Exception as error:
            # as it was saved last: what the failed task has left may be of no use
            record = store.read(cell.id) or _fresh_record(cell, datasets, tasks)
            record.status = "failed"
            record.failure = Failure(
                error=f"{type(error).__name__}: {error}", traceback=traceback.format_exc()
            )
            store.write(record)
        return record


def _learn_all(
    cell: Cell, strategy: Strategy, record: Record, store: Store, listen: Listener
) -> None:
    tasks, spent = record.tasks, record.seconds
    before = saving = 0.0
    if not record.R0:
        started = time.perf_counter()
        record.R0 = [_percent(strategy.accuracy, i) for i in range(tasks)]
        before = time.perf_counter() - started
    for k in range(record.done, tasks):

        def on_epoch(epoch: dict[str, float], k: int = k) -> None:
            listen(cell, EpochEnded(k + 1, tasks, _epoch(k, epoch)))

        strategy.schedule.on_epoch = on_epoch
        started = time.perf_counter()
        seed_everything(cell.spec.seed, "task", k)
        curve = strategy.learn(k)
        learned = time.perf_counter()
        parts, strategy.spent = dict(strategy.spent), defaultdict(float)
        # the next task is tested before it is learned, for forward transfer
        row: list[float | None] = [None] * tasks
        if curve is not None:
            row[: k + 2] = [_percent(strategy.accuracy, i) for i in range(min(k + 2, tasks))]
        last = k + 1 == tasks
        valid = [_percent(strategy.valid_accuracy, i) for i in range(tasks)] if last else []
        # what JSON cannot hold (a NaN, a tensor) fails here, before the record is touched
        diagnostics = json.loads(json.dumps(strategy.diagnostics(), allow_nan=False))
        tests = before + time.perf_counter() - learned
        before = 0.0
        memory = strategy.memory()
        record.R.append(row)
        record.curve += [_epoch(k, epoch) for epoch in curve or ()]
        record.diagnostics.append(diagnostics)
        record.memory = memory
        spent.train.append(learned - started)
        spent.eval.append(tests)
        spent.total = sum(spent.train + spent.eval)
        parts["rest of training"] = max(0.0, learned - started - sum(parts.values()))
        parts |= {"tests": tests, "saving": saving}
        for part, seconds in parts.items():
            spent.parts[part] = spent.parts.get(part, 0.0) + seconds
        record.peak_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        record.done = k + 1
        record.finished = _now()
        if last:
            record.status, record.valid = "done", valid
        started = time.perf_counter()
        _save(strategy, record, store)
        saving = time.perf_counter() - started  # goes into the next record
        known = [value for value in row[: k + 1] if value is not None]
        accuracy = sum(known) / len(known) if known else None
        listen(cell, TaskEnded(k + 1, tasks, accuracy))


def _percent(measure: Callable[[int], float], i: int) -> float:
    """What a strategy measures on task i; a failure of the method if that is no percentage."""
    value = measure(i)
    if not (isinstance(value, float | int) and 0 <= value <= 100):
        raise ValueError(f"{measure.__name__}({i}) gave {value!r}, which is not a percentage")
    return float(value)


def _epoch(k: int, values: dict[str, float]) -> Epoch:
    return Epoch(task=k + 1, **values)  # type: ignore[arg-type]


def _save(strategy: Strategy, record: Record, store: Store) -> None:
    """Write the checkpoint, and then the record."""
    file = io.BytesIO()
    torch.save({"record": encode(record).decode(), "state": strategy.state_dict()}, file)
    store.write(record, file.getvalue())


def _resume(
    cell: Cell, stream: Stream, record: Record, store: Store, listen: Listener
) -> tuple[Strategy, Record]:
    """The method and its record after the last finished task, if the checkpoint is sound."""
    strategy = build(cell, stream)
    path = store.checkpoint_path(cell.id)
    if not path.exists():
        store.write(record)  # a run in its first task has a name
        return strategy, record
    try:
        content = torch.load(path, weights_only=True)
        kept = parse(content["record"].encode(), cell.id)
        same = (kept.spec, kept.data, kept.tasks) == (record.spec, record.data, record.tasks)
        if same:
            strategy.load_state_dict(content["state"])
    except Exception as error:  # torch.load raises many kinds for a damaged file
        listen(cell, Note(f"{path} is damaged ({type(error).__name__}); {cell} starts again."))
        return build(cell, stream), record
    if not same:
        reason = "its checkpoint is of another version of the method, the benchmark or the data"
        listen(cell, Note(f"{cell} starts again: {reason}."))
        return strategy, record
    store.write(kept)  # the record may be one task behind its checkpoint
    return strategy, kept


def _fresh_record(cell: Cell, datasets: dict[str, Any], tasks: int) -> Record:
    declared = cell.method.meta
    return Record(
        id=cell.id,
        tasks=tasks,
        spec=cell.versioned(),
        differs=cell.differs,
        titles=Titles(benchmark=cell.benchmark.title, method=cell.method.title),
        family=declared.get("family", ""),
        zero_forgetting=declared.get("zero_forgetting", False),
        upper_bound=declared.get("upper_bound", False),
        replay_size=declared.get("replay_size", ""),
        lays_open=msgspec.convert(declared.get("lays_open", {}), dict[str, Shown]),
        data={name: DataUse(sha256=d.sha256, note=d.note) for name, d in datasets.items()},
        provenance=provenance(),
        started=_now(),
    )


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
