"""Options that several subcommands share."""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from clbench.campaign import RERUN, Campaign
from clbench.errors import UserError
from clbench.executors import EXECUTORS, Resources, usable_cores
from clbench.spec import Cell
from clbench.store import Place

out_option = click.option(
    "--out",
    default="results",
    show_default=True,
    metavar="FOLDER",
    help="Folder for records, checkpoints and tables.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def parse_seeds(text: str) -> list[int]:
    """`3` -> [0, 1, 2]; `0,1,7` -> those; a comma makes it a list (`7,` is seed 7 alone)."""
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0 or ("," not in text and numbers[0] < 1):
        raise UserError(
            f"--seeds {text!r}: give how many (3 means 0,1,2; at least 1) or a list (0,1,7)."
        )
    return list(range(numbers[0])) if "," not in text else list(dict.fromkeys(numbers))


def _partition(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The value becomes a line of a shell script, so it may only be a name."""
    if value is not None and not re.fullmatch(r"[\w.,-]+", value, re.ASCII):
        raise UserError(f"--partition {value!r} is not the name of a partition.")
    return value


_TRAINING = (
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        default=usable_cores,
        show_default="number of cores",
        help="Runs that train at the same time.",
    ),
    click.option(
        "--executor",
        type=click.Choice(EXECUTORS),
        default="local",
        show_default=True,
        help="Where runs train: on this machine, on a SLURM cluster or on a Ray cluster.",
    ),
    click.option(
        "--cpus-per-run",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help="Cores per run on SLURM or Ray.",
    ),
    click.option(
        "--gpus-per-run",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="GPUs per run on SLURM or Ray.",
    ),
    click.option(
        "--memory-per-run",
        type=click.FloatRange(min=0, min_open=True),
        help="Memory per run, in GB; locally, a run waits until this much is free.",
    ),
    click.option(
        "--time-limit",
        type=click.IntRange(min=1),
        default=24 * 60,
        show_default=True,
        help="Minutes per SLURM job; a run that is not done by then goes back into the queue.",
    ),
    click.option("--partition", callback=_partition, help="SLURM partition."),
    click.option(
        "--ray-address", help="Address of a Ray cluster; without it, one starts on this machine."
    ),
    click.option(
        "--threads",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help="Torch threads per run; part of its id, because the order of sums depends on it.",
    ),
    click.option(
        "--device",
        default="cpu",
        show_default=True,
        help="Torch device of the runs; part of their ids.",
    ),
    out_option,
    click.option(
        "--data-root", metavar="FOLDER", help="Folder of the data sets.  [default: $CLBENCH_DATA]"
    ),
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
        show_default=True,
        help="Train more than missing and unfinished runs: those that failed, those that are stale "
        "(other code or other data), or all.",
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

    def campaign(self, cells: list[Cell]) -> Campaign:
        return Campaign(cells, self.place, self.executor, self.resources, self.rerun)


def training_options(command: Callable[..., Any]) -> Any:
    """Give a command the options of every command that trains, as one argument `training`."""

    @functools.wraps(command)
    def collected(**given: Any) -> Any:
        from clbench.data import data_root

        take = given.pop
        training = Training(
            executor=take("executor"),
            resources=Resources(**{each.name: take(each.name) for each in fields(Resources)}),
            threads=take("threads"),
            device=take("device"),
            place=Place(Path(take("out")), data_root(take("data_root")), take("accept_data")),
            dry_run=take("dry_run"),
            rerun=take("rerun"),
        )
        return command(training=training, **given)

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
