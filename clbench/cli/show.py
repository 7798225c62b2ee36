"""`clbench show`: everything about one method, benchmark or run."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from clbench.cli.options import json_option, out_option, subcommand
from clbench.data.catalog import READERS
from clbench.declare import Declaration
from clbench.errors import UserError, did_you_mean
from clbench.files import named_path
from clbench.labels import text
from clbench.protocol import PROTOCOL_DEFAULTS
from clbench.reading import read_declaration
from clbench.record import Record, Shown
from clbench.registry import declarations, installed
from clbench.store import Store
from clbench.width import fitted_table, terminal_width, wrap


@subcommand("show ewc", "show split-mnist-5k", "show 1a2b3c --out results")
@click.argument("name", metavar="METHOD|BENCHMARK|RUN")
@out_option
@json_option
def command(name: str, out: str, as_json: bool) -> None:
    """Show one method, benchmark or run (by the beginning of its id) in full."""
    methods, benchmarks = declarations("method"), declarations("benchmark")
    if name.endswith(".py"):
        _show_declaration(_read_file(named_path(name, "METHOD")), as_json)
    elif found := methods.get(name) or benchmarks.get(name):
        _show_declaration(found, as_json)
    elif said := installed("method").broken.get(name) or installed("benchmark").broken.get(name):
        raise UserError(said)
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
    except UserError:
        with contextlib.suppress(UserError):
            return read_declaration(path, "benchmark")
        raise


def _show_declaration(d: Declaration, as_json: bool) -> None:
    facts: dict[str, Any] = {"name": d.name, "title": d.title, "kind": d.kind}
    facts |= {
        key: d.meta[key]
        for key in (
            "family",
            "paper",
            "zero_forgetting",
            "zero_forgetting_if",
            "backbones",
            "scenario",
            "scenarios",
            "datasets",
            "backbone",
        )
        if key in d.meta
    }
    facts |= {"version": d.version, "file": str(d.path)}
    parameters = [
        {"parameter": f.name, "default": f.default, "must be": f.expected, "meaning": f.doc}
        for f in d.fields.values()
    ]
    protocol = dict(d.meta.get("protocol", {}))
    if d.kind == "benchmark":
        protocol = {k: v for k, v in (PROTOCOL_DEFAULTS | protocol).items() if v != ""}
    tuned = d.meta.get("tuned", {})
    if as_json:
        content = facts | {"doc": d.doc, "parameters": parameters}
        click.echo(
            json.dumps(
                content
                | {"protocol": protocol, "tuned": tuned, "search": d.meta.get("search", {})},
                indent=1,
            )
        )
        return
    width = terminal_width()
    click.echo("\n\n".join(wrap(part, width) for part in d.doc.split("\n\n")) + "\n")
    for key, value in facts.items():
        shown = ", ".join(value) if isinstance(value, tuple) else value
        if key == "zero_forgetting_if":
            key = "zero_forgetting"
            shown = "if " + " or ".join(f"{name}={text(one)}" for name, one in value.items())
        click.echo(wrap(f"{key.replace('_', ' '):16}{shown}", width, " " * 16))
    if parameters:
        rows = [list(row.values()) for row in parameters]
        headers = list(parameters[0])
        click.echo("\n" + fitted_table(rows, headers, prose={"must be", "meaning"}))
    if protocol:
        whose = "Protocol" if d.kind == "benchmark" else "Protocol values that the method requires"
        click.echo("\n" + wrap(f"{whose}: {_pairs(protocol)}", width, "  "))
    for key, why in d.meta.get("fixed", {}).items():
        click.echo(wrap(f"{key} must stay as it is: {why}", width, "  "))
    if search := d.meta.get("search"):
        listed = "; ".join(f"{name}: {words}" for name, words in search.items())
        click.echo(wrap(f"Searched by clbench tune: {listed}", width, "  "))
    for benchmark, values in tuned.items():
        click.echo(wrap(f"Tuned for {benchmark}: {_pairs(values)}", width, "  "))


def _show_run(record: Record, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(record), indent=1))
        return
    for name, value in _facts(record):
        click.echo(wrap(f"{name:16}{value}", terminal_width(), " " * 16))
    if record.R:
        rows = {f"after {k}": row for k, row in enumerate(record.R, 1)}
        columns = [f"task {i}" for i in range(1, record.tasks + 1)]
        data = "validation" if record.spec.trial else "test"
        title = f"R: {data} accuracy (%) on each task (columns), after learning each (rows)"
        _show_numbers(title, "", columns, rows, ".2f")
    if record.confusion:
        rows = {f"task {k}": [*row] for k, row in enumerate(record.confusion, 1)}
        columns = [f"classes of {i}" for i in range(1, record.tasks + 1)]
        title = "Answers (%) on the samples of each task (rows) that lie in each task's classes"
        _show_numbers(title, "", columns, rows, ".2f")
    _show_diagnostics(record)
    if record.failure:
        click.echo("\n" + record.failure.traceback)


def _facts(record: Record) -> Iterator[tuple[str, str]]:
    """Name and value of each line about a run."""
    from clbench.metrics import acc, bwt

    spec, spent, origin = record.spec, record.seconds, record.provenance
    yield "run", f"{record.id}  {record}"
    yield "status", f"{record.status}, {record.done} of {record.tasks} tasks"
    if record.status == "done":
        yield "ACC", f"{acc(record.R):.2f} %"
        yield "BWT", "\N{EN DASH}" if record.tasks == 1 else f"{bwt(record.R):.2f} %"
    kept = msgspec.structs.asdict(record.memory)
    sizes = ", ".join(f"{name} {size / 1e6:.2f} MB" for name, size in kept.items())
    yield "memory", f"{sizes}{' (found by clbench)' if record.memory_found else ''}"
    parts = f"{sum(spent.train):.1f} s training, {sum(spent.eval):.1f} s evaluation"
    yield "time", f"{spent.total:.1f} s ({parts}), {len(record.curve)} epochs"
    yield "peak memory", f"{record.peak_memory / 1e9:.2f} GB"
    for kind, part in (("method", spec.method), ("benchmark", spec.benchmark)):
        code = f", code {part.source[:12]}" if part.source else ""
        about = f"{part.name} version {part.version}{code}"
        yield kind, f"{about}, {_pairs(part.params) or 'no parameters'}"
    yield "protocol", _pairs(spec.protocol)
    if record.tuned:
        yield "tuned", record.tuned
    if spec.trial:
        yield "trial", f"of a search, on validation data of the first {spec.trial} tasks"
    if record.decided:
        yield "decided", f"by the method itself: {_pairs(record.decided)}"
    if record.starts_again:
        yield "resume", f"not possible: {record.starts_again}; an interrupted run starts again"
    yield "threads", f"{spec.threads} on {spec.device}"
    for name, used in record.data.items():
        known = READERS.get(name)
        note = used.note or (known.checked if known else "complete")
        yield "data", f"{name}: {note}, sha256 {used.sha256[:16]}"
    yield "versions", ", ".join(f"{k} {v}" for k, v in origin.versions.items())
    if origin.git:
        changed = ", with changes" if origin.git.dirty else ""
        yield "git", f"{origin.git.commit[:12]}{changed}"
    yield "machine", f"{origin.host}, {origin.cpu}, {origin.cores} cores"
    yield "when", f"{record.started} to {record.finished}"


def _show_diagnostics(record: Record) -> None:
    """What the method laid open after each task."""
    from clbench.report.words import shown_warnings

    shown, entries = record.lays_open, dict(enumerate(record.diagnostics, 1))
    if not entries:
        return
    names = [name for name, how in shown.items() if how.kind == "number"]
    if names:
        rows = {k: [entry.get(name) for name in names] for k, entry in entries.items()}
        _show_numbers("Diagnostics after each task", "after", names, rows)
        for name in names:
            click.echo(wrap(f"  {name}: {_title(shown[name])}", terminal_width(), "    "))
    for name in (name for name, how in shown.items() if how.kind == "layers"):
        rows = {k: entry.get(name) or [] for k, entry in entries.items()}
        columns = [f"layer {i}" for i in range(1, max(map(len, rows.values())) + 1)]
        _show_numbers(f"{_title(shown[name])}, after each task", "after", columns, rows)
    last = record.diagnostics[-1]
    for name, how in shown.items():
        if how.kind == "without" and last.get(name):
            parts = list(dict.fromkeys(part for row in last[name].values() for part in row))
            rows = {task: [row.get(part) for part in parts] for task, row in last[name].items()}
            _show_numbers(f"{_title(how)}, after the last task", "task", parts, rows)
    for sentence in shown_warnings(shown, [last]):
        click.echo(wrap(f"Warning: {sentence}", terminal_width()))


def _show_numbers(
    title: str,
    corner: str,
    columns: list[str],
    rows: Mapping[Any, Sequence[float | None]],
    form: str = ".4g",
) -> None:
    """A table of numbers, with a name for each row; what is missing stays empty."""
    table = [
        [key, *("" if n is None else f"{n:{form}}" for n in row), *[""] * (len(columns) - len(row))]
        for key, row in rows.items()
    ]
    headers = [corner, *columns]
    click.echo("\n" + wrap(title, terminal_width()))
    click.echo(fitted_table(table, headers, prose=(), right=headers))


def _title(shown: Shown) -> str:
    return f"{shown.title} ({shown.unit})" if shown.unit else shown.title


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items())
