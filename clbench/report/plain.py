"""Tables as data, for other programs: every column, means and standard deviations apart."""

import csv
import io
import json
from typing import Any

from clbench.report.columns import COLUMNS, MATRIX
from clbench.report.escape import csv_cell
from clbench.report.paper import NUMBERS
from clbench.report.runs import made_with
from clbench.report.table import Table

_SCHEMA = 1
_PUBLISHED = (*NUMBERS, "verdict", "difference", "deviations")
_DIGITS = 6  # far below what a measurement means, far above what arithmetic may differ by


def render_csv(table: Table) -> str:
    """One line per row of the table, one for the headings; an empty field is "no value". Text that
    begins like a formula has an apostrophe in front."""
    out = io.StringIO()
    names = ["benchmark", "method", "mark", "title", "family", "seeds", "n"]
    names += ["failed", "unfinished", "left_out", "zero_forgetting", "made_with"]
    for column in COLUMNS.values():
        names += [f"{column.field}_mean", f"{column.field}_std"]
    names += ["paper", *(f"paper_{name}" for name in _PUBLISHED)]
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    for row in _rows(table):
        flat = {key: value for key, value in row.items() if key in names}
        flat["seeds"] = " ".join(str(seed) for seed in row["seeds"])
        for name, value in row["values"].items():
            if value is not None:
                flat[f"{name}_mean"] = value["mean"]
                flat[f"{name}_std"] = value["std"]
        published = row["published"] or {}
        flat |= {f"paper_{name}": published.get(name) for name in _PUBLISHED}
        flat["paper"] = published.get("paper")
        writer.writerow({key: csv_cell(value) for key, value in flat.items()})
    return out.getvalue()


def render_json(table: Table) -> str:
    """The table with its caption and warnings; `null` is "no value"."""
    document = {
        "schema": _SCHEMA,
        "benchmark": table.benchmark,
        "title": table.title,
        "std": "sample standard deviation over the seeds of a row; null for one seed",
        "formulas": {"R": MATRIX[0]} | {c.field: c.formula for c in COLUMNS.values()},
        "caption": table.facts,
        "remarks": table.remarks,
        "warnings": table.warnings(),
        "rows": _rows(table),
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _rows(table: Table) -> list[dict[str, Any]]:
    rows = []
    for row in table.rows:
        run = row.head
        values = {
            COLUMNS[key].field: None
            if value is None
            else {"mean": _round(value.mean), "std": _round(value.std)}
            for key, value in row.values().items()
        }
        rows.append(
            {
                "benchmark": table.benchmark,
                "method": run.method,
                "mark": row.mark,
                "title": run.method_title,
                "family": run.family,
                "seeds": row.seeds,
                "n": len(row.seeds),
                "failed": sum(other.status == "failed" for other in row.others),
                "unfinished": sum(other.status == "partial" for other in row.others),
                "left_out": sum(other.status == "done" for other in row.others),
                "zero_forgetting": row.zero,
                "values": values,
                "published": table.versus and table.versus.beside(row),
                "setting": dict(sorted(run.setting.items())),
                "learner": dict(sorted(run.learner.items())),
                "data": dict(sorted(run.data.items())),
                "data_notes": dict(sorted(run.notes.items())),
                "made_with": made_with(row.counted),
                "runs": [counted.id for counted in row.counted],
            }
        )
    return rows


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS) + 0.0  # + 0.0: no minus zero
