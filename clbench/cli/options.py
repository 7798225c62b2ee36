"""Options that several subcommands share."""

import functools
import reprlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from clbench import limits
from clbench.campaign import RERUN
from clbench.errors import UserError
from clbench.executors import EXECUTORS, MOST, Resources, usable_cores
from clbench.files import named_path
from clbench.grid import seed_list
from clbench.store import Place


def _folder(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A folder that can exist; only the data may be named from somebody's home."""
    if value is None:
        return None
    return str(named_path(value, max(param.opts, key=len), home=param.name == "data_root"))


out_option = click.option(
    "--out",
    default="results",
    metavar="FOLDER",
    callback=_folder,
    help="Folder for records, checkpoints and tables.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
data_root_option = click.option(
    "--data-root",
    metavar="FOLDER",
    callback=_folder,
    help="Folder of the data sets.  [default: $CLBENCH_DATA, else the platform's cache folder]",
)


def selection_options(command: Any) -> Any:
    """Give a command the options that choose runs."""
    kinds = "names, globs, groups (@memory); NAME@* also shows runs by earlier code"
    command = click.option("--methods", help=f"Only these: {kinds}. A comma list.")(command)
    return click.option("--benchmarks", help="Only these, named in the same way.")(command)


def examples(*commands: str) -> str:
    """The end of a help text."""
    return "\b\nExamples:\n" + "\n".join(f"  clbench {command}" for command in commands)


def subcommand(*commands: str) -> Any:
    """A click command whose help ends with these examples."""
    return click.command(epilog=examples(*commands))


def warn(sentences: Iterable[str]) -> None:
    """Print warnings on stderr."""
    for sentence in sentences:
        click.echo(f"Warning: {limits.sentence(sentence)}", err=True)


def parse_seeds(text: str) -> list[int]:
    """`3` -> [0, 1, 2]; `0,1,7` -> those; a comma makes it a list (`7,` is seed 7 alone)."""
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    where = f"--seeds {reprlib.repr(text)}"
    return seed_list(numbers if "," in text or not numbers else numbers[0], where)


_COUNT = click.IntRange(1, MOST)
_TRAINING = (
    click.option(
        "--workers",
        type=_COUNT,
        default=usable_cores,
        show_default="number of cores",
        help="Runs that train at the same time.",
    ),
    click.option(
        "--executor",
        type=click.Choice(EXECUTORS),
        default="local",
        help="Where runs train: on this machine, on a SLURM cluster or on a Ray cluster.",
    ),
    click.option("--cpus-per-run", type=_COUNT, default=1, help="Cores per run on SLURM or Ray."),
    click.option(
        "--gpus-per-run", type=click.IntRange(0), default=0, help="GPUs per run on SLURM or Ray."
    ),
    click.option(
        "--memory-per-run",
        type=float,
        help="Memory per run, in GB; locally, a run waits until this much is free.",
    ),
    click.option(
        "--time-limit",
        type=_COUNT,
        default=24 * 60,
        help="Minutes per SLURM job; a run that is not done by then goes back into the queue.",
    ),
    click.option("--partition", help="SLURM partition."),
    click.option(
        "--ray-address", help="Address of a Ray cluster; without it, one starts on this machine."
    ),
    click.option(
        "--threads",
        type=_COUNT,
        default=1,
        help="Torch threads per run; part of its id, because the order of sums depends on it.",
    ),
    click.option("--device", default="cpu", help="Torch device of the runs; part of their ids."),
    out_option,
    data_root_option,
    click.option(
        "--accept-data",
        is_flag=True,
        help="Use data that are not the official, complete set; every record and table says so.",
    ),
    click.option(
        "--dry-run",
        is_flag=True,
        help="Show the state of each run, estimate the time, name problems, and train nothing.",
    ),
    click.option(
        "--rerun",
        type=click.Choice(RERUN),
        default="missing",
        help="Train more than the runs that lack a result of today's code and data: those that "
        "failed, or all.",
    ),
)


@dataclass(frozen=True)
class Training:
    """The options of every command that trains."""

    executor: str
    resources: Resources
    threads: int
    device: str
    place: Place
    dry_run: bool
    rerun: str


def training_options(command: Callable[..., Any]) -> Any:
    """Give a command the options of every command that trains, as one argument `training`."""

    @functools.wraps(command)
    def collected(**given: Any) -> Any:
        from clbench.data import data_root

        resources = Resources(**{each.name: given.pop(each.name) for each in fields(Resources)})
        root = data_root(given.pop("data_root"))
        place = Place(Path(given.pop("out")), root, given.pop("accept_data"))
        own = {
            name: given.pop(name) for name in ("executor", "threads", "device", "dry_run", "rerun")
        }
        return command(training=Training(resources=resources, place=place, **own), **given)

    for option in reversed(_TRAINING):
        collected = option(collected)
    return collected


def existing_out(out: str) -> Path:
    """The output folder; an error if there is none."""
    path = Path(out)
    if not path.is_dir():
        raise UserError(
            f"There is no folder {out} (--out). `clbench run` makes one; "
            "name another with --out FOLDER."
        )
    return path
