"""`clbench show`: everything about one method, benchmark or run."""

import json
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from clbench.cli.options import json_option, out_option
from clbench.declare import Declaration
from clbench.errors import UserError, did_you_mean
from clbench.protocol import PROTOCOL_DEFAULTS
from clbench.reading import read_declaration
from clbench.registry import declarations
from clbench.store import Store


@click.command(
    epilog="""\b
Examples:
  clbench show ewc
  clbench show split-mnist-5k
  clbench show 1a2b3c --out results
"""
)
@click.argument("name", metavar="METHOD|BENCHMARK|RUN")
@out_option
@json_option
def command(name: str, out: str, as_json: bool) -> None:
    """Show one method, benchmark or run (by the beginning of its id) in full."""
    methods, benchmarks = declarations("method"), declarations("benchmark")
    if name.endswith(".py"):
        _show_declaration(_read_file(Path(name)), as_json)
    elif name in methods or name in benchmarks:
        _show_declaration(methods.get(name) or benchmarks[name], as_json)
    elif (Path(out) / "records").is_dir() and set(name) <= set("0123456789abcdef"):
        _show_run(Store(Path(out)).find(name), as_json)
    else:
        close = did_you_mean(name, [*methods, *benchmarks])
        raise UserError(
            f"{name!r} is no method, no benchmark and no run in {out}.{close} "
            "`clbench ls methods`, `ls benchmarks` and `ls results` list what there is."
        )


def _read_file(path: Path) -> Declaration:
    try:
        return read_declaration(path, "method")
    except UserError as error:
        try:
            return read_declaration(path, "benchmark")
        except UserError:
            raise error from None


def _show_declaration(d: Declaration, as_json: bool) -> None:
    facts: dict[str, Any] = {"name": d.name, "title": d.title, "kind": d.kind}
    facts |= {
        key: d.meta[key]
        for key in ("family", "paper", "zero_forgetting", "backbones", "datasets", "backbone")
        if key in d.meta
    }
    facts |= {"version": d.version, "file": str(d.path)}
    parameters = [
        {"parameter": f.name, "default": f.default, "must be": f.expected, "meaning": f.doc}
        for f in d.fields.values()
    ]
    protocol = dict(d.meta.get("protocol", {}))
    if d.kind == "benchmark":
        protocol = PROTOCOL_DEFAULTS | protocol
    tuned = d.meta.get("tuned", {})
    if as_json:
        content = facts | {"doc": d.doc, "parameters": parameters}
        click.echo(json.dumps(content | {"protocol": protocol, "tuned": tuned}, indent=1))
        return
    click.echo(f"{d.doc}\n")
    for key, value in facts.items():
        shown = ", ".join(value) if isinstance(value, tuple) else value
        click.echo(f"{key.replace('_', ' '):16}{shown}")
    if parameters:
        click.echo("\n" + tabulate(parameters, headers="keys", disable_numparse=True))
    if protocol:
        whose = "Protocol" if d.kind == "benchmark" else "What it demands of the protocol"
        click.echo(f"\n{whose}: " + ", ".join(f"{k}={v}" for k, v in protocol.items()))
    for key, why in d.meta.get("fixed", {}).items():
        click.echo(f"{key} must stay as it is: {why}")
    for benchmark, values in tuned.items():
        click.echo(f"Tuned for {benchmark}: " + ", ".join(f"{k}={v}" for k, v in values.items()))


def _show_run(record: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(record, indent=1))
        return
    from clbench.metrics import acc, bwt

    spec, labels, seconds = record["spec"], record["labels"], record["seconds"]
    click.echo(
        f"{labels['benchmark']} {labels['method']} seed {spec['seed']}  (run {record['id']})"
    )
    click.echo(f"status          {record['status']}, {record['done']} of {record['tasks']} tasks")
    if record["status"] == "done":
        click.echo(f"ACC             {acc(record['R']):.2f} %")
        if (value := bwt(record["R"])) is not None:
            click.echo(f"BWT             {value:.2f} %")
    memory = ", ".join(f"{k} {v / 1e6:.2f} MB" for k, v in record["memory"].items())
    click.echo(f"memory          {memory}")
    click.echo(
        f"time            {seconds['total']:.1f} s ({sum(seconds['train']):.1f} s training, "
        f"{sum(seconds['eval']):.1f} s evaluation), {len(record['curve'])} epochs"
    )
    click.echo(f"peak memory     {record.get('peak_memory', 0) / 1e9:.2f} GB")
    for kind in ("method", "benchmark"):
        params = ", ".join(f"{k}={v}" for k, v in spec[kind]["params"].items()) or "no parameters"
        click.echo(f"{kind:16}{spec[kind]['name']} version {spec[kind]['version']}, {params}")
    click.echo("protocol        " + ", ".join(f"{k}={v}" for k, v in spec["protocol"].items()))
    click.echo(f"threads         {spec['threads']} on {spec['device']}")
    for name, source in record["data"].items():
        note = source["note"] or "official and complete"
        click.echo(f"data            {name}: {note}, sha256 {source['sha256'][:16]}")
    origin = record["provenance"]
    versions = ", ".join(f"{k} {v}" for k, v in origin["versions"].items())
    click.echo(f"versions        {versions}")
    if origin["git"]:
        changed = ", with changes" if origin["git"]["dirty"] else ""
        click.echo(f"git             {origin['git']['commit'][:12]}{changed}")
    click.echo(f"machine         {origin['host']}, {origin['cpu']}, {origin['cores']} cores")
    click.echo(f"when            {record['started']} to {record['finished']}")
    if record["R"]:
        click.echo("\nR: test accuracy (%) on each task (columns), after learning each (rows)")
        width = range(1, record["tasks"] + 1)
        rows = [
            [f"after {k}"] + ["" if v is None else f"{v:.2f}" for v in row]
            for k, row in enumerate(record["R"], 1)
        ]
        headers = ["", *(f"task {i}" for i in width)]
        click.echo(tabulate(rows, headers, disable_numparse=True, stralign="right"))
    _show_diagnostics(record)
    if record["failure"]:
        click.echo("\n" + record["failure"]["traceback"])


def _show_diagnostics(record: dict[str, Any]) -> None:
    """What the method laid open after each task; for ACL, what each branch carries."""
    from clbench.report.diagnosis import IDLE, idle_words, shared_cost

    plain = [
        {k: v for k, v in entry.items() if not isinstance(v, dict)}
        for entry in record["diagnostics"]
    ]
    if any(plain):
        click.echo("\nDiagnostics after each task")
        rows = [{"after": k} | entry for k, entry in enumerate(plain, 1)]
        click.echo(tabulate(rows, headers="keys", floatfmt=".3g"))
    last = record["diagnostics"][-1].get("without") if record["diagnostics"] else None
    if last:
        click.echo("\nTest accuracy (%) after the last task, with a branch taken away")
        rows = [{"task": task} | row for task, row in last.items()]
        click.echo(tabulate(rows, headers="keys", floatfmt=".2f"))
        if (cost := shared_cost(record)) < IDLE:
            click.echo(idle_words(cost).capitalize())
