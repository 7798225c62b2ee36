"""`clbench report`: tables from the records of past runs, while others may still be going."""

from pathlib import Path

import click

from clbench.cli.options import out_option
from clbench.cli.selection import (
    benchmarks_option,
    chosen,
    methods_option,
    parse_formats,
    read_records,
)
from clbench.errors import unknown
from clbench.registry import split_list
from clbench.report import EXTRA, FORMATS, MAIN, terminal, write


@click.command(
    epilog="""\b
Examples:
  clbench report
  clbench report --format md,tex --to tables
  clbench report --methods 'ewc,@memory' --columns forgetting,aux
  clbench report --format tex --standalone
"""
)
@out_option
@click.option(
    "--format",
    "formats",
    default=",".join(FORMATS),
    show_default=True,
    help="Formats of the files to write.",
)
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    help="Folder for the tables.  [default: OUT/tables]",
)
@benchmarks_option
@methods_option
@click.option("--columns", default="", help=f"Columns to add: {', '.join(EXTRA)}, or all.")
@click.option("--standalone", is_flag=True, help="Make each .tex file a document of its own.")
def command(
    out: str,
    formats: str,
    to: Path | None,
    benchmarks: str | None,
    methods: str | None,
    columns: str,
    standalone: bool,
) -> None:
    """Write tables from the records of past runs, and print them.

    A failed or unfinished run is never part of a mean; the table says which there are.
    """
    wanted = parse_formats(formats, FORMATS)
    extra = _columns(columns)
    records, problems, runs = read_records(out)
    keep = chosen(benchmarks, methods, runs)
    click.echo(terminal(records, problems, columns=extra, keep=keep))
    folder = Path(out) / "tables" if to is None else to
    for path in write(
        records, problems, folder, wanted, columns=extra, standalone=standalone, keep=keep
    ):
        click.echo(f"wrote {path}")


def _columns(text: str) -> tuple[str, ...]:
    names = split_list(text)
    for name in names:
        if name not in (*EXTRA, *MAIN, "all"):
            raise unknown("column", name, (*EXTRA, "all"))
    return EXTRA if "all" in names else tuple(names)
