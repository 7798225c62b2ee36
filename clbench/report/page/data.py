"""What the page shows, as one JSON value: the tables of the other formats, and every run in them.

`Run` has been checked key by key; the rest of a record has not, so whatever is read here from the
raw JSON may be missing or of another type, and is then left out.
"""

import json
import math
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from clbench import __version__
from clbench.report import latex, plain
from clbench.report.cells import Cell
from clbench.report.columns import COLUMNS, MATRIX, PAPER
from clbench.report.diagnosis import IDLE, idle_words, shared_cost
from clbench.report.escape import clean, slug
from clbench.report.paper import beside, remarks
from clbench.report.runs import Run
from clbench.report.table import Table, best
from clbench.report.words import spread

EPOCHS = 60_000
"""How many epochs of training curves one page holds before they are thinned out."""
_DEEP = 20  # levels of nesting that are shown


def content(
    tables: list[Table], records: Iterable[dict[str, Any]], version: str = ""
) -> dict[str, Any]:
    """All that the page draws; `version` tells one state of the records from another."""
    runs = [run for t in tables for cell in t.cells for run in [*cell.counted, *cell.others]]
    shown = {run.id: run for run in runs}
    epochs = sum(run.epochs for run in shown.values())
    every = max(1, math.ceil(epochs / EPOCHS))
    entries = {
        name: _run(shown[name], record, every)
        for record in records
        if (name := clean(str(record.get("id")))) in shown
    }
    for name in shown.keys() - entries.keys():  # a file that is gone since
        entries[name] = _run(shown[name], {}, every)
    pool = _Pool()
    notes = []
    if every > 1:
        notes.append(
            f"This page holds {len(shown):,} runs with {epochs:,} epochs: training curves show "
            f"one epoch in {every} and the last of each task."
        )
    benchmarks = [_benchmark(table, entries, pool) for table in tables]
    return {
        "schema": 1,
        "version": version,
        "clbench": __version__,
        "columns": [
            {"key": c.key, "heading": c.heading, "formula": c.formula, "best": c.best}
            for c in COLUMNS.values()
        ],
        "paper": [{"key": c.key, "heading": c.heading, "formula": c.formula} for c in PAPER],
        "shown": [c.key for c in tables[0].columns if c not in PAPER] if tables else [],
        "notes": notes,
        "benchmarks": benchmarks,
        "pool": pool.values,
    }


class _Pool:
    """Values that many runs share, each kept once: a run holds their places."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[str, int] = {}

    def put(self, text: str) -> int:
        """The place of a value, given as JSON."""
        place = self._places.setdefault(text, len(self.values))
        if place == len(self.values):
            self.values.append(json.loads(text))
        return place


def _benchmark(table: Table, entries: dict[str, dict[str, Any]], pool: _Pool) -> dict[str, Any]:
    always = replace(table, columns=[]).warnings()
    of_column = {
        key: [w for w in replace(table, columns=[column]).warnings() if w not in always]
        for key, column in COLUMNS.items()
    }
    bold = set(best(table.cells, list(COLUMNS.values())))
    rows = []
    for number, cell in enumerate(table.cells):
        values = cell.values()
        runs = sorted([*cell.counted, *cell.others], key=lambda run: (run.seed, run.id))
        rows.append(
            {
                "name": cell.name,
                "title": cell.head.method_title,
                "family": cell.head.family,
                "rule": table.new_block(number),
                "seeds": len(cell.counted),
                "values": {
                    key: [table.show(cell, column, " ± {}"), _round(value and value.mean, 6)]
                    for (key, value), column in zip(values.items(), COLUMNS.values(), strict=True)
                },
                "best": [key for key in COLUMNS if (number, key) in bold],
                "published": _published(table, cell),
                "runs": [_pooled(entries[run.id], pool) for run in runs],
            }
        )
    return {
        "name": table.benchmark,
        "title": table.title,
        "file": f"table-{slug(table.benchmark)}",
        "unit": table.unit[1],
        "caption": [spread(table.cells, "a ± b"), *table.facts],
        "remarks": [remarks(table.cells, intransigence) for intransigence in (False, True)],
        "matrix": MATRIX[0],
        "bold": "Bold: best of a column, references aside." if bold else "",
        "warnings": always,
        "column_warnings": {key: words for key, words in of_column.items() if words},
        "latex": latex.render(table),
        "csv": plain.render_csv(table),
        "rows": rows,
    }


def _published(table: Table, cell: Cell) -> dict[str, Any] | None:
    """What the paper has in this row, to sort by and as the other formats print it."""
    found = beside(cell)
    if found is None:
        return None
    return found | {"shown": {c.key: table.show(cell, c, " ± {}") for c in PAPER}}


def _pooled(entry: dict[str, Any], pool: _Pool) -> dict[str, Any]:
    return entry | {"facts": {name: pool.put(text) for name, text in entry["facts"].items()}}


def _run(run: Run, record: dict[str, Any], every: int) -> dict[str, Any]:
    """One entry under a row: what was measured, and what it was made with and by."""
    spec, failure = _dict(record.get("spec")), _dict(record.get("failure"))
    seconds = _dict(record.get("seconds"))
    facts = {
        "Method": spec.get("method"),
        "Benchmark": spec.get("benchmark"),
        "Protocol": spec.get("protocol"),
        "Machine": {"threads": spec.get("threads"), "device": spec.get("device")},
        "Data": record.get("data"),
        "Provenance": record.get("provenance"),
    }
    return {
        "id": run.id,
        "seed": run.seed,
        "status": run.status,
        "fault": run.fault,
        "tasks": run.tasks,
        "done": run.done,
        "values": {key: _round(run.values.get(key), 6) for key in COLUMNS if key in run.values},
        "R": [_numbers(row, 3) for row in _list(run.R)],
        "curve": _curve(_list(record.get("curve")), every),
        "train": _numbers(seconds.get("train"), 3),
        "eval": _numbers(seconds.get("eval"), 3),
        "memory": _plain(_dict(record.get("memory"))),
        "peak": _round(record.get("peak_memory"), 0),
        "started": _plain(record.get("started")),
        "finished": _plain(record.get("finished")),
        # the same text in many runs is one object
        "facts": {
            name: sys.intern(json.dumps(_plain(value))) for name, value in facts.items() if value
        },
        "failure": _plain(failure.get("traceback") or failure.get("error")),
    } | _diagnosis(record)


def _diagnosis(record: dict[str, Any]) -> dict[str, Any]:
    """What the method laid open after each task; for ACL, what each branch carries at the end."""
    entries = [entry for entry in _list(record.get("diagnostics")) if isinstance(entry, dict)]
    if not entries:
        return {}
    scalars = [{k: _plain(v, 6) for k, v in e.items() if not isinstance(v, dict)} for e in entries]
    found: dict[str, Any] = {"diagnostics": scalars} if any(scalars) else {}
    if without := _dict(entries[-1].get("without")):
        found["without"] = _plain(without, 6)
        try:
            cost = shared_cost(record)
        except (KeyError, TypeError, ValueError, AttributeError):
            cost = math.nan
        if cost < IDLE:
            found["idle"] = idle_words(cost)
    return found


def _curve(entries: list[Any], every: int) -> dict[str, list[Any]] | None:
    """Validation accuracy and training loss per epoch, of every `every`th epoch."""
    kept: dict[str, list[Any]] = {"at": [], "task": [], "epoch": [], "accuracy": [], "loss": []}
    tasks = [_dict(entry).get("task") for entry in entries]
    for at, entry in enumerate(entries):
        last = at == len(entries) - 1 or tasks[at + 1] != tasks[at]
        if not isinstance(entry, dict) or (at % every and not last):
            continue
        kept["at"].append(at + 1)
        kept["task"].append(_round(tasks[at], 0))
        kept["epoch"].append(_round(entry.get("epoch"), 0))
        kept["accuracy"].append(_round(entry.get("valid_accuracy"), 3))
        kept["loss"].append(_round(entry.get("loss"), 4))
    return kept if kept["at"] else None


def _numbers(values: Any, digits: int) -> list[float | None]:
    """A list of numbers with None for what is not one, without the Nones at its end."""
    numbers = [_round(value, digits) for value in _list(values)]
    while numbers and numbers[-1] is None:
        numbers.pop()
    return numbers


def _round(value: Any, digits: int) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        return None  # also NaN, and an integer that no float holds
    return round(value, digits) + 0 if digits else int(value)  # + 0: no minus zero


def _plain(value: Any, significant: int = 17, depth: int = 0) -> Any:
    """A JSON value that every browser reads: no NaN, no infinity, no bottomless nesting."""
    if depth > _DEEP:
        return "..."
    if isinstance(value, dict):
        return {str(k): _plain(v, significant, depth + 1) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v, significant, depth + 1) for v in value]
    if isinstance(value, float):
        return float(f"{value:.{significant}g}") if math.isfinite(value) else str(value)
    return value


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
