"""Options that `report` and `figure` share: the runs to use, and the formats to write."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click

from clbench.cli.options import warn
from clbench.editions import hides, matches, note, today
from clbench.errors import UserError, unknown
from clbench.record import Record
from clbench.registry import split_list
from clbench.report.runs import Run, runs_of
from clbench.store import Store


def read_runs(out: str, empty: bool = False, *lists: str | None) -> tuple[list[Run], list[str]]:
    """The runs in a folder, and a sentence about each file that is not a record, which is printed
    as a warning too. No records at all is an error unless it may be `empty`. The files in `lists`
    are what the user says that methods and benchmarks are today."""
    problems: list[str] = []
    trials: list[str] = []

    def results() -> Iterator[Record]:
        for record in Store(Path(out)).each(problems):
            if record.spec.trial:
                trials.append(record.id)
            else:
                yield record

    runs = runs_of(results(), lambda names: today(names, *lists))
    warn(problems)
    if trials:
        number = "1 record is" if len(trials) == 1 else f"{len(trials)} records are"
        words = f"{number} left out, as trials of a search are no results."
        click.echo(f"{words} `clbench tune --report` shows searches.", err=True)
    if not runs and not empty:
        raise UserError(
            f"No records in {out}. Make some first: "
            f"clbench run --methods finetune,ewc,joint --seeds 3 --out {out}"
        )
    return runs, problems


def chosen(
    benchmarks: str | None, methods: str | None, runs: Iterable[Run]
) -> Callable[[Run], bool]:
    """Whether `--benchmarks` and `--methods` want a run; an error if an item matches no run. Prints
    what is hidden because another code made it."""
    runs = list(runs)
    of_benchmark = _selection("benchmark", benchmarks, runs)
    of_method = _selection("method", methods, [run for run in runs if of_benchmark(run)])
    told = [
        (kind, f"{run.made(kind).name}{run.codes[kind]}")
        for kind, text in (("method", methods), ("benchmark", benchmarks))
        for run in runs
        if kind in run.hidden and hides(text, run.made(kind))
    ]
    for sentence in note(told):
        click.echo(sentence, err=True)
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
        return lambda run: kind not in run.hidden
    items = split_list(text)
    if not items:
        raise UserError(f"--{kind}s names nothing. Leave it out for all {kind}s.")
    runs = list(runs)
    for item in items:
        if not any(_matches(kind, item, run) for run in runs):
            raise unknown(f"{kind} in the records:", item, {run.made(kind).label for run in runs})
    return lambda run: any(_matches(kind, item, run) for item in items)


def _matches(kind: str, item: str, run: Run) -> bool:
    return matches(item, run.made(kind), group=kind == "method")
