"""Options that several subcommands share."""

import os
from pathlib import Path
from typing import Any

import click

from clbench.errors import UserError

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


_TRAINING = (
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        default=default_workers,
        show_default="the cores",
        help="Runs at the same time.",
    ),
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


def training_options(command: Any) -> Any:
    """The options of all that trains: workers, threads, device, folders, dry run, rerun."""
    for option in reversed(_TRAINING):
        command = option(command)
    return command


def existing_out(out: str) -> Path:
    """The output folder, which must be there to be read."""
    path = Path(out)
    if not path.is_dir():
        raise UserError(
            f"There is no folder {out} (--out). `clbench run` makes one; "
            "name another with --out FOLDER."
        )
    return path
