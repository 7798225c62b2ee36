"""`clbench figure`: figures from the records of past runs, while others may still be going."""

from pathlib import Path
from typing import Any

import click

from clbench.cli.options import data_root_option, out_option, selection_options, subcommand, warn
from clbench.cli.selection import chosen, parse_formats, read_runs
from clbench.errors import unknown
from clbench.files import named_path
from clbench.report.figures import FORMATS, KINDS
from clbench.report.table import tables_of


@subcommand(
    "figure",
    "figure accuracy",
    "figure memory --format pdf --to figures",
    "figure matrix --methods 'ewc,@memory'",
    "figure latent --methods 'acl,acl[discriminator=false]'",
)
@click.argument("kind", default="ls", metavar="[KIND]")
@out_option
@click.option(
    "--format",
    "formats",
    default=",".join(FORMATS),
    help="Formats of the files; a caption in plain text is always written.",
)
@click.option(
    "--to", type=click.Path(path_type=Path), help="Folder for the figures.  [default: OUT/figures]"
)
@selection_options
@data_root_option
def command(
    kind: str,
    out: str,
    formats: str,
    to: Path | None,
    benchmarks: str | None,
    methods: str | None,
    data_root: str | None,
) -> None:
    """Draw figures from the records of past runs: one per benchmark, with a caption.

    KIND is accuracy, matrix, confusion, memory, replay, capacity or latent; without one, they are
    listed.
    Only finished runs are drawn; the caption lists the others.
    """
    if kind == "ls":
        for name, about in KINDS.items():
            click.echo(f"{name:10}{about}")
        return
    if kind not in KINDS:
        raise unknown("figure", kind, KINDS, "`clbench figure` lists all.")
    wanted = parse_formats(formats, FORMATS)
    runs, problems = read_runs(out, False, methods, benchmarks)
    keep = chosen(benchmarks, methods, runs)
    from clbench.report.figures.write import write

    options: dict[str, Any] = {}
    if kind == "latent":
        options["source"] = _source(out, data_root, benchmarks, methods)
    folder, root = (Path(out) / "figures", Path(out)) if to is None else (to, None)
    made = tables_of(runs, problems, keep=keep)
    paths, left_out = write(kind, made, folder, wanted, root=root, **options)
    for path in paths:
        click.echo(f"wrote {path}")
    warn(left_out)


def _source(out: str, data_root: str | None, benchmarks: str | None, methods: str | None) -> Any:
    from clbench.registry import split_list

    items = [*split_list(benchmarks or ""), *split_list(methods or "")]
    files = [named_path(item, "--methods", home=True) for item in items if item.endswith(".py")]
    from clbench import data
    from clbench.report.figures.checkpoints import Checkpoints

    return Checkpoints(Path(out), data.data_root(data_root), tuple(files))
