"""`clbench status`: where every run of an output folder stands."""

import json
from collections import Counter
from typing import Any

import click

from clbench.cli.options import existing_out, json_option, out_option
from clbench.store import Store
from clbench.width import fitted_table


@click.command(
    epilog="""\b
Examples:
  clbench status
  clbench status --out results --json
"""
)
@out_option
@json_option
def command(out: str, as_json: bool) -> None:
    """Show which runs are done, running, partial (at task k of T) or failed."""
    store = Store(existing_out(out))
    problems: list[str] = []
    counts: Counter[str] = Counter()
    seeds: dict[tuple[str, str, str], list[tuple[int, str]]] = {}
    runs: list[dict[str, Any]] = []
    starting = set(store.running())  # of them, those without a record are opening their data
    for record in store.each(problems):
        starting.discard(record.id)
        word: str = record.status
        if word != "done" and store.is_running(record.id):
            word = "running"
        counts[word] += 1
        labels = {
            "benchmark": record.benchmark,
            "method": record.method,
            "protocol": record.protocol,
        }
        if as_json:
            facts = {"id": record.id, "status": word, "seed": record.spec.seed} | labels
            runs.append(facts | {"done": record.done, "tasks": record.tasks})
        text = word if word == "done" else f"{word} {record.done}/{record.tasks}"
        key = (record.benchmark, record.method, record.protocol)
        seeds.setdefault(key, []).append((record.spec.seed, text))
    if as_json:
        click.echo(json.dumps({"runs": runs, "starting": sorted(starting)}, indent=1))
    else:
        if seeds:
            rows = [(*key, _listed(found)) for key, found in sorted(seeds.items())]
            headers = ("benchmark", "method", "protocol", "seed: state")
            click.echo(fitted_table(rows, headers, prose={"protocol", "seed: state"}))
            click.echo()
        counts["starting"] = len(starting)
        order = ("done", "running", "starting", "partial", "failed")
        said = [f"{counts[word]} {word}" for word in order if counts[word]]
        click.echo(f"{out}: {', '.join(said) or 'no runs yet; `clbench run` makes some'}.")
    for problem in problems:
        click.echo(f"Warning: {problem}", err=True)


def _listed(seeds: list[tuple[int, str]]) -> str:
    return ", ".join(f"{seed}: {text}" for seed, text in sorted(seeds))
