"""`clbench tune`: search good values for methods, with equal effort for each."""

import math
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import click

import clbench
from clbench.cli.options import Training, subcommand, training_options, warn
from clbench.cli.run import parse_protocol, protocol_options, train
from clbench.errors import UserError
from clbench.files import as_typed
from clbench.labels import text
from clbench.store import Store
from clbench.tuning import outcome
from clbench.tuning.outcome import Entry
from clbench.tuning.plan import Effort, Target, keep, refusals, searches, targets
from clbench.tuning.search import SAMPLERS, Search, carry_out
from clbench.width import fitted_table, terminal_width, wrap

MOST_TRIALS = 10_000


@subcommand(
    "tune --methods ewc,si,hat --epochs 2 --trials 4 --dry-run",
    "tune --methods ewc,acl --on all --budget 500 --dry-run",
    "tune --methods ewc,acl --benchmarks permuted-mnist --on split-mnist-5k --dry-run",
    "tune --report",
)
@click.option(
    "--methods",
    default="finetune,ewc,agem,er-res,joint",
    metavar="LIST",
    help="Methods, as `clbench run` takes them. Values in brackets are not searched.",
)
@click.option(
    "--benchmarks", default="split-mnist-5k", metavar="LIST", help="Benchmarks, in the same way."
)
@click.option(
    "--on",
    default="first:3",
    metavar="WHAT",
    help="Whose validation data are looked at: first:N, the first N tasks; all, those of all "
    "tasks, an upper bound, as no learner of a stream has them; or another BENCHMARK.",
)
@click.option(
    "--trials",
    type=click.IntRange(1, MOST_TRIALS),
    default=20,
    help="Trials per method. The first has the usual values.",
)
@click.option(
    "--budget",
    type=click.IntRange(1),
    help="The most epochs per method, over the tasks that are looked at, repeats included. It "
    "replaces --trials: there are as many as cannot exceed it.",
)
@click.option(
    "--sampler",
    type=click.Choice(SAMPLERS),
    default="sobol",
    help="sobol: points that cover the space, known from the start; tpe: each is chosen by the "
    "results so far, so they come one after the other, each to its end (needs Optuna).",
)
@click.option("--report", is_flag=True, help="Train nothing, and report on the files in OUT/tuned.")
@training_options
@protocol_options
@click.pass_context
def command(
    ctx: click.Context,
    methods: str,
    benchmarks: str,
    on: str,
    trials: int,
    budget: int | None,
    sampler: str,
    report: bool,
    training: Training,
    **protocol: str | None,
) -> None:
    """Search good values for methods on validation data, with equal effort for each.

    All trials learn two tasks, with seed 1000. The better half of them and the usual values learn
    the rest. The best three and the usual values are repeated with the seeds 1001 and 1002. No
    trial can open test data. The values go to OUT/tuned/BENCHMARK.toml, for `clbench run --tuned`.
    """
    out = training.place.out
    given = {name for name in ctx.params if _is_given(ctx, name)}
    if report:
        from clbench.tuning.report import show

        show(out, *(ctx.params[n] if n in given else None for n in ("methods", "benchmarks")))
        return
    if budget is not None and "trials" in given:
        raise UserError("--trials and --budget: give one of them.")
    if training.rerun == "all":
        raise UserError(f"--rerun all: delete {as_typed(out / 'trials')} to search anew.")
    if sampler == "tpe":
        from clbench.tuning.tpe import optuna

        optuna()
    overrides = parse_protocol(protocol)
    training = replace(training, place=replace(training.place, out=out / "trials"))
    effort = Effort(trials, budget, sampler, training.threads, training.device)
    found = searches(methods, targets(methods, benchmarks, on, training.place), overrides, effort)
    for target, _ in found:  # a damaged file is found before anything is trained
        outcome.merged(outcome.place_of(out, target.name), target.name, [])
    asked = list({id(search): search for _, search in found}.values())
    how = training.place, training.executor, training.resources, training.dry_run
    if training.dry_run:
        _show_plan(asked)
    refused = refusals(asked, *how)
    warn(dict.fromkeys(refused.values()))
    willing = [search for i, search in enumerate(asked) if i not in refused]
    if training.dry_run or not willing:
        sys.exit(2 if refused else 0)
    store = Store(training.place.out)
    carry_out(willing, lambda cells: train(cells, training), store)
    command_line = shlex.join(["clbench", *sys.argv[1:]])
    facts = {"clbench": clbench.__version__, "command": command_line}
    mine = {id(search) for search in willing}
    written, lacking = keep([each for each in found if id(each[1]) in mine], store, out, facts)
    _show(written, [target for target, _ in found])
    warn(lacking)
    sys.exit(1 if lacking else 2 if refused else 0)


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _show_plan(asked: list[Search]) -> None:
    """Print the trials of each search, and what they cost at most."""
    total = 0.0
    for search in asked:
        total += search.most_epochs
        tasks = f"{search.tasks} task{'s' if search.tasks > 1 else ''}"
        cost = f"at most {search.most_epochs:,.0f} epochs over {tasks}, repeats included"
        click.echo(
            f"{search.space.method} on {search.space.benchmark}: {search.number} trials, {cost}"
        )
        rows = [
            (i, *(text(value) for value in search.values(i).values()))
            for i in range(len(search.cells))
        ]
        headers = ("trial", *(each.name for each in search.space.dimensions))
        click.echo(fitted_table(rows, headers, prose=()) + "\n")
        if search.sampler == "tpe" and search.number > 1:
            click.echo("The other trials are chosen by the results of those before.\n")
    click.echo(f"{total:,.0f} epochs in all.")


def _show(written: dict[Path, list[Entry]], looked_at: list[Target]) -> None:
    """Print what was found, and where it was written."""
    if not written:
        return
    for path, entries in written.items():
        rows = [
            (
                entry.name,
                len(entry.trials),
                entry.count("pruned"),
                entry.count("failed"),
                _number(entry.usual),
                _number(entry.trials[entry.best].score),
                f"{entry.epochs:g}",
                ", ".join(f"{key}={text(value)}" for key, value in entry.values.items()),
            )
            for entry in entries
        ]
        headers = (
            "method", "trials", "pruned", "failed", "usual %", "best %", "epochs", "values"
        )  # fmt: skip
        click.echo(fitted_table(rows, headers, prose=("values",)))
        click.echo(f"\nwrote {path}\n")
    facts = [
        "Usual and best: mean validation accuracy (%) after the last task that was looked at, over "
        f"the tuning seeds {', '.join(map(str, entries[0].seeds))}. "
        "`clbench run --tuned` uses the values; `clbench tune --report` says more.",
    ]
    if any(target.tasks == target.count > 1 for target in looked_at):
        facts.append(
            "The search has looked at validation data of all tasks. That is an upper bound: a "
            "learner of a stream gets those of later tasks too late."
        )
    for fact in facts:
        click.echo(wrap(fact, terminal_width()))


def _number(value: float) -> str:
    return "\N{EN DASH}" if math.isnan(value) else f"{value:.2f}"
