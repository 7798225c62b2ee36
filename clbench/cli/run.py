"""`clbench run`: train what is missing of a grid, show progress, print the table."""

import importlib
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import click

from clbench import data
from clbench.cli.options import Training, parse_seeds, training_options
from clbench.errors import UserError, unknown
from clbench.grid import make_grid, state_of, to_run
from clbench.protocol import PROTOCOL_FIELDS
from clbench.registry import refuse_files
from clbench.spec import Cell
from clbench.store import Place, Store

DEFAULT_METHODS = "finetune,ewc,agem,er-res,joint"
DEFAULT_BENCHMARK = "split-mnist-5k"
REFERENCE_COLUMNS = ("intransigence", "mean-intransigence")


def _read_config(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Make the keys of a TOML file the defaults of the flags of the same names."""
    if value is None:
        return
    try:
        content = tomllib.loads(Path(value).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"--config {value}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"--config {value} is not valid TOML: {error}") from None
    flags = {
        str(p.name): max(p.opts, key=len).removeprefix("--")
        for p in ctx.command.params
        if isinstance(p, click.Option) and p.name not in ("config", "help")
    }
    names = {flag: name for name, flag in flags.items()}
    defaults: dict[str, Any] = {}
    engine = content.get("executor")
    if isinstance(engine, dict):  # its `name` is the flag --executor
        named = {"executor": engine.pop("name")} if "name" in engine else {}
        content = {k: v for k, v in content.items() if k != "executor"} | named | engine
    for key, setting in content.items():
        flag = key.replace("_", "-")
        if flag not in names:
            raise unknown(f"key in {value}:", key, names)
        if isinstance(setting, dict):
            raise UserError(f"--config {value}: {key} must be a value or a list, not a table.")
        # with a comma at the end: `seeds = [7]` is seed 7, `seeds = 7` is seven seeds
        plain = "".join(f"{s}," for s in setting) if isinstance(setting, list) else setting
        if flag in ("methods", "benchmarks"):
            refuse_files(str(plain), f"--config {value}", f"name it by --{flag}")
        if flag == "ray-address":
            why = "whoever runs a Ray cluster can run code here"
            raise UserError(f"--config {value}: {why}: name it by --ray-address.")
        if flag == "out" and (Path(str(plain)).is_absolute() or ".." in Path(str(plain)).parts):
            raise UserError(
                f"--config {value}: out = {plain!r} is not below this folder: name it by --out."
            )
        defaults[names[flag]] = plain if isinstance(plain, bool) else str(plain)
    ctx.default_map = defaults


def _protocol_options(command: Any) -> Any:
    for name, field in reversed(PROTOCOL_FIELDS.items()):
        flag = "--" + name.replace("_", "-")
        doc = field.doc[0].upper() + field.doc[1:]
        command = click.option(flag, name, metavar="VALUE", help=f"{doc}.")(command)
    return command


@click.command(
    epilog="""\b
Examples:
  clbench run --methods finetune,ewc,agem,er-res,joint --seeds 3
  clbench run --methods 'ewc[strength=500],er-res[per_class=5]' --seeds 0,1
  clbench run --methods '@memory' --epochs 2 --dry-run
"""
)
@click.option(
    "--methods",
    default=DEFAULT_METHODS,
    show_default=True,
    metavar="LIST",
    help="Names, globs ('*gem*'), groups (@memory, @all), files (./mine.py); "
    "parameters in brackets ('ewc[strength=500]').",
)
@click.option(
    "--benchmarks", default=DEFAULT_BENCHMARK, show_default=True, metavar="LIST", help="Likewise."
)
@click.option(
    "--seeds", default="1", show_default=True, metavar="N|LIST", help="How many, or which (0,1,7)."
)
@training_options
@click.option(
    "--reference",
    type=click.Choice(("last", "each")),
    is_flag=False,
    flag_value="last",
    help="Train the joint runs too that intransigence needs, on all tasks (last, the default of "
    "the flag) or on the tasks up to each one, and show it.",
)
@click.option(
    "--config",
    metavar="FILE.toml",
    is_eager=True,
    expose_value=False,
    callback=_read_config,
    help="A TOML file whose keys are these flags.",
)
@click.option("--profile", is_flag=True, help="Show where the time of the runs went.")
@_protocol_options
def command(
    methods: str,
    benchmarks: str,
    seeds: str,
    training: Training,
    reference: str | None,
    profile: bool,
    **protocol: str | None,
) -> None:
    """Train methods on benchmarks and print the table.

    The same command again trains nothing. A command that was stopped, by Ctrl-C or in any other
    way, goes on at the last finished task of each run.
    """
    overrides = {
        name: PROTOCOL_FIELDS[name].parse(text, f"--{name.replace('_', '-')}")
        for name, text in protocol.items()
        if text is not None
    }
    columns: tuple[str, ...] = ()
    if reference is not None:
        methods += ",joint" if reference == "last" else ",joint[each=true]"
        columns = ("intransigence",) if reference == "last" else REFERENCE_COLUMNS
    cells = make_grid(
        methods, benchmarks, parse_seeds(seeds), overrides, training.threads, training.device
    )
    carry_out(cells, training, {"columns": columns}, profiled=profile)


def carry_out(
    cells: list[Cell],
    training: Training,
    layout: dict[str, Any],
    folder: str = "tables",
    profiled: bool = False,
) -> None:
    """Train what is missing of the cells, then print their tables and write them to OUT/folder.

    `layout` is what `clbench.report.tables` is asked for. Exits with 1 or 2 if a cell has no
    result.
    """
    place = training.place
    store = Store(place.out)
    if not training.dry_run:
        store.prepare()
    checksums = _load_data(cells, place, needed=False)
    states = {cell.id: state_of(cell, store, checksums) for cell in cells}
    chosen = to_run(states, training.rerun)
    if training.dry_run:
        from clbench.cli.plan import print_plan

        print_plan(cells, states, chosen, store, training.resources.workers)
        return
    work = [cell for cell in cells if cell.id in chosen]
    checksums |= _load_data(work, place, needed=True)
    old = [cell for cell in work if states[cell.id].word in ("failed", "stale", "done")]
    ended = _train(work, old, training)
    if profiled:
        from clbench.report.profile import profile

        mine = [record for cell in cells if (record := store.read(cell.id)) is not None]
        click.echo(f"{profile(mine)}\n")
    _print_result(cells, store, ended, checksums, layout, folder)


def _load_data(cells: list[Cell], place: Place, needed: bool) -> dict[str, str]:
    """Find, verify and decode the data sets once, before any worker does; name -> checksum.

    Data that is not there is an error only if it is needed: finished runs stand without it.
    """
    found = {}
    for name in dict.fromkeys(n for c in cells for n in c.benchmark.meta.get("datasets", ())):
        try:
            found[name] = data.load(name, place.data_root, place.accept_data).sha256
        except UserError:
            if needed:
                raise
    return found


def _train(cells: list[Cell], old: list[Cell], training: Training) -> dict[str, dict[str, Any]]:
    """Train the cells, the `old` ones anew; returns how each ended."""
    if not cells:
        return {}
    from rich.console import Console

    from clbench.cli.progress import Progress
    from clbench.executors.local import look_ahead

    engine = importlib.import_module(f"clbench.executors.{training.executor}")
    progress = Progress(cells, Console(stderr=True))
    try:
        with progress:
            refused = look_ahead(cells, training.place)
            for cell in cells:
                if cell.id in refused:
                    end = {"kind": "end", "status": "refused", "text": refused[cell.id]}
                    progress.listen(cell, end)
            store = Store(training.place.out)
            for cell in [cell for cell in old if cell.id not in refused]:
                with store.lease(cell.id) as mine:
                    if mine:  # else another command has begun to train it anew
                        store.replace(cell.id)
            willing = [cell for cell in cells if cell.id not in refused]
            engine.run_cells(willing, training.place, training.resources, progress.listen)
    except KeyboardInterrupt:
        again = ["clbench", *_without_rerun(sys.argv[1:])]
        click.echo(
            "\nStopped. Every finished task is kept; the same command goes on from there:\n"
            f"  {shlex.join(again)}",
            err=True,
        )
        sys.exit(130)
    for note in progress.notes:
        click.echo(f"Note: {note}", err=True)
    return progress.ended


def _without_rerun(arguments: list[str]) -> list[str]:
    """The command that resumes: with `--rerun all` it would train the finished runs once more."""
    kept, skip = [], False
    for argument in arguments:
        if not (skip or argument.startswith("--rerun")):
            kept.append(argument)
        skip = argument == "--rerun"
    return kept


def _print_result(
    cells: list[Cell],
    store: Store,
    ended: dict[str, dict[str, Any]],
    checksums: dict[str, str],
    layout: dict[str, Any],
    folder: str,
) -> None:
    from clbench.report import tables, terminal, write

    problems: list[str] = []
    states = {cell.id: state_of(cell, store, checksums) for cell in cells}
    made = tables((r for r in store.each(problems) if r["id"] in states), **layout)
    if any(state.word in ("done", "stale") for state in states.values()):
        click.echo(terminal(made), nl=False)
        written = write(made, store.root / folder)
        click.echo(f"\nRecords: {store.root / 'records'}")
        click.echo(f"Tables:  {', '.join(map(str, written))}")
    for problem in problems:
        click.echo(f"Warning: {problem}", err=True)
    stale = [c for c in cells if states[c.id].word == "stale"]
    if stale:
        click.echo(
            f"Warning: {len(stale)} of these results were made by another version of the method or "
            "benchmark, or with other data; --rerun stale trains them again.",
            err=True,
        )
    bad = [c for c in cells if states[c.id].word not in ("done", "stale")]
    for cell in bad:
        end = ended.get(cell.id)
        record = states[cell.id].record
        if end is not None:
            reason = f"{end['status']}: {end['text']}"
        elif record is not None and record["failure"]:
            reason = f"failed earlier: {record['failure']['error']} (--rerun failed tries again)"
        else:
            reason = str(states[cell.id])
        click.echo(f"{cell}: {reason}", err=True)
        if record is not None and record["failure"]:
            click.echo(f"  traceback: clbench show {cell.id} --out {store.root}", err=True)
    if bad:
        click.echo(f"{len(bad)} of {len(cells)} runs have no result.", err=True)
        refused = all(ended.get(c.id, {}).get("status") == "refused" for c in bad)
        sys.exit(2 if refused else 1)  # refused: nothing failed, the command asked for too much
