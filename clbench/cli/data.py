"""`clbench data`: show which data sets are on this machine, and get the others."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clbench import data
from clbench.cli.options import data_root_option, examples, json_option
from clbench.errors import UserError
from clbench.files import shown
from clbench.registry import declarations
from clbench.width import fitted_table, terminal_width, wrap

if TYPE_CHECKING:
    from clbench.data.status import Found


@click.group(name="data")
def command() -> None:
    """Show which data sets are on this machine, and get the missing ones.

    \b
    Examples:
      clbench data status
      clbench data prepare mnist cifar100
    """


@command.command(epilog=examples("data status", "data status --json", "data status --verify"))
@data_root_option
@json_option
@click.option("--verify", is_flag=True, help="Read all bytes of the files and of the cache again.")
def status(data_root: str | None, as_json: bool, verify: bool) -> None:
    """Show which data sets are on this machine, whether they are complete, and what needs them."""
    from clbench.data.status import survey

    folder = data.data_root(data_root)
    found = survey(folder, data.cache_root(), _needed_by(), verify)
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=1))
    else:
        click.echo(f"Data root: {folder}\nCache: {data.cache_root()}\n\n{_table(found, folder)}")
        if missing := [each.name for each in found if not each.found]:
            how = f"Type 'clbench data prepare {missing[0]}' to get one."
            _say(f"Missing: {', '.join(missing)}. {how}")
        usable = [d.name for d in found if d.found and not (d.complete or d.damaged)]
        if usable:
            how = "Commands use them only with --accept-data."
            _say(f"Not the official, complete data: {', '.join(usable)}. {how}")
    if verify and (damaged := [each.name for each in found if each.damaged]):
        raise UserError(f"Damaged: {', '.join(damaged)}.")


def _say(sentence: str) -> None:
    click.echo("\n" + wrap(sentence, terminal_width()))


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
            shown(each.content),
            each.verified,
            f"{each.bytes:,}" if each.found else "",
            each.decoded,
            shown(_below(each.where, root)),
            ", ".join(each.needed_by),
        ]
        for each in found
    ]
    return fitted_table(rows, headers, prose={"content", "where", "needed by"}, right={"bytes"})


@command.command(
    epilog=examples(
        "data prepare mnist-5k",
        "data prepare mnist fashion-mnist",
        "data prepare cifar100 --from ~/Downloads/cifar-100-python.tar.gz",
    )
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@data_root_option
@click.option(
    "--from",
    "given",
    metavar="FILE_OR_FOLDER",
    help="Take the data from a folder, an archive, or one file beside the others.",
)
@click.option("--accept-data", is_flag=True, help="Accept data that are not official.")
def prepare(
    names: tuple[str, ...], data_root: str | None, given: str | None, accept_data: bool
) -> None:
    """Download data sets, or take them from files you have; verify and decode them."""
    from clbench.data.catalog import reader_of
    from clbench.data.loading import home
    from clbench.data.prepare import prepare as prepare_data

    if given and len(names) > 1:
        raise UserError(f"--from takes one data set, not {len(names)}: {' '.join(names)}.")
    for name in names:
        source = home(given) if given else None
        root = data.data_root(data_root)
        made, how = prepare_data(name, root, data.cache_root(), source, accept_data)
        sizes = ", ".join(f"{len(part.labels):,} {key}" for key, part in made.parts.items())
        content = made.note or reader_of(name).checked
        click.echo(f"{name} is ready ({how}): {sizes} images; {content}.")
        if made.note:
            click.echo(f"Commands that use {name} need --accept-data.")


def _below(where: str, root: Path) -> str:
    """`where` relative to the data root if it is below it."""
    path = Path(where)
    return str(path.relative_to(root)) if where and path.is_relative_to(root) else where
