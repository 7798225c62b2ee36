"""`clbench study`: a table or figure of the paper, trained as far as it is missing, and shown."""

from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from clbench.cli.options import Training, training_options
from clbench.cli.run import carry_out
from clbench.spec import Cell
from clbench.store import Place, Store
from clbench.study import BUDGETS, Study, find_study, shipped


@click.command(
    epilog="""\b
Examples:
  clbench study ls
  clbench study table-split-mnist --budget small --dry-run
  clbench study ./mine.toml --dry-run
"""
)
@click.argument("name")
@click.option(
    "--budget",
    type=click.Choice(BUDGETS),
    default="paper",
    show_default=True,
    help="The paper's seeds and the full protocol, or the reduction that the study declares.",
)
@click.option(
    "--allow-files",
    is_flag=True,
    help="Run the method and benchmark files that the study names, as programs.",
)
@training_options
def command(name: str, budget: str, allow_files: bool, training: Training) -> None:
    """Train what is missing of a study of the paper, and show it beside the published numbers.

    NAME is one that `clbench study ls` lists, or a TOML file of your own. Tables and figures go to
    OUT/studies/NAME.
    """
    if name == "ls":
        rows = [(key, find_study(key).title) for key in shipped()]
        click.echo(tabulate(rows, ("study", "what it is")))
        return
    study, place = find_study(name, allow_files), training.place
    if study.sizes:
        _count(study, place, training.dry_run)
        return
    cells = study.cells(budget, training.threads, training.device)
    note = study.note(budget)
    layout: dict[str, Any] = {"columns": study.columns, "vs_paper": True, "note": note}
    folder = f"studies/{study.name}"
    if training.dry_run:
        click.echo(f"{note}\n")
    failed: SystemExit | None = None
    try:
        carry_out(cells, training, layout, folder)
    except SystemExit as end:  # a run has no result: the figure shows the others
        failed = end
    if study.figure and not training.dry_run:
        for path in _draw(study.figure, cells, place, place.out / folder, note):
            click.echo(f"wrote {path}")
    if failed is not None:
        raise failed


def _count(study: Study, place: Place, dry_run: bool) -> None:
    """The sizes of the study's benchmarks, printed and, but for a dry run, written."""
    from clbench.report.sizes import render, sizes, write

    rows, problems = sizes(study.sizes, place.data_root, place.accept_data)
    click.echo(f"{study.title}\n\n{render(rows, 'txt')}")
    for problem in problems:
        click.echo(f"warning: {problem}", err=True)
    for path in [] if dry_run else write(rows, place.out / "studies" / study.name):
        click.echo(f"wrote {path}")


def _draw(kind: str, cells: list[Cell], place: Place, folder: Path, note: str) -> list[Path]:
    """The figure of the study's own runs."""
    from clbench.report.figures import FORMATS
    from clbench.report.figures.checkpoints import Checkpoints
    from clbench.report.figures.write import write
    from clbench.report.table import tables

    ids = {cell.id for cell in cells}
    records = [record for record in Store(place.out).records()[0] if record["id"] in ids]
    own = [d.path for cell in cells for d in (cell.method, cell.benchmark) if not d.module]
    options = (
        {"source": Checkpoints(place.out, place.data_root, tuple(own))} if kind == "latent" else {}
    )
    paths, left_out = write(kind, tables(records), folder, FORMATS, note, **options)
    for sentence in left_out:
        click.echo(f"warning: {sentence}", err=True)
    return paths
