"""`clbench.run`: a grid of runs as a Python call.

result = clbench.run(methods=["acl", "ewc[strength=500]", MyMethod], seeds=3, epochs=5)
result.frame()                         # a DataFrame with one row per run
result.table(columns=["acc", "bwt"])   # the tables that `clbench run` prints
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clbench.campaign import RERUN, NoResult, Outcome, carry_out, make_plan
from clbench.errors import UserError, unknown
from clbench.executors import EXECUTORS, Resources
from clbench.files import named_path
from clbench.grid import Search, Wanted, make_grid, seed_list, untuned
from clbench.protocol import PROTOCOL_FIELDS
from clbench.record import Record
from clbench.registry import read_again
from clbench.store import Place

if TYPE_CHECKING:
    import pandas as pd

    from clbench.report import Table

_RESOURCES = tuple(f.name for f in fields(Resources))


def run(
    methods: Wanted,
    benchmarks: Wanted = "split-mnist-5k",
    seeds: int | Iterable[int] = 1,
    out: str | Path = "results",
    *,
    executor: str = "local",
    device: str = "cpu",
    threads: int = 1,
    data_root: str | Path | None = None,
    accept_data: bool = False,
    rerun: str = "missing",
    tuned: bool | str | Path = False,
    progress: bool = True,
    **options: Any,
) -> "Result":
    """Train what is missing of methods x benchmarks x seeds, and return all of it.

    `methods` and `benchmarks` are names, specs like `ewc[strength=500]`, paths of files, or
    classes: one, a list, or a string with commas. `seeds` is how many, or which. `options` are
    values of the training protocol, like `epochs=5`, and resources, like `workers=2` (by default
    the number of cores). `tuned` is True for the values that `clbench tune` has found in `out`, or
    names their file. The other arguments are the flags of `clbench run`.

    Raises UserError for a mistake of the caller, with all problems in one message. A method that
    fails does not raise: `Result.failed` has it.
    """
    from clbench.data import data_root as default_root

    for name, value, allowed in (("executor", executor, EXECUTORS), ("rerun", rerun, RERUN)):
        if value not in allowed:
            raise unknown(name, value, allowed)
    read_again()  # this process may have run an earlier state of the same files
    resources = {key: options.pop(key) for key in _RESOURCES if key in options}
    overrides = {}
    for name, value in options.items():
        if name not in PROTOCOL_FIELDS:
            raise unknown("argument of clbench.run", name, (*PROTOCOL_FIELDS, *_RESOURCES))
        overrides[name] = PROTOCOL_FIELDS[name].check(value, "clbench.run")
    if type(threads) is not int:
        raise UserError(f"threads={threads!r} is not a whole number.")
    numbers, machine = seed_list(seeds, f"seeds={seeds!r}"), (threads, device)
    found: Search = untuned
    if tuned is not False:
        from clbench.tuning.outcome import Found

        found = Found(named_path(str(out), "out"), "" if tuned is True else str(tuned))
    cells = make_grid(methods, benchmarks, numbers, overrides, *machine, tuned=found)
    root = str(named_path(str(data_root), "data_root", home=True)) if data_root else None
    place = Place(named_path(str(out), "out"), default_root(root), accept_data)
    plan = make_plan(cells, place, executor, Resources(**resources), rerun)
    if progress and plan.chosen:
        from clbench.progress import watched

        outcome = watched(plan)
    else:
        outcome = carry_out(plan)
    bad = outcome.without_result
    if len(bad) == len(cells) and all(each.status == "refused" for each in bad):
        raise UserError("\n".join(dict.fromkeys(each.error for each in bad)))
    return Result(outcome)


class Result:
    """The runs of one call of `clbench.run`."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome

    @property
    def records(self) -> list[Record]:
        """The records of all runs, by benchmark, method and seed in the order of the call."""
        return self.outcome.records

    @property
    def failed(self) -> list[NoResult]:
        """The runs that have no result, with their errors."""
        return self.outcome.without_result

    def frame(self) -> "pd.DataFrame":
        """A DataFrame with one row per run."""
        from clbench.report.frame import runs_frame

        return runs_frame(self.records)

    def table(self, columns: Sequence[str] = (), vs_paper: bool | str = False) -> "Tables":
        """One table per benchmark, with these columns (by default those of `clbench run`).

        `vs_paper` adds published numbers: of the first paper that has some, or of the one that it
        names, which may be a TOML file of one's own.

        A script prints them; an interactive session and a notebook show the value of the call.
        """
        from clbench.papers import named_paper
        from clbench.report import COLUMNS, lacking, tables

        for key in columns:
            if key not in COLUMNS:
                raise unknown("column", key, COLUMNS)
        papers = [named_paper(vs_paper)] if isinstance(vs_paper, str) else None
        how: dict[str, Any] = {"vs_paper": bool(vs_paper), "papers": papers}
        made = tables(self.records, columns=tuple(columns), **how)
        if papers and (sentence := lacking(made, papers)):
            raise UserError(sentence)
        for n, table in enumerate(made if columns else ()):
            kept = [c for c in table.columns if c.key in columns or c.key not in COLUMNS]
            made[n] = replace(table, columns=kept)
        shown = Tables(made)
        if not hasattr(sys, "ps1"):  # set in interactive sessions, IPython's too
            print(shown)
        return shown

    def __repr__(self) -> str:
        done = len(self.outcome.cells) - len(self.failed)
        return f"<clbench.Result: {done} of {len(self.outcome.cells)} runs have a result>"


class Tables:
    """Tables that an interactive session prints and a notebook renders."""

    def __init__(self, tables: "list[Table]") -> None:
        self.tables = tables

    def __repr__(self) -> str:
        from clbench.report import terminal

        return terminal(self.tables).rstrip("\n")

    def _repr_markdown_(self) -> str:
        from clbench.report.markdown import render

        return "\n".join(map(render, self.tables))
