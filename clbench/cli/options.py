"""Options that several subcommands share."""

import functools
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from clbench.errors import UserError
from clbench.executors import EXECUTORS, Resources
from clbench.store import Place

out_option = click.option(
    "--out",
    default="results",
    show_default=True,
    metavar="FOLDER",
    help="Folder of records, checkpoints and tables.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")

RERUN = ("missing", "failed", "stale", "all")


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


def default_workers() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _partition(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """It becomes a line of a script: nothing but a name may stand there."""
    if value is not None and not re.fullmatch(r"[\w.,-]+", value, re.ASCII):
        raise UserError(f"--partition {value!r} is not the name of a partition.")
    return value


_TRAINING = (
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        default=default_workers,
        show_default="the cores",
        help="Runs at the same time.",
    ),
    click.option(
        "--executor",
        type=click.Choice(EXECUTORS),
        default="local",
        show_default=True,
        help="Where runs are trained: here, by a SLURM cluster, or by Ray.",
    ),
    click.option(
        "--cpus-per-run",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help="Cores that SLURM or Ray gives a run.",
    ),
    click.option(
        "--gpus-per-run",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="GPUs that SLURM or Ray gives a run.",
    ),
    click.option(
        "--memory-per-run",
        type=click.FloatRange(min=0, min_open=True),
        help="GB that a run gets; here, none is started beside others without it.",
    ),
    click.option(
        "--time-limit",
        type=click.IntRange(min=1),
        default=24 * 60,
        show_default=True,
        help="Minutes of a SLURM job; what is not done by then goes back into the queue.",
    ),
    click.option("--partition", callback=_partition, help="Partition of SLURM."),
    click.option("--ray-address", help="A Ray cluster; without it, one is started here."),
    click.option(
        "--threads",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help="Torch threads of each run; part of its id, as sums depend on it.",
    ),
    click.option("--device", default="cpu", show_default=True, help="Torch device of each run."),
    out_option,
    click.option(
        "--data-root", metavar="FOLDER", help="Where data sets are.  [default: $CLBENCH_DATA]"
    ),
    click.option(
        "--accept-data",
        is_flag=True,
        help="Use data that is not the official, complete set; said in every record and table.",
    ),
    click.option("--dry-run", is_flag=True, help="Show the cells, what is done, and an estimate."),
    click.option(
        "--rerun",
        type=click.Choice(RERUN),
        default="missing",
        show_default=True,
        help="What to train besides unfinished runs: those that failed, those of another version "
        "(stale), or all.",
    ),
)


@dataclass(frozen=True)
class Training:
    """What the options of all that trains say."""

    executor: str
    resources: Resources
    threads: int
    device: str
    place: Place
    dry_run: bool
    rerun: str


def training_options(command: Callable[..., Any]) -> Any:
    """Give a command the options of all that trains, which it gets as one `training`."""

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
    """The output folder, which must be there to be read."""
    path = Path(out)
    if not path.is_dir():
        raise UserError(
            f"There is no folder {out} (--out). `clbench run` makes one; "
            "name another with --out FOLDER."
        )
    return path
