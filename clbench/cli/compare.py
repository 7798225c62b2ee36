"""`clbench compare`: two methods, two folders of records, or one of them and a paper."""

import dataclasses
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import click

from clbench.cli.options import json_option, out_option, subcommand, warn
from clbench.cli.selection import chosen, read_runs
from clbench.editions import matches
from clbench.errors import UserError, unknown
from clbench.papers import Paper, Published, named_paper, names, shipped
from clbench.report.columns import COLUMNS
from clbench.report.compare import Comparison, against_paper, by_seed, compare, unpaired
from clbench.report.paper import unlike, versus
from clbench.report.runs import Run, runs_of
from clbench.report.words import few
from clbench.store import Store
from clbench.width import fitted_table

MEASURED = tuple(key for key, column in COLUMNS.items() if column.best)


@subcommand(
    "compare finetune ewc",
    "compare results other-results --column bwt",
    "compare paper acl --json",
    "compare acl-2020 acl",
)
@click.argument("a")
@click.argument("b")
@out_option
@click.option("--column", type=click.Choice(MEASURED), default="acc", help="The column to compare.")
@click.option("--alpha", default=0.05, help="Significance level.")
@json_option
def command(a: str, b: str, out: str, column: str, alpha: float, as_json: bool) -> None:
    """Compare B with A: two methods of --out, two folders of records, or a paper and one of them.

    A paper is one that `clbench ls published` lists, a TOML file of your own, or `paper` for the
    first that has numbers for the stream. Runs are paired by seed. The exit code is 1 if B is worse
    somewhere, or if it is a folder that lacks a result of A's.
    """
    if not 0 < alpha < 1:
        raise UserError(f"--alpha {alpha:g}: give a number between 0 and 1.")
    missing: list[str] = []
    if _is_paper(a) or _is_paper(b):
        lines = _with_paper(a, b, out, column, alpha)
    else:
        folders = [_is_folder(side, out) for side in (a, b)]
        if folders[0] != folders[1]:
            side = b if folders[0] else a
            raise UserError(f"{side} is not a folder of records, but the other side is one.")
        key = "method" if folders[0] else "protocol"
        mine, theirs = _runs(a, out), _runs(b, out)
        sides = by_seed(mine, key, a, theirs), by_seed(theirs, key, b, mine)
        lines, missing = compare(*sides, column, alpha), unpaired(*sides)
        warn(missing)
    if not lines:
        hint = " It needs runs of an upper bound: clbench run --reference trains them."
        raise UserError(
            f"{a} and {b} have no finished run in common (same benchmark, protocol, data and seed) "
            f"with a value of {COLUMNS[column].heading}.{hint if 'intransigence' in column else ''}"
        )
    if as_json:
        click.echo(json.dumps([_plain(line) for line in lines], indent=1))
    else:
        click.echo(_text(lines, a, b, column, alpha))
    if any(line.word == "worse" for line in lines) or (missing and os.path.isdir(a)):
        sys.exit(1)


def _plain(line: Comparison) -> dict[str, Any]:
    """As JSON has it: no interval is null."""
    values = dataclasses.asdict(line).items()
    return {key: None if isinstance(v, float) and math.isnan(v) else v for key, v in values}


def _is_folder(side: str, out: str) -> bool:
    """Whether a side is a folder of records; a name that is also a method's must be told apart."""
    if not os.path.isdir(side):  # also of a path that can be none
        return False
    records, _ = Store(Path(out)).records()
    if "/" not in side and any(record.method == side for record in records):
        raise UserError(f"{side} is a method in {out} and a folder: write ./{side} for the folder.")
    return True


def _runs(side: str, out: str) -> list[Run]:
    """The runs of a folder, or those of a method in `out`. In a folder, the newest code is that of
    its newest record: two folders may hold the results of two codes."""
    folder = _is_folder(side, out)
    if folder:
        problems: list[str] = []
        runs = runs_of(Store(Path(side)).each(problems))
        warn(problems)
    else:
        runs, _ = read_runs(out, True)
    if not any(run.counted for run in runs):
        raise UserError(f"{side if folder else out} has no finished run.")
    if folder:
        keep = chosen(None, None, runs)
        return [run for run in runs if keep(run)]
    mine = [run for run in runs if _is_side(side, run)]
    if not mine:
        raise unknown(f"method in the records of {out}:", side, {run.method for run in runs})
    return mine


def _is_side(side: str, run: Run) -> bool:
    """Whether a run is of the method, with its values and its code: without `@` of the newest."""
    if "@" not in side:
        return side == run.method and "benchmark" not in run.hidden
    name, _, code = side.partition("@")
    code, bracket, inside = code.partition("[")
    label = f"{name}{run.codes.get('method', '')}{bracket}{inside}"
    return label == run.method and matches(f"{name}@{code}", run.made("method"))


def _is_paper(side: str) -> bool:
    return side == "paper" or side.endswith(".toml") or side in names()


def _with_paper(a: str, b: str, out: str, column: str, alpha: float) -> list[Comparison]:
    if _is_paper(a) and _is_paper(b):
        raise UserError(
            "A paper cannot be compared with itself or another: name a method or folder."
        )
    if _is_paper(b):
        raise UserError(f"Put the paper first: clbench compare {b} {a}.")
    if column not in ("acc", "bwt"):
        raise UserError(f"A paper can be compared by acc or bwt, not by {column}.")
    papers = shipped() if a == "paper" else [named_paper(a)]
    runs = [run for run in _runs(b, out) if run.counted]
    rows = _published(runs, papers)
    if not rows:
        made = sorted({f"{run.method} on {run.benchmark}" for run in runs})
        whose = "The paper" if a == "paper" else papers[0].cite
        raise UserError(f"{whose} has no row for {', '.join(made)}.")
    usual = [run for run in runs if run.id in rows and not unlike(run, rows[run.id][0])]
    if not usual:
        reason = "the full protocol and the whole data, as in the paper"
        raise UserError(f"No finished run of {b} has {reason}.")
    if left := len(rows) - len(usual):
        warn([f"{left} runs are left out: their budget or data differ from the paper's."])
    pairs = by_seed(usual, "method", b)
    heads = {key: next(iter(seeds.values())) for key, seeds in pairs.items()}
    return against_paper(pairs, {key: rows[run.id] for key, run in heads.items()}, column, alpha)


def _published(runs: list[Run], papers: list[Paper]) -> dict[str, tuple[Published, int]]:
    """By the id of a run: the first paper's row for it, and how many runs that row has."""
    found: dict[str, tuple[Published, int]] = {}
    for benchmark in sorted({run.benchmark for run in runs}):
        mine = [run for run in runs if run.benchmark == benchmark]
        beside = versus(mine, papers)
        for run in mine if beside else ():
            if beside and (row := beside.find(run)) is not None:
                found[run.id] = row, beside.paper.tables[row.table].runs or 0
    return found


def _text(lines: list[Comparison], a: str, b: str, column: str, alpha: float) -> str:
    rows = [
        [
            line.benchmark,
            line.what or "-",
            len(line.seeds),
            f"{line.a:.2f}",
            f"{line.b:.2f}",
            f"{line.difference:+.2f}",
            "" if math.isnan(line.low) else f"{line.low:+.2f} to {line.high:+.2f}",
            "" if line.p is None else f"{line.p:.3f}",
            line.word,
        ]
        for line in lines
    ]
    shared = "method" if _is_paper(a) or os.path.isdir(a) else "protocol"
    head = ["benchmark", shared, "seeds", "A", "B", "B - A", "95 % interval", "p", "B is"]
    grid = fitted_table(rows, head, prose=(), right=head[2:-1])
    apart: dict[str, list[str]] = {}
    for line in lines:
        if line.made_with:
            apart.setdefault(line.made_with, []).append(f"{line.benchmark} {line.what}".strip())
    test = "Welch's test" if _is_paper(a) else "paired t-test over seeds"
    return (
        f"{COLUMNS[column].heading}: A = {a}, B = {b}\n\n{grid}\n\n"
        f"p: {test}, Holm's correction over all of them; better or worse if below {alpha:g}.\n"
        "Interval: bootstrap over seeds; with few seeds it is little more than their range.\n"
        "untested: fewer than two seeds, or no published standard deviation."
        + "".join(
            f"\nNot all runs were made alike: {how} ({few(names, 'lines')})."
            for how, names in apart.items()
        )
    )
