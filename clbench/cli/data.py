"""`clbench data`: what data this machine has, and how to get the rest."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from clbench.data import cache_root, data_root
from clbench.errors import UserError

ROOT = click.option(
    "--data-root",
    "root",
    metavar="FOLDER",
    help="Folder of the data. Default: $CLBENCH_DATA, else the platform's cache folder.",
)


@click.group(name="data")
def command() -> None:
    """Show the data sets on this machine, and get those that are missing.

    \b
    Examples:
      clbench data status
      clbench data prepare mnist cifar100
    """


@command.command()
@ROOT
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--verify", is_flag=True, help="Read all bytes again, of the sources and the cache.")
def status(root: str | None, as_json: bool, verify: bool) -> None:
    """Show which data sets are found, whether they are complete, and what needs them.

    \b
    Examples:
      clbench data status
      clbench data status --json
      clbench data status --verify
    """
    from clbench.data.status import benchmarks_by_data, survey

    folder = data_root(root)
    rows = survey(folder, cache_root(), benchmarks_by_data(), verify)
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        from tabulate import tabulate

        table = [
            [
                row.name,
                "yes" if row.found else "no",
                row.verified,
                row.content,
                f"{row.bytes:,}" if row.found else "",
                row.decoded,
                _shown(row.where, folder),
                ", ".join(row.needed_by),
            ]
            for row in rows
        ]
        head = [
            "data set",
            "found",
            "verified",
            "content",
            "bytes",
            "decoded",
            "where",
            "needed by",
        ]
        right = ["left"] * 4 + ["right"] + ["left"] * 3
        click.echo(f"Data root: {folder}\nCache: {cache_root()}\n")
        click.echo(tabulate(table, head, tablefmt="simple", colalign=right, disable_numparse=True))
    if verify and (damaged := [row.name for row in rows if row.damaged]):
        raise UserError(f"Damaged: {', '.join(damaged)}.")


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@ROOT
@click.option(
    "--from",
    "given",
    metavar="FILE_OR_FOLDER",
    help="Take the data from here: a folder, an archive, or one of its files.",
)
@click.option("--accept-data", is_flag=True, help="Accept a subset or another encoding.")
def prepare(names: tuple[str, ...], root: str | None, given: str | None, accept_data: bool) -> None:
    """Download data sets, or take them from files you have; verify and decode them.

    \b
    Examples:
      clbench data prepare mnist-5k
      clbench data prepare mnist fashion-mnist
      clbench data prepare cifar100 --from ~/Downloads/cifar-100-python.tar.gz
    """
    from clbench.data.prepare import prepare as bring

    if given and len(names) > 1:
        raise UserError(f"--from takes one data set, not {len(names)}: {' '.join(names)}.")
    for name in names:
        source = Path(given).expanduser() if given else None
        data = bring(name, data_root(root), cache_root(), source, accept_data)
        sizes = ", ".join(f"{len(part.labels):,} {key}" for key, part in data.parts.items())
        click.echo(f"{name} is ready: {sizes} images ({data.note or 'official, complete'}).")


def _shown(where: str, root: Path) -> str:
    """`where` relative to the data root if it is below it."""
    path = Path(where)
    if not where or not path.is_relative_to(root):
        return where
    return str(path.relative_to(root))
