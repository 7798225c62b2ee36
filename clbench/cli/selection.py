"""Options that `report` and `figure` share: the runs to use, and the formats to write."""

import fnmatch
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from clbench.cli.options import warn
from clbench.errors import UserError, unknown
from clbench.registry import split_list
from clbench.report.runs import Run, runs_of
from clbench.store import Store


def selection_options(command: Any) -> Any:
    """Give a command the options that choose runs."""
    kinds = "names, globs, groups (@memory)"
    command = click.option("--methods", help=f"Only these: {kinds}; comma list.")(command)
    return click.option("--benchmarks", help="Only these: names, globs; comma list.")(command)


def read_runs(out: str, empty: bool = False) -> tuple[list[Run], list[str]]:
    """The runs in a folder, and a sentence about each file that is not a record, which is printed
    as a warning too. No records at all is an error unless it may be `empty`."""
    problems: list[str] = []
    runs = runs_of(Store(Path(out)).each(problems))
    warn(problems)
    if not runs and not empty:
        raise UserError(
            f"No records in {out}. Make some first: "
            f"clbench run --methods finetune,ewc,joint --seeds 3 --out {out}"
        )
    return runs, problems


def chosen(
    benchmarks: str | None, methods: str | None, runs: Iterable[Run]
) -> Callable[[Run], bool]:
    """Whether `--benchmarks` and `--methods` want a run; an error if an item matches no run."""
    of_benchmark = _selection("benchmark", benchmarks, runs)
    of_method = _selection("method", methods, [run for run in runs if of_benchmark(run)])
    return lambda run: of_benchmark(run) and of_method(run)


def parse_formats(text: str, known: tuple[str, ...]) -> list[str]:
    """The formats that `--format` names, each once."""
    names = list(dict.fromkeys(split_list(text)))
    for name in names:
        if name not in known:
            raise unknown("format", name, known, f"Write --format {','.join(known)}.")
    if not names:
        raise UserError(f"--format names nothing. Write --format {','.join(known)}.")
    return names


def _selection(kind: str, text: str | None, runs: Iterable[Run]) -> Callable[[Run], bool]:
    """The runs that a list of names, globs and groups matches; an error if an item matches none."""
    if text is None:
        return lambda run: True
    items = split_list(text)
    if not items:
        raise UserError(f"--{kind}s names nothing. Leave it out for all {kind}s.")
    runs = list(runs)
    for item in items:
        if not any(_matches(kind, item, run) for run in runs):
            raise unknown(f"{kind} in the records:", item, {_label(kind, run) for run in runs})
    return lambda run: any(_matches(kind, item, run) for item in items)


def _matches(kind: str, item: str, run: Run) -> bool:
    name = run.method_name if kind == "method" else run.benchmark_name
    if item.startswith("@") and kind == "method":
        return item == "@all" or item[1:] == run.family
    if item.endswith(".py"):  # the file of a user's own method, as `clbench run` takes it
        item = Path(item).stem
    return item in (name, _label(kind, run)) or fnmatch.fnmatchcase(name, item)


def _label(kind: str, run: Run) -> str:
    return run.method if kind == "method" else run.benchmark
