"""`clbench status`: where every run of an output folder stands."""

import json
from collections import Counter
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
from clbench.store import Store
from clbench.width import fitted_table


@subcommand("status", "status --methods '*@*'", "status --out results --json")
@out_option
@selection_options
@json_option
def command(out: str, benchmarks: str | None, methods: str | None, as_json: bool) -> None:
    """Show which runs are done, running, partial (at task k of T) or failed."""
    store = Store(existing_out(out))
    counts: Counter[str] = Counter()
    states: dict[tuple[str, str, str], list[tuple[int, str]]] = {}
    runs: list[dict[str, Any]] = []
    kept, hidden = listed(store, methods, benchmarks)
    for run in kept:
        word: str = run.status
        if word != "done" and store.is_running(run.id):
            word = "running"
        counts[word] += 1
        key = (run.labels["benchmark"], run.labels["method"], run.protocol)
        if as_json:
            labels = dict(zip(("benchmark", "method", "protocol"), key, strict=True))
            facts = {"id": run.id, "status": word, "seed": run.seed} | labels
            runs.append(facts | {"done": run.done, "tasks": run.tasks})
        text = word if word == "done" else f"{word} {run.done}/{run.tasks}"
        states.setdefault(key, []).append((run.seed, text))
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
    for sentence in hidden:
        click.echo(sentence, err=True)
