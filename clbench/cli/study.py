"""`clbench study`: train what is missing of a table or figure of a paper, and show it."""

import sys
from pathlib import Path
from typing import Any

import click

from clbench.campaign import Outcome
from clbench.cli.options import Training, subcommand, training_options, warn
from clbench.cli.run import exit_code, show, train
from clbench.papers import find_paper
from clbench.store import Place
from clbench.study import BUDGETS, Study, find_study, shipped
from clbench.width import fitted_table


@subcommand(
    "study ls", "study table-split-mnist --budget small --dry-run", "study ./mine.toml --dry-run"
)
@click.argument("name")
@click.option(
    "--budget",
    type=click.Choice(BUDGETS),
    default="paper",
    help="The paper's seeds and full protocol, or the smaller ones that the study declares.",
)
@click.option(
    "--allow-files",
    is_flag=True,
    help="Execute the method and benchmark files that the study names.",
)
@training_options
def command(name: str, budget: str, allow_files: bool, training: Training) -> None:
    """Train what is missing of a study of a paper, and show it beside the published numbers.

    NAME is one that `clbench study ls` lists, or a TOML file of your own. Tables and figures go to
    OUT/studies/NAME.
    """
    if name == "ls":
        rows = [(key, find_study(key).title) for key in shipped()]
        click.echo(fitted_table(rows, ("study", "title"), prose=("title",)))
        return
    study, place = find_study(name, allow_files), training.place
    if study.sizes:
        _count(study, place, training.dry_run)
        return
    cells = study.cells(budget, training.threads, training.device)
    note = study.note(budget)
    papers = [find_paper(study.paper)] if study.paper else None
    layout: dict[str, Any] = {"columns": study.columns, "note": note}
    layout |= {"vs_paper": True, "papers": papers}
    folder = f"studies/{study.name}"
    if training.dry_run:
        click.echo(f"{note}\n")
    outcome = train(cells, training)
    if outcome is None:
        return
    show(outcome, training, layout, folder)
    if study.figure and len(outcome.without_result) < len(cells):
        for path in _draw(study.figure, outcome, place, place.out / folder, note):
            click.echo(f"wrote {path}")
    sys.exit(exit_code(outcome))


def _count(study: Study, place: Place, dry_run: bool) -> None:
    """Print the sizes of the study's benchmarks; write them too, except in a dry run."""
    from clbench.report.sizes import render, sizes, write

    rows, problems = sizes(study.sizes, place.data_root, place.accept_data)
    click.echo(f"{study.title}\n\n{render(rows, 'txt')}")
    warn(problems)
    for path in [] if dry_run else write(rows, place.out / "studies" / study.name, place.out):
        click.echo(f"wrote {path}")


def _draw(kind: str, outcome: Outcome, place: Place, folder: Path, note: str) -> list[Path]:
    """Draw the figure of the study's own runs; returns its files."""
    from clbench.report.figures import FORMATS
    from clbench.report.figures.checkpoints import Checkpoints
    from clbench.report.figures.write import write
    from clbench.report.table import tables

    own = [d.path for cell in outcome.cells for d in (cell.method, cell.benchmark) if not d.module]
    options = (
        {"source": Checkpoints(place.out, place.data_root, tuple(own))} if kind == "latent" else {}
    )
    paths, left_out = write(
        kind, tables(outcome.records), folder, FORMATS, note, place.out, **options
    )
    warn(left_out)
    return paths
