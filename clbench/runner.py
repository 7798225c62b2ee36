"""One cell -> one record: builds the stream and the method, learns task after task, saves each.

After every task the checkpoint is written, then the record. A run that was stopped goes on at the
last finished task: weights and plugin state come from the checkpoint, and everything random is
seeded anew at the start of each task, so the accuracy matrix is that of an undisturbed run.
"""

import datetime
import json
import resource
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import msgspec

from clbench import checkpoint, data
from clbench.build import build, make_stream, set_up_torch
from clbench.declare import cannot_forget
from clbench.errors import UserError
from clbench.events import EpochEnded, Listener, Note, TaskEnded
from clbench.importing import unhashed
from clbench.lease import BusyError
from clbench.limits import ERROR, TRACEBACK, cut, tamed
from clbench.memory import Memory
from clbench.provenance import provenance
from clbench.record import DataUse, Epoch, Failure, Provenance, Record, Scenario, Shown, Titles
from clbench.record_file import DamagedRecordError, encode, in_words, inconsistency
from clbench.scenario import CLASS
from clbench.seeding import seed_everything
from clbench.spec import Cell
from clbench.store import Place, Store
from clbench.stream import Stream
from clbench.training import StockStrategy, Strategy
from clbench.training.decided import tell
from clbench.training.state import NotResumable

MEASURED = (
    "done", "R", "R_given", "confusion", "R0", "valid", "curve", "diagnostics", "decided", "memory",
    "memory_found", "seconds", "peak_memory", "started", "finished",
)  # fmt: skip
"""What the record of a run that goes on takes from its checkpoint."""


def run(
    cell: Cell,
    place: Place,
    listen: Listener = lambda cell, event: None,
    datasets: dict[str, Any] | None = None,
) -> Record:
    """Train one cell from the start, or from its last finished task, and return its record.

    `datasets` replace those in the data root. An error inside the method is kept in the record
    (status `failed`, with the traceback).
    """
    place = place.absolute()
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
        fresh = _fresh_record(cell, datasets)
        try:
            stream = make_stream(cell, datasets)
            fresh.tasks = len(stream)
            strategy, record = _resume(cell, stream, fresh, store, listen)
            _learn_all(cell, strategy, record, store, listen)
        except (UserError, BusyError):
            raise
        except Exception as error:
            # as it was saved last: what the failed task has left may be of no use
            record = store.read(cell.id) or fresh
            record.status, record.failure = "failed", _failure(error)
            store.write(record)
        return record


def _learn_all(
    cell: Cell, strategy: Strategy | StockStrategy, record: Record, store: Store, listen: Listener
) -> None:
    tasks, spent = record.tasks, record.seconds
    before = saving = 0.0
    by_class = record.scenario == CLASS  # a task that is not learned has no outputs to test
    if not (record.R0 or by_class):
        started = time.perf_counter()
        record.R0 = [_percent(strategy.accuracy, i) for i in range(tasks)]
        before = time.perf_counter() - started
    for k in range(record.done, min(tasks, cell.until or tasks)):

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
        given, shares = row.copy(), []
        if curve is not None:
            for i in range(k + 1 if by_class else min(k + 2, tasks)):
                row[i] = _percent(strategy.accuracy, i)
                if by_class:
                    given[i] = strategy.tally.accuracy_given
                    shares.append(strategy.tally.shares)
        last = k + 1 == tasks
        valid = []
        if last and strategy.stream.protocol.valid:
            valid = [_percent(strategy.valid_accuracy, i) for i in range(tasks)]
        # what JSON cannot hold (a NaN, a tensor) fails here, before the record is touched
        diagnostics = json.loads(json.dumps(strategy.diagnostics(), allow_nan=False))
        tests = before + time.perf_counter() - learned
        before = 0.0
        memory = _memory(strategy)
        record.R.append(row)
        if by_class:
            record.R_given.append(given)
            record.confusion = shares if last else []
        record.curve += [_epoch(k, epoch) for epoch in curve or ()]
        record.diagnostics.append(diagnostics)
        if memory.total >= record.memory.total:  # what follows the last task needs no memory
            record.memory, record.memory_found = memory, bool(strategy.found())
        tell(record.decided, strategy.decided | _unhashed(cell))
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
        store.write(record, _checkpoint(cell, strategy, record, listen))
        saving = time.perf_counter() - started  # goes into the next record
        known = [value for value in row[: k + 1] if value is not None]
        accuracy = sum(known) / len(known) if known else None
        listen(cell, TaskEnded(k + 1, tasks, accuracy))


def _unhashed(cell: Cell) -> dict[str, str]:
    """What the digest of the cell's code lacks, in words."""
    parts = (cell.method, cell.benchmark, cell.network.code)
    names = [name for part in parts if part is not None for name in unhashed(part)]
    return {"digest": f"without {', '.join(dict.fromkeys(names))}"} if names else {}


def _checkpoint(
    cell: Cell, strategy: Strategy | StockStrategy, record: Record, listen: Listener
) -> bytes | None:
    """The state after a task; None if the method keeps something that cannot be saved."""
    try:
        state = strategy.state_dict()
    except NotResumable as reason:
        if not record.starts_again:
            listen(cell, Note(f"{cell} starts again if it is interrupted: {reason}."))
        record.starts_again = cut(tamed(str(reason)), ERROR)
        return None
    return checkpoint.packed(record, state)


def _percent(measure: Callable[[int], float], i: int) -> float:
    """What a strategy measures on task i; a failure of the method if that is no percentage."""
    value = measure(i)
    if not (isinstance(value, float | int) and 0 <= value <= 100):
        raise ValueError(f"{measure.__name__}({i}) gave {value!r}, which is not a percentage")
    return float(value)


def _memory(strategy: Strategy | StockStrategy) -> Memory:
    """What a strategy counts; a failure of the method if it is no memory."""
    value = strategy.memory()
    try:
        return msgspec.convert(msgspec.structs.asdict(value), Memory)
    except (msgspec.ValidationError, TypeError) as error:
        raise ValueError(f"memory() gave {value!r:.200}, which is not a memory: {error}") from None


def _epoch(k: int, values: dict[str, float]) -> Epoch:
    """An epoch of the curve of task k; a failure of the method if a number of it is none."""
    # numpy's floats are floats too
    plain = {n: float(v) if isinstance(v, float) else v for n, v in values.items()}
    try:
        return msgspec.convert({"task": k + 1, **plain}, Epoch)
    except msgspec.ValidationError as error:
        why = f"{in_words(error)}; it is {values}"
        raise ValueError(f"the learning curve of task {k + 1} is none: {why}") from None


def _failure(error: Exception) -> Failure:
    """The failure as it is kept, whatever the exception is."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception as another:
        text = f"{type(error).__name__}, whose text raises {type(another).__name__}"
    try:
        lines = "".join(traceback.format_exception(error))
    except Exception:
        lines = "".join(traceback.format_tb(error.__traceback__))
    kept = tamed(cut(lines, TRACEBACK), keep="\n\t")
    return Failure(error=tamed(cut(text, ERROR)), traceback=kept)


def _resume(
    cell: Cell, stream: Stream, record: Record, store: Store, listen: Listener
) -> tuple[Strategy | StockStrategy, Record]:
    """The method and its record after the last finished task, if the checkpoint is sound."""
    strategy = build(cell, stream)
    path = store.checkpoint_path(cell.id)
    try:
        kept, state = checkpoint.load(path, cell.id)
        same = (kept.spec, kept.data, kept.tasks) == (record.spec, record.data, record.tasks)
        if same:
            went_on = _gone_on(record, kept)
            strategy.load_state_dict(state)
    except FileNotFoundError:
        store.write(record)  # a run in its first task has a name
        return strategy, record
    except NotResumable as missing:
        listen(cell, Note(f"{cell} starts again, as it cannot be resumed: {missing}."))
        return build(cell, stream), record
    except Exception as error:  # torch.load raises many kinds for a damaged file
        listen(cell, Note(f"{path} is damaged ({type(error).__name__}); {cell} starts again."))
        return build(cell, stream), record
    if not same:
        reason = "its checkpoint is of another version of the method, the benchmark or the data"
        listen(cell, Note(f"{cell} starts again: {reason}."))
        return strategy, record
    if kept.provenance.versions != record.provenance.versions:
        listen(cell, Note(f"{cell} goes on with other versions than it was begun with."))
    store.write(went_on)  # the record may be one task behind its checkpoint
    return strategy, went_on


def _gone_on(fresh: Record, kept: Record) -> Record:
    """The record of a run that goes on: from its checkpoint, which may be a stranger's, only what
    was measured. What is shown with it is the cell's own."""
    measured = {name: getattr(kept, name) for name in MEASURED}
    status = "done" if kept.done == kept.tasks else "partial"
    record = msgspec.structs.replace(fresh, status=status, **measured)
    if problem := inconsistency(record):
        raise DamagedRecordError(problem)
    return record


def _fresh_record(cell: Cell, datasets: dict[str, Any]) -> Record:
    """The record before the first task; a UserError if what is declared cannot be recorded."""
    declared, params = cell.method.meta, cell.spec.method_params
    try:
        record = Record(
            id=cell.id,
            spec=cell.versioned(),
            differs=cell.differs,
            titles=Titles(benchmark=cell.benchmark.title, method=cell.method.title),
            family=declared.get("family", ""),
            zero_forgetting=cannot_forget(declared, params),
            upper_bound=declared.get("upper_bound", False),
            # a buffer given in samples is no size per class
            replay_size="" if params.get("buffer") else declared.get("replay_size", ""),
            lays_open=msgspec.convert(declared.get("lays_open", {}), dict[str, Shown]),
            scenario=msgspec.convert(cell.scenario, Scenario),
            tuned=cell.tuned,
            data={name: DataUse(sha256=d.sha256, note=d.note) for name, d in datasets.items()},
            provenance=_provenance(cell),
            code={d.kind: d.source for d in (cell.method, cell.benchmark) if d.payload},
            started=_now(),
        )
        encode(record)
    except (msgspec.ValidationError, DamagedRecordError) as error:
        words = in_words(error) if isinstance(error, msgspec.ValidationError) else error
        raise UserError(f"{cell} declares what no record can have: {words}") from None
    return record


def _provenance(cell: Cell) -> Provenance:
    """With the versions of the packages that offer the method, the benchmark or the backbone."""
    made = provenance()
    for part in (cell.method, cell.benchmark, cell.network.code):
        if part is not None and part.distribution:
            name, _, version = part.distribution.rpartition(" ")
            made.versions[name] = version
    return made


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
