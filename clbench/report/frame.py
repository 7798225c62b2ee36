"""Records as pandas DataFrames, for a notebook: one row per run, or one per row of a table."""

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from clbench.errors import UserError
from clbench.report.columns import COLUMNS
from clbench.report.runs import runs_of
from clbench.report.table import tables
from clbench.store import Store

_RUN = ["benchmark", "method", "protocol", "seed", "id", "status", "fault"]
_RUN += ["family", "benchmark_title", "method_title", "zero_forgetting", "tasks", "done"]


def load(path: str | Path = "results") -> pd.DataFrame:
    """The runs of an output folder, one a row; a file that is no record is warned of."""
    if not Path(path).is_dir():
        raise UserError(f"There is no folder {path}: name the --out of a `clbench run`.")
    records, problems = Store(Path(path)).records()
    for problem in [*problems, *runs_of(records)[1]]:
        warnings.warn(problem, stacklevel=2)
    return runs_frame(records)


def runs_frame(records: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """One row per record, by benchmark, method, seed and id.

    Numbers are NaN where a run is not done or its accuracies cannot be used (`fault` says why),
    so that a mean over rows never counts them. Memory is in MB of 10^6 bytes, time in seconds.
    """
    rows = []
    for run in runs_of(records)[0]:
        row: dict[str, Any] = {name: getattr(run, name) for name in _RUN}
        row |= {c.field: run.values.get(key, float("nan")) for key, c in COLUMNS.items()}
        row |= {
            "method_version": run.learner.get("version", ""),
            "method_source": run.learner.get("source", ""),
            "benchmark_version": run.setting.get("benchmark.version", ""),
            "threads": run.setting.get("threads", ""),
            "device": run.setting.get("device", ""),
            "data_note": "; ".join(f"{name}: {run.notes[name]}" for name in sorted(run.notes)),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def cells_frame(records: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """One row per row of the tables: means, sample standard deviations and the seeds counted."""
    rows = []
    for table in tables(records):
        for cell in table.cells:
            row: dict[str, Any] = {
                "benchmark": table.benchmark,
                "method": cell.head.method,
                "protocol": cell.head.protocol,
                "mark": cell.mark,
                "family": cell.head.family,
                "n": len(cell.counted),
            }
            for key, value in cell.values().items():
                name = COLUMNS[key].field
                row[f"{name}_mean"] = float("nan") if value is None else value.mean
                std = None if value is None else value.std
                row[f"{name}_std"] = float("nan") if std is None else std
            rows.append(row)
    return pd.DataFrame(rows)
