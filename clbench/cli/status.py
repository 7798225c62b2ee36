"""`clbench status`: where every run of an output folder stands."""

import json
from collections import Counter

import click
from tabulate import tabulate

from clbench.cli.options import existing_out, json_option, out_option
from clbench.store import Store


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
    cells: dict[tuple[str, str, str], list[tuple[int, str]]] = {}
    words: list[str] = []
    rows = []
    for record in store.each(problems):
        word = record["status"]
        if word != "done" and store.is_running(record["id"]):
            word = "running"
        words.append(word)
        seed = record["spec"]["seed"]
        rows.append({"id": record["id"], "status": word, "seed": seed} | record["labels"])
        rows[-1] |= {"done": record["done"], "tasks": record["tasks"]}
        labels = record["labels"]
        text = word
        if word != "done":
            text += f" {record['done']}/{record['tasks']}"
        key = (labels["benchmark"], labels["method"], labels["protocol"])
        cells.setdefault(key, []).append((seed, text))
    known = {row["id"] for row in rows}
    # a run that has not finished its first task has a lease and no record yet
    starting = [i for i in store.running() if i not in known]
    if as_json:
        click.echo(json.dumps({"runs": rows, "starting": starting}, indent=1))
        return
    if cells:
        table = [
            (*key, ", ".join(f"{seed}: {text}" for seed, text in sorted(seeds)))
            for key, seeds in sorted(cells.items())
        ]
        headers = ("benchmark", "method", "protocol", "seed: state")
        click.echo(tabulate(table, headers, disable_numparse=True))
        click.echo()
    counts = Counter(words) + Counter({"in their first task": len(starting)})
    order = ("done", "running", "partial", "failed", "in their first task")
    said = [f"{counts[word]} {word}" for word in order if counts[word]]
    click.echo(f"{out}: {', '.join(said) or 'no runs yet; `clbench run` makes some'}.")
    for problem in problems:
        click.echo(f"Warning: {problem}", err=True)
