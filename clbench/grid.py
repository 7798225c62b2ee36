"""The grid of a command: its cells, and the state of each in the store."""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clbench.declare import Declaration, read_declaration
from clbench.errors import UserError
from clbench.record import Record
from clbench.registry import declarations, select
from clbench.spec import Cell, Protocol, RunSpec, make_cell
from clbench.store import Store


def make_grid(
    methods: str,
    benchmarks: str,
    seeds: list[int],
    overrides: dict[str, Any],
    threads: int = 1,
    device: str = "cpu",
    most_tasks: int | None = None,
) -> list[Cell]:
    """All cells of benchmarks x methods x seeds, in that order, each once.

    `most_tasks` lowers the parameter `tasks` of every benchmark that has more.
    """
    streams = select("benchmark", benchmarks)
    if most_tasks is not None:
        streams = [(bench, _cut(bench, given, most_tasks)) for bench, given in streams]
    cells = [
        make_cell(method, method_given, bench, bench_given, seed, overrides, threads, device)
        for bench, bench_given in streams
        for method, method_given in select("method", methods)
        for seed in seeds
    ]
    return list({cell.id: cell for cell in cells}.values())  # `ewc,ewc[strength=5000]` is one run


def _cut(benchmark: Declaration, given: dict[str, Any], most: int) -> dict[str, Any]:
    """The given values, with no more than `most` tasks."""
    tasks = (benchmark.defaults | given).get("tasks")
    if not isinstance(tasks, int):
        raise UserError(
            f"{benchmark.name} has no parameter `tasks`, so it cannot be cut to {most} tasks."
        )
    return given | {"tasks": min(most, tasks)}


@dataclass(frozen=True)
class State:
    """Where a cell stands."""

    word: str
    """`missing`, `partial`, `running`, `failed`, `stale` or `done`."""
    record: dict[str, Any] | None = None
    """Of a run that has no result."""

    def __str__(self) -> str:
        if self.record is not None and self.word in ("partial", "running", "failed"):
            return f"{self.word}, {self.record['done']} of {self.record['tasks']} tasks learned"
        return self.word


def state_of(cell: Cell, store: Store, checksums: dict[str, str] | None = None) -> State:
    """The state of one cell. `stale` is a result of another version of the method or benchmark, or
    of other data than `checksums` (data set -> SHA-256) says there is now."""
    record = store.read(cell.id)
    if store.is_running(cell.id):
        return State("running", record)
    if record is None:
        return State("missing")
    if record["status"] == "done":
        now = checksums or {}
        other_data = any(
            used["sha256"] != now.get(name, used["sha256"]) for name, used in record["data"].items()
        )
        stale = other_data or record["spec"] != cell.versioned()
        return State("stale" if stale else "done")
    return State(record["status"], record)


def to_run(states: dict[str, State], rerun: str) -> set[str]:
    """Ids of the cells that the command trains: what is unfinished, and what `--rerun` adds."""
    words = {"missing", "partial", "running"}
    if rerun != "missing":
        words |= {"failed", "stale", "done"} if rerun == "all" else {rerun}
    return {run_id for run_id, state in states.items() if state.word in words}


def cell_of(record: Record, files: Iterable[Path] = ()) -> Cell:
    """The cell that a record is of, as it is today.

    A user's own method or benchmark is known by one of `files`. An error if one is not found, or
    if the code has changed since.
    """
    spec = record.spec
    method = _declared("method", spec.method.name, files)
    benchmark = _declared("benchmark", spec.benchmark.name, files)
    run = RunSpec(
        benchmark=benchmark.name,
        method=method.name,
        seed=spec.seed,
        benchmark_params=spec.benchmark.params,
        method_params=spec.method.params,
        protocol=Protocol(**spec.protocol),  # type: ignore[arg-type]
        threads=spec.threads,
        device=spec.device,
    )
    cell = Cell(run, method, benchmark, record.differs)
    if cell.versioned() != spec:
        raise UserError(
            f"Run {record.id} ({cell}) was made by another version of its method or benchmark "
            "and cannot be rebuilt: clbench run --rerun stale trains it again."
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
