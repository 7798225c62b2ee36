"""Tables into files: one per benchmark and format, replaced whole or not at all."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from clbench.errors import UserError, unknown
from clbench.report import latex, markdown, plain
from clbench.report.escape import slug
from clbench.report.runs import Run
from clbench.report.table import Table, tables
from clbench.store import write_atomically

FORMATS = ("md", "tex", "csv", "json")


def write(
    records: Iterable[dict[str, Any]],
    problems: Iterable[str],
    out_dir: Path,
    formats: Iterable[str] = FORMATS,
    *,
    columns: tuple[str, ...] = (),
    vs_paper: bool = False,
    note: str = "",
    standalone: bool = False,
    keep: Callable[[Run], bool] = lambda run: True,
) -> list[Path]:
    """Write `table-<benchmark>.<format>` for all benchmarks and formats; the paths, in order."""
    formats = list(formats)
    for name in formats:
        if name not in FORMATS:
            raise unknown("format", name, FORMATS)
    paths = []
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        layout: dict[str, Any] = {"columns": columns, "vs_paper": vs_paper, "note": note}
        for table in tables(records, problems, keep=keep, **layout):
            for name in formats:
                path = out_dir / f"table-{slug(table.benchmark)}.{name}"
                write_atomically(path, render(table, name, standalone).encode())
                paths.append(path)
    except OSError as error:
        raise UserError(
            f"Tables cannot be written to {out_dir}: {error.strerror or error}. "
            "Name another folder with --to."
        ) from None
    return paths


def render(table: Table, name: str, standalone: bool = False) -> str:
    """One table in the format of that name."""
    if name == "tex":
        return latex.render(table, standalone)
    renderers = {"md": markdown.render, "csv": plain.render_csv, "json": plain.render_json}
    return renderers[name](table)
