"""The content of the page as one JSON value: the tables of the other formats, and every run."""

import json
import math
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec

from clbench import __version__
from clbench.record import Epoch, Record
from clbench.report import latex, plain
from clbench.report.columns import COLUMNS, MATRIX
from clbench.report.escape import clean, slug
from clbench.report.runs import Run
from clbench.report.table import Table, best
from clbench.report.words import shown_warnings, spread

EPOCHS = 60_000
"""How many epochs of training curves one page holds before they are thinned out."""


def content(tables: list[Table], records: Iterable[Record], version: str = "") -> dict[str, Any]:
    """All content of the page; `version` changes whenever the records change."""
    runs = [run for t in tables for row in t.rows for run in [*row.counted, *row.others]]
    shown = {run.id: run for run in runs}
    epochs = sum(run.epochs for run in shown.values())
    every = max(1, math.ceil(epochs / EPOCHS))
    pool: dict[str, int] = {}
    entries = {
        name: _run(shown[name], record, every)
        for record in records
        if (name := clean(record.id)) in shown
    }
    thinned = (
        f"This page holds {len(shown):,} runs with {epochs:,} epochs: training curves show "
        f"one epoch in {every} and the last of each task."
    )
    return {
        "schema": 1,
        "version": version,
        "clbench": __version__,
        "columns": [
            {"key": c.key, "heading": c.heading, "formula": c.formula, "best": c.best}
            for c in COLUMNS.values()
        ],
        "shown": [c.key for c in tables[0].columns if not c.published] if tables else [],
        "notes": [thinned] if every > 1 else [],
        "benchmarks": [_benchmark(table, entries, pool) for table in tables],
        "pool": [json.loads(text) for text in pool],
    }


def _benchmark(
    table: Table, entries: dict[str, dict[str, Any]], pool: dict[str, int]
) -> dict[str, Any]:
    """A table and its runs; `pool` gets the facts that many runs share, each with its place."""
    always = replace(table, columns=[]).warnings()
    of_column = {
        key: [w for w in replace(table, columns=[column]).warnings() if w not in always]
        for key, column in COLUMNS.items()
    }
    versus = table.versus
    columns = versus.columns(COLUMNS) if versus else []
    bold = set(best(table.rows, list(COLUMNS.values())))
    rows = []
    for number, row in enumerate(table.rows):
        runs = sorted([*row.counted, *row.others], key=lambda run: (run.seed, run.id))
        found = []
        for entry in [entries[run.id] for run in runs if run.id in entries]:
            facts = entry["facts"].items()
            places = {name: pool.setdefault(text, len(pool)) for name, text in facts}
            found.append(entry | {"facts": places})
        if not found:
            continue  # its files are gone since the table was made
        published = versus and versus.beside(row)
        shown = {c.key: table.show(row, c, " ± {}") for c in columns} if published else {}
        rows.append(
            {
                "name": row.name,
                "title": row.head.method_title,
                "family": row.head.family,
                "rule": table.new_block(number),
                "seeds": len(row.counted),
                "values": {
                    key: [
                        table.show(row, column, " ± {}"),
                        _round(value.mean if (value := row.value(key)) else None, 6),
                    ]
                    for key, column in COLUMNS.items()
                },
                "best": [key for key in COLUMNS if (number, key) in bold],
                "published": published and published | {"shown": shown},
                "runs": found,
            }
        )
    return {
        "name": table.benchmark,
        "title": table.title,
        "file": f"table-{slug(table.benchmark)}",
        "unit": table.unit[1],
        "caption": [spread(table.rows, "a ± b"), *table.facts],
        "paper": {
            "cite": versus.paper.cite if versus else "",
            "columns": [
                {"key": c.key, "heading": c.heading, "formula": c.formula} for c in columns
            ],
        },
        "remarks": [
            versus.remarks(table.rows, intransigence) if versus else []
            for intransigence in (False, True)
        ],
        "matrix": MATRIX[0],
        "bold": "Bold: best of a column, references aside." if bold else "",
        "warnings": always,
        "column_warnings": {key: words for key, words in of_column.items() if words},
        "latex": latex.render(table),
        "csv": plain.render_csv(table),
        "rows": rows,
    }


def _run(run: Run, record: Record, every: int) -> dict[str, Any]:
    """One entry under a row: its measurements, and what it was made with and by."""
    spec = record.spec
    facts = {
        "Method": spec.method,
        "Benchmark": spec.benchmark,
        "Protocol": spec.protocol,
        "Machine": {"threads": spec.threads, "device": spec.device},
        "Data": record.data,
        "Provenance": record.provenance,
    }
    return {
        "id": run.id,
        "seed": run.seed,
        "status": run.status,
        "fault": run.fault,
        "tasks": run.tasks,
        "done": run.done,
        "values": {key: _round(value, 6) for key, value in run.values.items()},
        "R": [_accuracies(row) for row in record.R],
        "confusion": [[_round(share, 3) for share in row] for row in record.confusion],
        "curve": _curve(record.curve, every),
        "train": [round(value, 3) for value in record.seconds.train],
        "eval": [round(value, 3) for value in record.seconds.eval],
        "memory": msgspec.to_builtins(record.memory),
        "peak": record.peak_memory,
        "started": record.started,
        "finished": record.finished,
        # the same text in many runs is one object
        "facts": {
            name: sys.intern(msgspec.json.encode(value).decode()) for name, value in facts.items()
        },
        "failure": record.failure.traceback or record.failure.error if record.failure else "",
        "shown": _shown(run, record),
        "warnings": shown_warnings(run.lays_open, [run.numbers]),
    }


def _shown(run: Run, record: Record) -> list[dict[str, Any]]:
    """What the method lays open: a value per task, or for `without` only the last."""
    found = []
    for key, shown in run.lays_open.items():
        values = [entry.get(key) for entry in record.diagnostics]
        if shown.kind == "without":
            values = values[-1:]
        if shown.kind != "spaces" and any(value is not None for value in values):
            found.append(
                {"title": shown.title, "kind": shown.kind, "unit": shown.unit, "values": values}
            )
    return found


def _curve(epochs: list[Epoch], every: int) -> dict[str, Any] | None:
    """Validation accuracy, if there is any, and training loss of every `every`th epoch, and of each
    task's last."""
    last = len(epochs) - 1
    kept = [
        (at, epoch)
        for at, epoch in enumerate(epochs)
        if not at % every or at == last or epochs[at + 1].task != epoch.task
    ]
    if not kept:
        return None
    accuracies = [_round(epoch.valid_accuracy, 3) for _, epoch in kept]
    return {
        "at": [at + 1 for at, _ in kept],
        "task": [epoch.task for _, epoch in kept],
        "epoch": [epoch.epoch for _, epoch in kept],
        "accuracy": accuracies if any(value is not None for value in accuracies) else None,
        "loss": [_round(epoch.loss, 4) for _, epoch in kept],
    }


def _accuracies(row: list[float | None]) -> list[float | None]:
    """A row of R without the empty places at its end."""
    numbers = [_round(value, 3) for value in row]
    while numbers and numbers[-1] is None:
        numbers.pop()
    return numbers


def _round(value: float | None, digits: int) -> float | None:
    """A number without a minus zero; None for NaN or infinity, which JSON does not have."""
    return None if value is None or not math.isfinite(value) else round(value, digits) + 0.0
