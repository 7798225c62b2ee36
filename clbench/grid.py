"""The cells of a grid, and the state of each in the store."""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from clbench.backbone import of_benchmark, recorded
from clbench.declare import Declaration
from clbench.errors import UserError
from clbench.protocol import Protocol
from clbench.reading import read_declaration
from clbench.record import Record
from clbench.registry import declarations, select, split_list
from clbench.resolve import NOT_TUNED, Tuned, make_cell
from clbench.spec import Cell, RunSpec, scenario_of
from clbench.store import Store

Wanted: TypeAlias = str | type | Iterable[str | type]
"""Methods or benchmarks as a user names them: a list as `select` takes it, a class, or several."""

Given: TypeAlias = Mapping[str, Any]
Search: TypeAlias = Callable[[Declaration, Given, Declaration, Given, list[int]], Tuned]
"""What was found for a method on a benchmark, each with the values that a user gave. A UserError if
there is nothing, or if one of the seeds must not be used."""

MOST_SEEDS = 10_000
MOST_CELLS = 100_000
MOST_THREADS = 1024


def untuned(*_: object) -> Tuned:
    """No search has found anything."""
    return NOT_TUNED


def make_grid(
    methods: Wanted,
    benchmarks: Wanted,
    seeds: list[int],
    overrides: dict[str, Any],
    threads: int = 1,
    device: str = "cpu",
    most_tasks: int | None = None,
    tuned: Search = untuned,
) -> list[Cell]:
    """All cells of benchmarks x methods x seeds, in that order, each once. `most_tasks` is an upper
    limit for the parameter `tasks` of every benchmark; `tuned` has the values of a search. A group
    or a glob leaves out methods that cannot learn in a benchmark's scenario; one that is named
    stays, and is refused in words."""
    if not 1 <= threads <= MOST_THREADS:
        raise UserError(f"--threads {threads}: give a number from 1 to {MOST_THREADS}.")
    if isinstance(methods, Iterable) and not isinstance(methods, str | type):
        methods = list(methods)  # it is read twice
    streams, learners = chosen("benchmark", benchmarks), chosen("method", methods)
    check_count(len(streams) * len(learners) * len(seeds))
    if most_tasks is not None:
        streams = [(bench, _cut(bench, given, most_tasks)) for bench, given in streams]
    pairs = [(*learner, *stream) for stream in streams for learner in learners]
    unnamed = _unnamed(methods)
    able = [p for p in pairs if p[0].name not in unnamed or _can_learn(p[0], p[2], p[3])]
    cells = []
    for what in able or pairs:
        values = tuned(*what, seeds)
        cells += [make_cell(*what, s, overrides, threads, device, values) for s in seeds]
    return list({cell.id: cell for cell in cells}.values())  # `ewc,ewc[strength=5000]` is one run


def _unnamed(methods: Wanted) -> set[str]:
    """The methods that only a group or a glob chose."""
    items = list(methods) if isinstance(methods, list) else [methods]
    texts = [text for item in items if isinstance(item, str) for text in split_list(item)]
    several = [text for text in texts if any(sign in text.partition("[")[0] for sign in "@*?")]
    by_sign = {d.name for text in several for d, _ in select("method", text)}
    by_name = {d.name for text in texts if text not in several for d, _ in select("method", text)}
    return by_sign - by_name


def _can_learn(method: Declaration, benchmark: Declaration, given: dict[str, Any]) -> bool:
    can = method.meta.get("scenarios", ())
    return not can or scenario_of(benchmark, given) in can


def check_count(runs: int) -> None:
    """A UserError if these are more runs than a command can plan."""
    if runs > MOST_CELLS:
        raise UserError(
            f"These are {runs:,} runs; one command plans at most {MOST_CELLS:,}. "
            "Name fewer methods, benchmarks or seeds."
        )


def seed_list(seeds: int | Iterable[int], where: str) -> list[int]:
    """A number of seeds, or a list of them, as a list without repeats."""
    if isinstance(seeds, int) and seeds > MOST_SEEDS:
        raise UserError(
            f"{where}: at most {MOST_SEEDS:,} seeds. For seed {seeds} alone, write "
            f"`--seeds {seeds},` (in Python: seeds=[{seeds}])."
        )
    listed = range(seeds) if isinstance(seeds, int) else seeds
    several = itertools.islice(listed, MOST_SEEDS + 1) if isinstance(listed, Iterable) else ()
    given = list(several)
    if len(given) > MOST_SEEDS:
        raise UserError(f"{where}: at most {MOST_SEEDS:,} seeds. Use several commands.")
    found = list(dict.fromkeys(given))
    if not found or any(type(seed) is not int or not 0 <= seed < 2**63 for seed in found):
        raise UserError(f"{where}: give how many (3 means 0,1,2; at least 1) or a list (0,1,7).")
    return found


def chosen(kind: str, wanted: Wanted) -> list[tuple[Declaration, dict[str, Any]]]:
    """The declarations that a user names, each with the values given in brackets."""
    if isinstance(wanted, str):
        return select(kind, wanted)
    found: list[tuple[Declaration, dict[str, Any]]] = []
    for item in (
        wanted if isinstance(wanted, Iterable) and not isinstance(wanted, type) else [wanted]
    ):
        if not isinstance(item, str | type):
            raise UserError(
                f"{item!r} is no {kind}: give a name, a spec like 'ewc[strength=500]', the path of "
                "a file as text, or a class."
            )
        found += [(_declared_by(item, kind), {})] if isinstance(item, type) else select(kind, item)
    names = dict(declarations(kind))
    for declaration, _ in found:
        if names.setdefault(declaration.name, declaration) != declaration:
            raise UserError(f"Two {kind}s are named {declaration.name!r}: rename the class.")
    return found or select(kind, "")


def _declared_by(cls: type, kind: str) -> Declaration:
    from clbench.notebook import declaration_of

    declaration = declaration_of(cls)
    if declaration.kind != kind:
        raise UserError(f"{cls.__name__} is a {declaration.kind}, not a {kind}.")
    return declaration


def _cut(benchmark: Declaration, given: dict[str, Any], most: int) -> dict[str, Any]:
    """The given values, with no more than `most` tasks."""
    tasks = (benchmark.defaults | given).get("tasks")
    if not isinstance(tasks, int):
        raise UserError(
            f"{benchmark.name} has no parameter `tasks`, so it cannot be cut to {most}."
        )
    return given | {"tasks": min(most, tasks)}


@dataclass(frozen=True)
class State:
    """Where a cell stands."""

    word: str
    """`missing`, `partial`, `paused`, `running`, `failed`, `stale` or `done`."""
    record: Record | None = None
    """Of a run that has no result."""

    def __str__(self) -> str:
        if self.record is not None and self.word in ("partial", "paused", "running", "failed"):
            return f"{self.word}, {self.record.done} of {self.record.tasks} tasks learned"
        return self.word


def state_of(cell: Cell, store: Store, checksums: dict[str, str] | None = None) -> State:
    """The state of one cell. `stale` is a result or a failure of another version of the method or
    benchmark, or with other data than those whose SHA-256 `checksums` has, by name."""
    record = store.read(cell.id)
    if store.is_running(cell.id):
        return State("running", record)
    if record is None:
        return State("missing")
    if record.status == "partial":  # if it is of another version, it begins again
        reached = cell.until is not None and record.done >= cell.until
        paused = reached and not is_stale(cell, record, checksums)
        return State("paused" if paused else "partial", record)
    if is_stale(cell, record, checksums):
        return State("stale")
    return State(record.status, record if record.status == "failed" else None)


def is_stale(cell: Cell, record: Record, checksums: dict[str, str] | None = None) -> bool:
    """Whether a record of the cell was made by another version, or with other data."""
    now = checksums or {}
    used = record.data.items()
    other_data = any(data.sha256 != now.get(name, data.sha256) for name, data in used)
    return other_data or record.spec != cell.versioned()


def to_run(states: dict[str, State], rerun: str) -> set[str]:
    """Ids of the cells that the command trains: those without a result of today's code and data,
    and those that `--rerun` adds."""
    words = {"missing", "partial", "running", "stale"}
    if rerun != "missing":
        words |= {"failed", "done"} if rerun == "all" else {rerun}
    return {run_id for run_id, state in states.items() if state.word in words}


def cell_of(record: Record, files: Iterable[Path] = ()) -> Cell:
    """The cell of a record, with the declarations of today, a user's own from `files`. A UserError
    if one is not found or has changed since."""
    spec = record.spec
    method = _declared("method", spec.method.name, files)
    benchmark = _declared("benchmark", spec.benchmark.name, files)
    protocol = Protocol().changed(spec.protocol)
    params, others = method.checked(spec.method.params), benchmark.checked(spec.benchmark.params)
    names = (benchmark.name, method.name)
    machine, digests = (spec.threads, spec.device), (benchmark.digest, method.digest)
    run = RunSpec(*names, spec.seed, others, params, protocol, *machine, *digests, spec.trial)
    named = protocol.backbone
    network = recorded(named) if named else of_benchmark(benchmark, others)
    cell = Cell(run, method, benchmark, record.differs, network, tuned=record.tuned)
    if cell.versioned() != spec:
        raise UserError(
            f"Run {record.id} ({cell}) cannot be rebuilt: its method or benchmark has changed. "
            "`clbench run` trains it with the code of today."
        )
    return cell


def _declared(kind: str, name: str, files: Iterable[Path]) -> Declaration:
    if name in declarations(kind):
        return declarations(kind)[name]
    for path in files:
        with contextlib.suppress(UserError):  # a file of the other kind
            if (found := read_declaration(path, kind)).name == name:
                return found
    raise UserError(
        f"The {kind} {name!r} is not installed. If it is a file of yours, name it: "
        f"--{kind}s ./{name.replace('-', '_')}.py"
    )
