"""`clbench ls`: what there is, one line each."""

import json
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import click

from clbench.cli.listing import listed
from clbench.cli.options import (
    existing_out,
    json_option,
    out_option,
    selection_options,
    subcommand,
)
from clbench.papers import Paper, shipped
from clbench.registry import FAMILIES, declarations
from clbench.store import Store
from clbench.width import fitted_table

_PROSE = {"table", "title", "data", "parameters", "about", "method", "protocol"}


@subcommand("ls methods", "ls benchmarks --json", "ls results --out results", "ls published")
@click.argument("what", type=click.Choice(["methods", "benchmarks", "results", "published"]))
@out_option
@selection_options
@json_option
def command(
    what: str, out: str, benchmarks: str | None, methods: str | None, as_json: bool
) -> None:
    """List methods, benchmarks, results or published tables. --methods and --benchmarks choose
    results."""
    if what == "results":
        rows, hidden = _results(Store(existing_out(out)), methods, benchmarks)
        for sentence in hidden:
            click.echo(sentence, err=True)
    elif what == "published":
        rows = [row for paper in shipped() for row in _tables(paper)]
    else:
        rows = _installed(what.removesuffix("s"))
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    elif rows:
        table = [[_one_line(value) for value in row.values()] for row in rows]
        click.echo(fitted_table(table, list(rows[0]), prose=_PROSE))
    else:
        click.echo(f"No results in {out} yet. `clbench run` makes some.")


def _one_line(value: Any) -> Any:
    """A short form of a list; `clbench show` has all of it."""
    if not isinstance(value, list):
        return value
    more = f", and {len(value) - 3} more" if len(value) > 4 else ""
    return ", ".join(map(str, value[:3] if more else value)) + more


def _installed(kind: str) -> list[dict[str, Any]]:
    """Methods by family, benchmarks by name."""
    rows = []
    for d in declarations(kind).values():
        row: dict[str, Any] = {"name": d.name, "title": d.title}
        if kind == "method":
            row["family"] = d.meta.get("family", "")
        else:
            row["data"] = list(d.meta.get("datasets", ()))
        row["parameters"] = [f"{f.name}={f.default}" for f in d.fields.values()]
        rows.append(row | {"about": d.doc.partition("\n")[0]})
    # a family of a plugin's own comes last
    rows.sort(key=lambda row: [*FAMILIES, row.get("family")].index(row.get("family")))
    return rows


def _tables(paper: Paper) -> Iterator[dict[str, Any]]:
    """A row per table and stream of a paper; tables without measured numbers are left out."""
    for name, table in paper.tables.items():
        rows = paper.rows_of(name)
        for benchmark, scenario in sorted({row.stream for row in rows}):
            mine = [row for row in rows if row.stream == (benchmark, scenario)]
            yield {
                "name": paper.name,
                "paper": paper.cite,
                "table": table.title,
                "benchmark": benchmark,
                "scenario": scenario,
                "tasks": sorted({row.tasks for row in mine}),
                "rows": len(mine),
            }


def _results(
    store: Store, methods: str | None, benchmarks: str | None
) -> tuple[list[dict[str, Any]], list[str]]:
    kept, hidden = listed(store, methods, benchmarks)
    rows = [
        {
            "id": run.id,
            "benchmark": run.labels["benchmark"],
            "method": run.labels["method"],
            "protocol": run.protocol,
            "seed": run.seed,
            "status": run.status,
            "tasks": f"{run.done}/{run.tasks}",
        }
        for run in kept
    ]
    rows.sort(key=itemgetter("benchmark", "method", "protocol", "seed"))
    return rows, hidden
