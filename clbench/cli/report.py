"""`clbench report`: tables from the records of past runs, while others may still be going."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from clbench.cli.options import existing_out, out_option, selection_options, subcommand, warn
from clbench.cli.selection import chosen, parse_formats, read_runs
from clbench.editions import today
from clbench.errors import UserError, unknown
from clbench.papers import Paper, find_paper, own_paper
from clbench.record import Record
from clbench.registry import read_again, split_list
from clbench.report import EXTRA, FORMATS, MAIN, Table, lacking, tables_of, terminal, write
from clbench.report.runs import runs_of
from clbench.store import Store

ANY = "*"
"""What `--vs-paper` means without a name."""


@subcommand(
    "report",
    "report --format md,tex --to tables",
    "report --methods 'ewc,@memory' --columns forgetting,aux",
    "report --vs-paper",
    "report --vs my_paper.toml",
    "report --format tex --standalone",
    "report --format html",
    "report --serve",
)
@out_option
@click.option(
    "--format",
    "formats",
    help=f"Formats of the files to write; html is one page.  [default: {','.join(FORMATS)}]",
)
@click.option(
    "--to", type=click.Path(path_type=Path), help="Folder for the tables.  [default: OUT/tables]"
)
@selection_options
@click.option(
    "--columns", default="", show_default=False, help=f"Columns to add: {', '.join(EXTRA)}, or all."
)
@click.option(
    "--vs-paper",
    is_flag=False,
    flag_value=ANY,
    metavar="[NAME]",
    help="Add a paper's numbers as columns: of the paper that `clbench ls published` lists by this "
    "name, or, without a name, of the first that has numbers for the stream and scenario.",
)
@click.option(
    "--vs",
    metavar="FILE.toml",
    help="Add the numbers of a file: `clbench new published` writes one.",
)
@click.option("--standalone", is_flag=True, help="Make each .tex file a document of its own.")
@click.option("--serve", is_flag=True, help="Serve the page on 127.0.0.1 and follow the runs.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port for --serve.  [default: 8765]")
def command(
    out: str,
    formats: str | None,
    to: Path | None,
    benchmarks: str | None,
    methods: str | None,
    columns: str,
    vs_paper: str | None,
    vs: str | None,
    standalone: bool,
    serve: bool,
    port: int | None,
) -> None:
    """Write tables from the records of past runs, and print them.

    A failed or unfinished run is never part of a mean; the table lists them.
    """
    wanted = list(FORMATS) if formats is None else parse_formats(formats, FORMATS)
    extra = _columns(columns)
    if serve and (formats is not None or to is not None or standalone):
        raise UserError("--serve writes no files: leave out --format, --to and --standalone.")
    if port is not None and not serve:
        raise UserError(f"--port {port} needs --serve.")
    if serve:
        existing_out(out)
    papers = _papers(vs_paper, vs)
    runs, problems = read_runs(out, serve, methods, benchmarks)
    keep = chosen(benchmarks, methods, runs)
    store = Store(Path(out))
    if serve:
        _serve(
            store, port, {"columns": extra, "papers": papers, "keep": keep}, (methods, benchmarks)
        )
        return
    asked = vs_paper is not None or vs is not None
    made = tables_of(runs, problems, columns=extra, vs_paper=asked, papers=papers, keep=keep)
    if asked and (sentence := lacking(made, papers)):
        if papers:
            raise UserError(sentence)
        warn([sentence])
    click.echo(terminal(made))
    folder, root = (Path(out) / "tables", Path(out)) if to is None else (to, None)
    records = store.each([])
    for path in write(made, folder, wanted, standalone=standalone, records=records, root=root):
        click.echo(f"wrote {path}")


def _serve(
    store: Store,
    port: int | None,
    layout: dict[str, Any],
    lists: tuple[str | None, ...],
) -> None:
    """Serve the page until Ctrl-C."""
    from clbench.report.page.serve import PORT, Live, bind

    def build() -> tuple[list[Table], Iterator[Record]]:
        problems: list[str] = []
        read_again()
        runs = runs_of(store.each(problems), lambda names: today(names, *lists))
        made = tables_of(runs, problems, **layout)
        return made, store.each([])

    with bind(PORT if port is None else port, Live(store.root / "records", build)) as server:
        click.echo(f"The report is at {server.url} and follows the runs in {store.root}.")
        click.echo("Ctrl-C ends it.")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("\nStopped. The records stay as they are.")


def _papers(name: str | None, file: str | None) -> list[Paper] | None:
    """The paper that a command names; None for all that clbench has."""
    if name is not None and file is not None:
        raise UserError("--vs-paper and --vs name two papers: give one.")
    if name == "" or (file is not None and not file.endswith(".toml")):
        raise UserError("--vs takes a file that ends in .toml, and --vs-paper the name of a paper.")
    if file is not None:
        return [own_paper(file)]
    return None if name in (None, ANY) else [find_paper(str(name))]


def _columns(text: str) -> tuple[str, ...]:
    names = split_list(text)
    for name in names:
        if name not in (*EXTRA, *MAIN, "all"):
            raise unknown("column", name, (*EXTRA, "all"))
    return EXTRA if "all" in names else tuple(names)
