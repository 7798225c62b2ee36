"""`clbench data`: show which data sets are on this machine, and get the others."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clbench.data import cache_root, data_root
from clbench.errors import UserError
from clbench.registry import declarations
from clbench.width import fitted_table, terminal_width, wrap

if TYPE_CHECKING:
    from clbench.data.status import Found

ROOT = click.option(
    "--data-root",
    "root",
    metavar="FOLDER",
    help="Folder of the data.  [default: $CLBENCH_DATA, else the platform's cache folder]",
)


@click.group(name="data")
def command() -> None:
    """Show which data sets are on this machine, and get the missing ones.

    \b
    Examples:
      clbench data status
      clbench data prepare mnist cifar100
    """


@command.command()
@ROOT
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--verify", is_flag=True, help="Read all bytes of the files and of the cache again.")
def status(root: str | None, as_json: bool, verify: bool) -> None:
    """Show which data sets are on this machine, whether they are complete, and what needs them.

    \b
    Examples:
      clbench data status
      clbench data status --json
      clbench data status --verify
    """
    from clbench.data.status import survey

    folder = data_root(root)
    found = survey(folder, cache_root(), _needed_by(), verify)
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=1))
    else:
        click.echo(f"Data root: {folder}\nCache: {cache_root()}\n\n{_table(found, folder)}")
        for sentence in _advice(found):
            click.echo("\n" + wrap(sentence, terminal_width()))
    if verify and (damaged := [each.name for each in found if each.damaged]):
        raise UserError(f"Damaged: {', '.join(damaged)}.")


def _needed_by() -> dict[str, list[str]]:
    """Data set -> the benchmarks that use it."""
    needed: dict[str, list[str]] = {}
    for benchmark in declarations("benchmark").values():
        for name in benchmark.meta.get("datasets", ()):
            needed.setdefault(name, []).append(benchmark.name)
    return needed


def _table(found: Sequence["Found"], root: Path) -> str:
    headers = ["data set", "content", "verified", "bytes", "decoded", "where", "needed by"]
    rows = [
        [
            each.name,
            each.content,
            each.verified,
            f"{each.bytes:,}" if each.found else "",
            each.decoded,
            _shown(each.where, root),
            ", ".join(each.needed_by),
        ]
        for each in found
    ]
    return fitted_table(rows, headers, prose={"content", "where", "needed by"}, right={"bytes"})


def _advice(found: Sequence["Found"]) -> Iterator[str]:
    """What to type for data that are missing or not official."""
    if missing := [each.name for each in found if not each.found]:
        yield f"Missing: {', '.join(missing)}. Type 'clbench data prepare {missing[0]}' to get one."
    usable = [each.name for each in found if each.found and not (each.complete or each.damaged)]
    if usable:
        yield (
            f"Not the official, complete data: {', '.join(usable)}. Commands use them only with "
            "--accept-data."
        )


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@ROOT
@click.option(
    "--from",
    "given",
    metavar="FILE_OR_FOLDER",
    help="Take the data from a folder, an archive, or one file beside the others.",
)
@click.option("--accept-data", is_flag=True, help="Accept data that are not official.")
def prepare(names: tuple[str, ...], root: str | None, given: str | None, accept_data: bool) -> None:
    """Download data sets, or take them from files you have; verify and decode them.

    \b
    Examples:
      clbench data prepare mnist-5k
      clbench data prepare mnist fashion-mnist
      clbench data prepare cifar100 --from ~/Downloads/cifar-100-python.tar.gz
    """
    from clbench.data.catalog import reader_of
    from clbench.data.prepare import prepare as prepare_data

    if given and len(names) > 1:
        raise UserError(f"--from takes one data set, not {len(names)}: {' '.join(names)}.")
    for name in names:
        source = Path(given).expanduser() if given else None
        data, how = prepare_data(name, data_root(root), cache_root(), source, accept_data)
        sizes = ", ".join(f"{len(part.labels):,} {key}" for key, part in data.parts.items())
        content = data.note or reader_of(name).checked
        click.echo(f"{name} is ready ({how}): {sizes} images; {content}.")
        if data.note:
            click.echo(f"Commands that use {name} need --accept-data.")


def _shown(where: str, root: Path) -> str:
    """`where` relative to the data root if it is below it."""
    path = Path(where)
    if not where or not path.is_relative_to(root):
        return where
    return str(path.relative_to(root))
