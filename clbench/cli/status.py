"""`clbench status`: where every run of an output folder stands."""

import json
from collections import Counter
from typing import Any

import click

from clbench.cli.options import existing_out, json_option, out_option, subcommand, warn
from clbench.store import Store
from clbench.width import fitted_table


@subcommand("status", "status --out results --json")
@out_option
@json_option
def command(out: str, as_json: bool) -> None:
    """Show which runs are done, running, partial (at task k of T) or failed."""
    store = Store(existing_out(out))
    problems: list[str] = []
    counts: Counter[str] = Counter()
    states: dict[tuple[str, str, str], list[tuple[int, str]]] = {}
    runs: list[dict[str, Any]] = []
    for record in store.each(problems):
        word: str = record.status
        if word != "done" and store.is_running(record.id):
            word = "running"
        counts[word] += 1
        seed, key = record.spec.seed, (record.benchmark, record.method, record.protocol)
        if as_json:
            labels = dict(zip(("benchmark", "method", "protocol"), key, strict=True))
            facts = {"id": record.id, "status": word, "seed": seed} | labels
            runs.append(facts | {"done": record.done, "tasks": record.tasks})
        text = word if word == "done" else f"{word} {record.done}/{record.tasks}"
        states.setdefault(key, []).append((seed, text))
    if as_json:
        click.echo(json.dumps({"runs": runs}, indent=1))
    else:
        if states:
            rows = [
                (*key, ", ".join(f"{seed}: {text}" for seed, text in sorted(found)))
                for key, found in sorted(states.items())
            ]
            headers = ("benchmark", "method", "protocol", "seed: state")
            click.echo(fitted_table(rows, headers, prose={"protocol", "seed: state"}))
            click.echo()
        order = ("done", "running", "partial", "failed")
        said = [f"{counts[word]} {word}" for word in order if counts[word]]
        click.echo(f"{out}: {', '.join(said) or 'no runs yet; `clbench run` makes some'}.")
    warn(problems)
