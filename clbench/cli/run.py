"""`clbench run`: train what is missing of a grid, show progress, print the table."""

import shlex
import sys
from typing import Any

import click

from clbench.campaign import Outcome, carry_out, make_plan
from clbench.cli.config import read_config
from clbench.cli.options import Training, parse_seeds, subcommand, training_options
from clbench.errors import UserError
from clbench.grid import Search, make_grid, untuned
from clbench.limits import sentence
from clbench.protocol import PROTOCOL_FIELDS
from clbench.spec import Cell


def protocol_options(command: Any) -> Any:
    """Give a command a flag for each value of the training protocol."""
    for name, field in reversed(PROTOCOL_FIELDS.items()):
        flag = "--" + name.replace("_", "-")
        doc = field.doc[0].upper() + field.doc[1:]
        command = click.option(flag, name, metavar="VALUE", help=f"{doc}.")(command)
    return command


def parse_protocol(given: dict[str, str | None]) -> dict[str, Any]:
    """The values of the protocol that a user has given by these flags."""
    return {
        name: PROTOCOL_FIELDS[name].parse(text, f"--{name.replace('_', '-')}")
        for name, text in given.items()
        if text is not None
    }


@subcommand(
    "run --methods finetune,ewc,agem,er-res,joint --seeds 3",
    "run --methods 'ewc[strength=500],er-res[per_class=5]' --seeds 0,1",
    "run --methods '@memory' --epochs 2 --dry-run",
    "run --methods finetune,ewc --optimizer adam --lr 0.001 --lr-min 1e-5",
    "run --methods finetune,ewc --backbone torchvision:resnet18 --epochs 1",
    "run --methods finetune,ewc --benchmarks ./mine.py --backbone ./mynet.py",
    "run --methods finetune,ewc --seeds 3 --tuned",
)
@click.option(
    "--methods",
    default="finetune,ewc,agem,er-res,joint",
    metavar="LIST",
    help="Names, globs ('*gem*'), groups (@memory, @all), files (./mine.py); "
    "parameters in brackets ('ewc[strength=500]').",
)
@click.option(
    "--benchmarks",
    default="split-mnist-5k",
    metavar="LIST",
    help="Benchmarks, named in the same way.",
)
@click.option(
    "--seeds",
    default="1",
    metavar="N|LIST",
    help="How many seeds (3 means 0,1,2), or a list (0,1,7).",
)
@training_options
@click.option(
    "--reference",
    type=click.Choice(("last", "each")),
    is_flag=False,
    flag_value="last",
    help="Also train the joint runs that intransigence needs, and show it. `last`, the default of "
    "the flag, trains on all tasks together, `each` once up to each task.",
)
@click.option(
    "--config",
    metavar="FILE.toml",
    is_eager=True,
    expose_value=False,
    callback=read_config,
    help="A TOML file whose keys are these flags.",
)
@click.option(
    "--tuned",
    is_flag=False,
    flag_value="",
    metavar="[FILE]",
    help="Use the values that `clbench tune` has found, from FILE or OUT/tuned/BENCHMARK.toml.",
)
@click.option("--profile", is_flag=True, help="Show where the time of the runs went.")
@protocol_options
def command(
    methods: str,
    benchmarks: str,
    seeds: str,
    training: Training,
    reference: str | None,
    tuned: str | None,
    profile: bool,
    **protocol: str | None,
) -> None:
    """Train methods on benchmarks and print the table.

    The same command again trains nothing, except runs whose code or data have changed since. If a
    command was stopped, by Ctrl-C or in any other way, the same command continues each run after
    its last finished task.
    """
    overrides = parse_protocol(protocol)
    columns: tuple[str, ...] = ()
    if reference == "last":
        methods, columns = f"{methods},joint", ("intransigence",)
    elif reference == "each":
        methods += ",joint[each=true]"
        columns = ("intransigence", "mean-intransigence")
    machine = training.threads, training.device
    found = untuned if tuned is None else _found(training, tuned)
    cells = make_grid(methods, benchmarks, parse_seeds(seeds), overrides, *machine, tuned=found)
    outcome = train(cells, training)
    if outcome is None:
        return
    if profile:
        from clbench.report.profile import profile as where_time_went

        click.echo(f"{where_time_went(outcome.records)}\n")
    show(outcome, training, {"columns": columns}, "tables")
    sys.exit(exit_code(outcome))


def _found(training: Training, file: str) -> Search:
    from clbench.tuning.outcome import Found

    return Found(training.place.out, file)


def train(cells: list[Cell], training: Training) -> Outcome | None:
    """Train what is missing of the cells, with progress on stderr. A dry run prints the plan and
    returns None; if there are problems it is a UserError after that."""
    how = (training.executor, training.resources, training.rerun)
    plan = make_plan(cells, training.place, *how)
    if training.dry_run:
        from clbench.cli.plan import print_plan

        print_plan(plan)
        if problems := plan.problems(dry=True).in_words():
            raise UserError(problems)
        return None
    if not plan.chosen:
        return carry_out(plan)
    from clbench.progress import watched

    try:
        return watched(plan)
    except KeyboardInterrupt:
        again = shlex.join(["clbench", *_without_rerun(sys.argv[1:])])
        kept = "Every finished task is kept; the same command goes on from there"
        click.echo(f"\nStopped. {kept}:\n  {again}", err=True)
        sys.exit(130)


def _without_rerun(arguments: list[str]) -> list[str]:
    """The command that resumes: with `--rerun all` it would train the finished runs once more."""
    kept, skip = [], False
    for argument in arguments:
        if not (skip or argument.startswith("--rerun")):
            kept.append(argument)
        skip = argument == "--rerun"
    return kept


def show(outcome: Outcome, training: Training, layout: dict[str, Any], folder: str) -> None:
    """Print the tables, write them to OUT/folder, and say what has no result. `layout` is what
    `clbench.report.tables` takes."""
    from clbench.report import tables, terminal, write

    out = training.place.out
    if len(outcome.without_result) < len(outcome.cells):
        made = tables(outcome.records, **layout)
        click.echo(terminal(made), nl=False)
        written = write(made, out / folder, root=out)
        click.echo(f"\nRecords: {out / 'records'}")
        click.echo(f"Tables:  {', '.join(map(str, written))}")
    if outcome.earlier_seconds:
        from clbench.progress import duration

        now, runs = duration(outcome.seconds), duration(outcome.run_seconds)
        before = f"{duration(outcome.earlier_seconds)} of that was spent by earlier commands"
        click.echo(f"This command took {now}. Its runs took {runs} in all: {before}.", err=True)
    bad = outcome.without_result
    for each in bad:
        words = f"{each.status}: {each.error}"
        if not each.now:
            words = f"{each.status} earlier: {each.error} (--rerun {each.status} tries again)"
        click.echo(sentence(f"{each.cell}: {words}"), err=True)
        if each.traceback:
            click.echo(f"  traceback: clbench show {each.cell.id} --out {out}", err=True)
    if bad:
        click.echo(f"{len(bad)} of {len(outcome.cells)} runs have no result.", err=True)


def exit_code(outcome: Outcome) -> int:
    """0 if every cell has a result; 2 if those without one were all refused; else 1."""
    bad = outcome.without_result
    if not bad:
        return 0
    return 2 if all(each.status == "refused" for each in bad) else 1
