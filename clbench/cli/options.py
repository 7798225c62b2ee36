"""Options that several subcommands share."""

import os
from pathlib import Path

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


def existing_out(out: str) -> Path:
    """The output folder, which must be there to be read."""
    path = Path(out)
    if not path.is_dir():
        raise UserError(
            f"There is no folder {out} (--out). `clbench run` makes one; "
            "name another with --out FOLDER."
        )
    return path
