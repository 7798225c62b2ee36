"""What `clbench tune` searches: methods x benchmarks, on the tasks that `--on` names."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clbench.campaign import make_plan
from clbench.declare import Declaration
from clbench.errors import UserError
from clbench.executors import Resources
from clbench.grid import chosen
from clbench.preflight import count_tasks, open_data
from clbench.registry import select
from clbench.resolve import make_cell
from clbench.store import Place, Store
from clbench.tuning import outcome
from clbench.tuning.outcome import Entry, name_of
from clbench.tuning.search import SEEDS, Search, UnfinishedError

ALL = "all"
_LONGEST = 6  # digits of a number of tasks


@dataclass(frozen=True)
class Target:
    """A benchmark that values are for, and the tasks that are looked at for it."""

    name: str
    """The benchmark as a user types it."""
    benchmark: Declaration
    """The one whose validation data are looked at."""
    given: Mapping[str, Any]
    tasks: int
    """How many of its first tasks."""
    count: int
    """How many it has."""

    @property
    def looked_at(self) -> str:
        """In words."""
        if self.tasks == self.count:
            return "the only task" if self.count == 1 else f"all {self.count} tasks"
        return "first task" if self.tasks == 1 else f"first {self.tasks} tasks"


@dataclass(frozen=True)
class Effort:
    """What each method gets."""

    trials: int
    budget: int | None = None
    """Epochs over the tasks that are looked at; it replaces the number of trials."""
    sampler: str = "sobol"
    threads: int = 1
    device: str = "cpu"


def targets(methods: str, benchmarks: str, on: str, place: Place) -> list[Target]:
    """The benchmarks with what is looked at for each: `first:N`, `all` or another benchmark."""
    first = _first(on)
    streams = chosen("benchmark", benchmarks)
    looked = streams
    if first is None and on != ALL:
        other, *more = select("benchmark", on)
        if more:
            raise UserError(f"--on {on} names several benchmarks: name one.")
        looked = [other] * len(streams)
    method, given = chosen("method", methods)[0]
    cells = [make_cell(method, given, *stream, SEEDS[0], {}) for stream in looked]
    counts = count_tasks(cells, open_data(cells, place))
    found = []
    for stream, (benchmark, values), count in zip(streams, looked, counts, strict=True):
        if first is not None and first > count:
            raise UserError(f"--on {on}: {name_of(benchmark, values)} has {count} tasks.")
        found.append(Target(name_of(*stream), benchmark, values, first or count, count))
    return found


def _first(on: str) -> int | None:
    """N of `first:N`; None for anything else."""
    word, _, number = on.partition(":")
    if word != "first":
        return None
    if not number.isdecimal() or len(number) > _LONGEST or int(number) < 1:
        raise UserError(f"--on {on}: write first:N, where N is a number of tasks, at least 1.")
    return int(number)


def searches(
    methods: str, looked_at: list[Target], overrides: Mapping[str, Any], effort: Effort
) -> list[tuple[Target, Search]]:
    """A search for each method and benchmark. Where two look at the same, it is one search."""
    known: dict[str, Search] = {}
    found = []
    for target in looked_at:
        for method, given in chosen("method", methods):
            stream = target.benchmark, target.given
            key = repr((name_of(*stream), target.tasks, name_of(method, given)))
            if key not in known:
                what = (method, given, *stream, overrides, target.tasks)
                known[key] = Search(*what, **vars(effort))
            found.append((target, known[key]))
    return found


def refusals(
    asked: list[Search], place: Place, executor: str, resources: Resources, dry: bool
) -> dict[int, str]:
    """Why searches cannot be made, by their place in the list, found out before any begins. A
    UserError for what keeps all of them from being made."""
    plan = make_plan([search.cells[0] for search in asked], place, executor, resources)
    problems = plan.problems(dry)
    if problems.problems:
        raise UserError(problems.in_words())
    firsts = [search.cells[0].id for search in asked]
    return {i: problems.refused[one] for i, one in enumerate(firsts) if one in problems.refused}


def keep(
    found: list[tuple[Target, Search]], store: Store, out: Path, facts: Mapping[str, Any]
) -> tuple[dict[Path, list[Entry]], list[str]]:
    """Write what the searches have found: the new entries by file, and a sentence for each search
    that has found nothing."""
    written: dict[Path, list[Entry]] = {}
    lacking = []
    for name in dict.fromkeys(target.name for target, _ in found):
        path = outcome.place_of(out, name)
        for target, search in found:
            if target.name != name:
                continue
            on = {"tuned_on": name_of(target.benchmark, target.given)}
            try:
                entry = search.entry(store, {**facts, **on, "looked_at": target.looked_at})
            except UnfinishedError as reason:
                lacking.append(f"{search.space.method} on {name} has no values: {reason}.")
                continue
            written.setdefault(path, []).append(entry)
        if path in written:
            outcome.write(path, outcome.merged(path, name, written[path]), out)
    return written, lacking
