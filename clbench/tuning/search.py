"""The search of good values, in rungs. Every trial is a run, trained as `clbench run` trains it.

    1. all trials learn two tasks, with the first tuning seed
    2. the better half of them, and the defaults, learn the rest of the tasks
    3. the best three, and the defaults, are repeated with two further tuning seeds

The best is the trial with the highest mean over the tuning seeds. A score is the mean of the last
row of R, which for a trial holds validation accuracies.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from clbench.declare import Declaration
from clbench.errors import UserError
from clbench.record import Record
from clbench.resolve import make_cell, protocol_of
from clbench.spec import Cell
from clbench.store import Store
from clbench.tuning.outcome import Entry, Tried, name_of
from clbench.tuning.space import PROTOCOL, Space, space_of

SEEDS = (1000, 1001, 1002)
"""The tuning seeds; no result is reported for them."""
EARLY = 2
"""The task after which half of the trials stop."""
REPEATED = 3
"""The best trials, which are repeated with the other tuning seeds, as the defaults are."""
SAMPLERS = ("sobol", "tpe")

Train = Callable[[list[Cell]], object]
"""Trains what is missing of some cells."""


class UnfinishedError(Exception):
    """Some runs of a search have no result; the text says which."""


@dataclass
class Search:
    """The search of one method on one benchmark."""

    method: Declaration
    given: Mapping[str, Any]
    benchmark: Declaration
    benchmark_given: Mapping[str, Any]
    overrides: Mapping[str, Any]
    tasks: int
    """How many first tasks are looked at."""
    trials: int
    """How many, the usual values included."""
    budget: int | None = None
    """The most epochs, over the tasks that are looked at; it replaces the number of trials."""
    sampler: str = "sobol"
    threads: int = 1
    device: str = "cpu"
    cells: list[Cell] = field(default_factory=list)
    """Of the trials so far, with the first tuning seed."""

    def __post_init__(self) -> None:
        names = name_of(self.method, self.given), name_of(self.benchmark, self.benchmark_given)
        self.cells = [self._cell({})]
        lr = protocol_of(self.benchmark).lr
        usual = self.cells[0].spec.protocol
        if not usual.valid:
            where = f"{names[0]} on {names[1]}"
            raise UserError(f"{where}: without validation data (valid=0) nothing can be tuned.")
        self.space: Space = space_of(self.method, self.given, usual, lr, self.overrides, names)
        self.number = self.trials if self.budget is None else self._affordable(self.budget)
        if self.sampler == "sobol":
            self.cells += [self._cell(values) for values in self.space.trials(self.number)[1:]]

    @property
    def halves(self) -> bool:
        """Whether half of the trials stop early: the sampler must not wait for the others."""
        return self.sampler == "sobol" and self.tasks > EARLY

    def add(self, values: Mapping[str, Any]) -> None:
        """One more trial."""
        self.cells.append(self._cell(values))

    def _cell(self, values: Mapping[str, Any]) -> Cell:
        own = {name: value for name, value in values.items() if name not in PROTOCOL}
        rest = {name: value for name, value in values.items() if name in PROTOCOL}
        what = {**self.given, **own}, self.benchmark, {**self.benchmark_given}
        how = {**self.overrides, **rest}, self.threads, self.device
        cell = make_cell(self.method, *what, SEEDS[0], *how)
        return replace(cell, spec=replace(cell.spec, trial=self.tasks))

    def values(self, trial: int) -> dict[str, Any]:
        """All values that are searched, as a trial has them."""
        spec = self.cells[trial].spec
        known = vars(spec.protocol) | self.cells[trial].method.defaults | spec.method_params
        return {each.name: known[each.name] for each in self.space.dimensions}

    def first(self) -> list[Cell]:
        """The cells of the first rung."""
        return [replace(cell, until=EARLY) if self.halves else cell for cell in self.cells]

    def kept(self, store: Store) -> list[int]:
        """The trials of the second rung. If a method says nothing before its last task, as joint
        training does, all of them go on."""
        found = [score(self._record(cell, store), self._early) for cell in self.cells]
        alive = [i for i, cell in enumerate(self.cells) if self._learned(cell, store)]
        if not self.halves or any(found[i] is None for i in alive):
            return alive
        best = sorted(alive, key=lambda i: (-(found[i] or 0.0), i))[: math.ceil(self.number / 2)]
        return sorted({*best, 0} if 0 in alive else best)

    def second(self, store: Store) -> list[Cell]:
        return [self.cells[i] for i in self.kept(store)]

    def finalists(self, store: Store) -> list[int]:
        """The trials of the third rung."""
        found = {i: self._final(self.cells[i], store) for i in self.kept(store)}
        known = {i: value for i, value in found.items() if value is not None}
        best = sorted(known, key=lambda i: (-known[i], i))[:REPEATED]
        return sorted({*best, 0} if 0 in known else best)

    def third(self, store: Store) -> list[Cell]:
        return [cell for i in self.finalists(store) for cell in self._repeats(i)[1:]]

    def entry(self, store: Store, facts: Mapping[str, Any]) -> Entry:
        """What was found; UnfinishedError if it cannot be known yet, or if nothing was."""
        kept, finalists = self.kept(store), self.finalists(store)
        scores: dict[int, list[float]] = {}
        for i in finalists:
            each = [self._final(cell, store) for cell in self._repeats(i)]
            scores[i] = [value for value in each if value is not None]
        whole = [i for i in finalists if len(scores[i]) == len(SEEDS)]
        if not whole:
            raise UnfinishedError("no trial has finished with all tuning seeds")
        best = max(whole, key=lambda i: (sum(scores[i]), -i))
        trials = []
        for i, cell in enumerate(self.cells):
            own = self._final(cell, store) if i in kept else None
            pruned = i not in kept and self._learned(cell, store)
            tried = Tried(
                id=cell.id,
                state="finished" if own is not None else "pruned" if pruned else "failed",
                values=self.values(i),
                early=score(self._record(cell, store), self._early) if self.halves else None,
                scores=scores.get(i, [own] if own is not None else []),
            )
            trials.append(tried)
        runs = {cell.id: cell for i in range(len(trials)) for cell in self._repeats(i)}
        records = [record for cell in runs.values() if (record := store.read(cell.id))]
        return Entry(
            name=self.space.method,
            best=best,
            values=trials[best].values,
            seeds=list(SEEDS),
            epochs=round(sum(len(record.curve) for record in records) / self.tasks, 1),
            sampler=self.sampler,
            space={each.name: str(each) for each in self.space.dimensions},
            protocol=dict(self.overrides),
            trials=trials,
            **facts,
        )

    @property
    def most_epochs(self) -> float:
        """The most that the search can take, in epochs over the tasks that are looked at."""
        return most_epochs(self.number, self.tasks, self._epochs, self.halves)

    def _affordable(self, budget: int) -> int:
        number = affordable(budget, self.tasks, self._epochs, self.halves)
        if number:
            return number
        least = most_epochs(1, self.tasks, self._epochs, self.halves)
        raise UserError(
            f"--budget {budget}: one trial of {self.space.method} takes up to {least:,.0f} epochs, "
            "repeats included. Give more, or fewer --epochs."
        )

    @property
    def _epochs(self) -> int:
        return self.cells[0].spec.protocol.epochs

    @property
    def _early(self) -> int:
        return min(EARLY, self.tasks)

    def _repeats(self, trial: int) -> list[Cell]:
        """A trial with each tuning seed."""
        cell = self.cells[trial]
        return [replace(cell, spec=replace(cell.spec, seed=seed)) for seed in SEEDS]

    def _record(self, cell: Cell, store: Store) -> Record:
        record = store.read(cell.id)
        if record is None:
            raise UnfinishedError(f"{cell} has no result")
        return record

    def _learned(self, cell: Cell, store: Store) -> bool:
        """Whether a trial has learned the first tasks; False if it has failed there. What happened
        to it later is of no account, so that a search that goes on chooses the same trials."""
        record = self._record(cell, store)
        if record.done < self._early and record.status != "failed":
            raise UnfinishedError(f"{cell} has no result")
        return record.done >= self._early

    def _final(self, cell: Cell, store: Store) -> float | None:
        """The score after the last task; None for a trial that has failed."""
        record = self._record(cell, store)
        if record.status == "partial":
            raise UnfinishedError(f"{cell} has no result")
        return score(record, self.tasks) if record.status == "done" else None


def score(record: Record, tasks: int) -> float | None:
    """The mean accuracy on the first tasks after the last of them; None if it is not known."""
    row = record.R[tasks - 1][:tasks] if record.done >= tasks else [None]
    known = [value for value in row if value is not None]
    return sum(known) / len(known) if len(known) == len(row) else None


def carry_out(searches: list[Search], train: Train, store: Store) -> list[Search]:
    """Train all that the searches need, and return those that have come to the last rung. The
    trials of all searches share the workers."""
    if any(search.sampler == "tpe" for search in searches):
        from clbench.tuning.tpe import sample

        searches = sample(searches, train, store)
    else:
        train(_once(cell for search in searches for cell in search.first()))
    for rung in (Search.second, Search.third):
        going: dict[int, list[Cell]] = {}
        for number, search in enumerate(searches):
            with contextlib.suppress(UnfinishedError):
                going[number] = rung(search, store)
        searches = [searches[number] for number in going]
        if cells := _once(cell for each in going.values() for cell in each):
            train(cells)
    return searches


def _once(cells: Iterable[Cell]) -> list[Cell]:
    return list({cell.id: cell for cell in cells}.values())


def most_epochs(number: int, tasks: int, epochs: int, halves: bool) -> float:
    """The most epochs that a search can take, in epochs over the tasks that are looked at."""
    early = min(EARLY, tasks)
    kept = min(number, math.ceil(number / 2) + 1) if halves and tasks > EARLY else number
    repeats = min(number, REPEATED + 1) * (len(SEEDS) - 1)
    return epochs * (number * early + kept * (tasks - early) + repeats * tasks) / tasks


def affordable(budget: int, tasks: int, epochs: int, halves: bool) -> int:
    """The most trials within a budget; 0 if it is too small for one."""
    low, high = 0, max(1, budget)
    while low < high:  # the cost grows with the number
        middle = (low + high + 1) // 2
        if most_epochs(middle, tasks, epochs, halves) <= budget:
            low = middle
        else:
            high = middle - 1
    return low
