"""Records as pandas DataFrames, for a notebook."""

import math
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from clbench.editions import today
from clbench.errors import UserError, unknown
from clbench.files import named_path
from clbench.record import Record
from clbench.registry import read_again
from clbench.report.columns import COLUMNS
from clbench.report.runs import Known, made_with, nothing, runs_of
from clbench.report.table import tables
from clbench.store import Store

_ID = ("run", "benchmark", "method", "seed")
_RUN = ["benchmark", "method", "protocol", "seed", "id", "status", "fault"]
_RUN += ["family", "benchmark_title", "method_title", "zero_forgetting", "tasks", "done"]


def load(path: str | Path = "results", what: str = "runs") -> pd.DataFrame:
    """The records of an output folder: a row per run, or `what` is `tasks` or `epochs`.

    `tasks` is R in long form, a row per accuracy, and `epochs` the learning curves, a row per
    epoch. Runs by earlier code have it in their names, like `mine@3f2a`. A damaged file costs a
    warning.
    """
    if what not in _FRAMES:
        raise unknown("frame", what, _FRAMES)
    if not named_path(str(path), "The folder").is_dir():
        raise UserError(f"There is no folder {path}: name the --out of a `clbench run`.")
    records, problems = Store(Path(path)).records()
    for problem in problems:
        warnings.warn(problem, stacklevel=2)
    read_again()  # this process may have run an earlier state of the same files
    return _FRAMES[what](records, today)


def runs_frame(records: Iterable[Record], known: Known = nothing) -> pd.DataFrame:
    """One row per record, by benchmark, method, seed and id.

    Numbers are NaN where a run is not done or is not counted (`fault` says why), so that a mean
    over rows never includes them. Memory is in MB of 10^6 bytes, time in seconds. The parameters
    are the columns `method.NAME`, `benchmark.NAME` and `protocol.NAME`.
    """
    rows = []
    for run in runs_of(records, known, trials=True):
        spec = run.spec
        row: dict[str, Any] = {name: getattr(run, name) for name in _RUN}
        row |= {c.field: run.values.get(key, math.nan) for key, c in COLUMNS.items()}
        row |= {
            "method_version": spec.method.version,
            "method_source": spec.method.source or "",
            "benchmark_version": spec.benchmark.version,
            "threads": spec.threads,
            "device": spec.device,
            "made_with": made_with([run]),
            "data_note": "; ".join(f"{name}: {run.notes[name]}" for name in sorted(run.notes)),
        }
        row |= {f"method.{name}": value for name, value in spec.method.params.items()}
        row |= {f"benchmark.{name}": value for name, value in spec.benchmark.params.items()}
        row |= {f"protocol.{name}": value for name, value in spec.protocol.items()}
        rows.append(row)
    return pd.DataFrame(rows)


def tasks_frame(records: Iterable[Record], known: Known = nothing) -> pd.DataFrame:
    """R in long form: the test accuracy (%) on `task` after learning task `after`, from 1."""
    columns = [*_ID, "after", "task", "accuracy"]
    records = [record for record in records if not record.spec.trial]
    names = _names(records, known)
    rows = [
        (*names[record.id], after, task, accuracy)
        for record in records
        for after, row in enumerate(record.R, 1)
        for task, accuracy in enumerate(row, 1)
        if accuracy is not None
    ]
    return pd.DataFrame(rows, columns=columns)


def epochs_frame(records: Iterable[Record], known: Known = nothing) -> pd.DataFrame:
    """The learning curves in long form: one row per epoch, tasks and epochs from 1."""
    columns = ["task", "epoch", "lr", "loss", "valid_loss", "valid_accuracy", "samples", "seconds"]
    records = list(records)
    names = _names(records, known)
    rows = [
        (*names[record.id], *(getattr(epoch, name) for name in columns))
        for record in records
        for epoch in record.curve
    ]
    return pd.DataFrame(rows, columns=[*_ID, *columns])


def rows_frame(records: Iterable[Record]) -> pd.DataFrame:
    """One row per row of the tables: means, sample standard deviations and the number of seeds."""
    rows = []
    for table in tables(records):
        for row in table.rows:
            names = ("benchmark", "method", "protocol")
            found: dict[str, Any] = {name: getattr(row.head, name) for name in names}
            found |= {"mark": row.mark, "family": row.head.family, "n": len(row.counted)}
            found["made_with"] = made_with(row.counted)
            for key, value in row.values().items():
                mean, std = (value.mean, value.std) if value else (math.nan, None)
                name = COLUMNS[key].field
                found |= {f"{name}_mean": mean, f"{name}_std": math.nan if std is None else std}
            rows.append(found)
    return pd.DataFrame(rows)


def _names(records: list[Record], known: Known) -> dict[str, tuple[str, str, str, int]]:
    runs = runs_of(records, known, trials=True)
    return {run.id: (run.id, run.benchmark, run.method, run.seed) for run in runs}


_FRAMES = {"runs": runs_frame, "tasks": tasks_frame, "epochs": epochs_frame}
