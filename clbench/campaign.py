"""A campaign: train what is missing of many cells, and say how each of them ended.

`clbench.run` and the command line both call `make_plan` and then `carry_out`. Nothing here prints
or exits. KeyboardInterrupt passes through once the executor has stopped its workers.
"""

import importlib
import time
from dataclasses import dataclass

from clbench.errors import UserError
from clbench.events import Ended, Event, Listener, Note
from clbench.executors import Resources
from clbench.files import as_typed
from clbench.grid import State, is_stale, state_of, to_run
from clbench.preflight import Findings, OpenedData, check, open_data
from clbench.record import Record
from clbench.spec import Cell
from clbench.store import Place, Store

RERUN = ("missing", "failed", "all")
"""What may be trained besides runs that are missing, unfinished or stale."""


@dataclass(frozen=True)
class Plan:
    """What to train, where and how, and where the cells stand before it starts."""

    cells: list[Cell]
    place: Place
    executor: str
    resources: Resources
    data: OpenedData
    states: dict[str, State]
    """By id."""
    chosen: list[Cell]
    """The cells to train."""

    def problems(self, dry: bool = False) -> Findings:
        """What keeps the chosen cells from being trained."""
        if not self.chosen:
            return Findings()
        return check(self.chosen, self.data, self.place, self.executor, self.resources, dry)


@dataclass(frozen=True)
class NoResult:
    """A cell that has no result, and why."""

    cell: Cell
    status: str
    """As in `Ended`; `missing` if its record has vanished."""
    error: str
    traceback: str
    """Empty unless the method failed."""
    now: bool
    """Whether it ended in this campaign, not in an earlier one."""


@dataclass(frozen=True)
class Outcome:
    """How a campaign ended."""

    cells: list[Cell]
    records: list[Record]
    """Of all cells that have one which is not stale, in the order of the cells."""
    states: dict[str, State]
    """By id."""
    ended: dict[str, Ended]
    """How each cell ended that was trained, by id."""
    seconds: float
    """What the campaign took."""
    run_seconds: float
    """What the runs that it trained took in all."""
    earlier_seconds: float
    """The part of `run_seconds` that earlier campaigns had spent."""

    @property
    def without_result(self) -> list[NoResult]:
        """The cells that have no result of today's code and data."""
        bad = [cell for cell in self.cells if self.states[cell.id].word != "done"]
        return [self._no_result(cell) for cell in bad]

    def _no_result(self, cell: Cell) -> NoResult:
        record, end = self.states[cell.id].record, self.ended.get(cell.id)
        now, failure = end is not None, record.failure if record is not None else None
        if end is None and failure is not None:  # in an earlier campaign
            end = Ended("failed", failure.error)
        status, error = (end.status, end.text) if end else ("missing", "its record is gone")
        return NoResult(cell, status, error, failure.traceback if failure else "", now)


def make_plan(
    cells: list[Cell],
    place: Place,
    executor: str = "local",
    resources: Resources | None = None,
    rerun: str = "missing",
) -> Plan:
    """Open the data, look up the state of each cell, and choose what to train."""
    store, data = Store(place.out), open_data(cells, place)
    states = {cell.id: state_of(cell, store, data.checksums) for cell in cells}
    ids = to_run(states, rerun)
    chosen = [cell for cell in cells if cell.id in ids]
    return Plan(cells, place, executor, resources or Resources(), data, states, chosen)


def carry_out(plan: Plan, listen: Listener = lambda cell, event: None) -> Outcome:
    """Train the chosen cells. Raises one UserError with all problems if nothing can be trained."""
    cells, started = plan.cells, time.monotonic()
    ended: dict[str, Ended] = {}

    def hear(cell: Cell, event: Event) -> None:
        if isinstance(event, Ended):
            ended[cell.id] = event
        listen(cell, event)

    if plan.chosen:
        _train(plan, hear)
    store = Store(plan.place.out)
    states = {cell.id: state_of(cell, store, plan.data.checksums) for cell in cells}
    for cell in cells:
        if cell.tuned and states[cell.id].word == "done":
            _name_effort(cell, store)
    fresh = [cell for cell in cells if states[cell.id].word != "stale"]
    records = [r for cell in fresh if (r := store.read(cell.id)) is not None]
    resumed = [plan.states[cell.id] for cell in plan.chosen]
    return Outcome(
        cells,
        records,
        states,
        ended,
        time.monotonic() - started,
        sum(record.seconds.total for record in records if record.id in ended),
        sum(s.record.seconds.total for s in resumed if s.record and s.word == "partial"),
    )


def _train(plan: Plan, listen: Listener) -> None:
    found = plan.problems()
    if found.problems:
        raise UserError(found.in_words())
    store = Store(plan.place.out)
    willing = [cell for cell in plan.chosen if cell.id not in found.refused]
    stale = [cell for cell in willing if plan.states[cell.id].word == "stale"]
    for cell in plan.chosen:
        if cell.id in found.refused:
            listen(cell, Ended("refused", found.refused[cell.id]))
        elif plan.states[cell.id].word in ("failed", "stale", "done"):
            with store.lease(cell.id) as mine:
                # else another command has begun to train it anew, or has done so
                if mine and (cell not in stale or _still_stale(cell, plan, store)):
                    store.replace(cell.id)
    if stale:
        whose = "another version of the method or benchmark, or with other data"
        moved = f"moved to {as_typed(store.root / 'replaced')}"
        listen(stale[0], Note(f"Records of {whose}: {len(stale)}, {moved} and trained again."))
    engine = importlib.import_module(f"clbench.executors.{plan.executor}")
    engine.run_cells(willing, plan.place, plan.resources, plan.data.sets, listen)


def _name_effort(cell: Cell, store: Store) -> None:
    """Let the record of a run that was made before say how its values were tuned since: a search
    may have chosen the usual values, or those that a user had tried."""
    record = store.read(cell.id)
    if record is None or record.tuned == cell.tuned:
        return
    with store.lease(cell.id) as mine:
        if mine and (record := store.read(cell.id)) is not None and record.status == "done":
            record.tuned, record.differs = cell.tuned, cell.differs
            store.write(record)


def _still_stale(cell: Cell, plan: Plan, store: Store) -> bool:
    record = store.read(cell.id)
    return record is not None and is_stale(cell, record, plan.data.checksums)
