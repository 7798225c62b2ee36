"""Tables into files: one per benchmark and format, and one page; replaced whole or not at all."""

from collections.abc import Iterable
from pathlib import Path

from clbench.errors import UserError, unknown
from clbench.files import write_atomically
from clbench.record import Record
from clbench.report import latex, markdown, plain
from clbench.report.escape import slug
from clbench.report.table import Table

TABLES = ("md", "tex", "csv", "json")
"""Formats with a file for each benchmark."""
FORMATS = (*TABLES, "html")
PAGE = "report.html"


def write(
    tables: list[Table],
    out_dir: Path,
    formats: Iterable[str] = TABLES,
    *,
    standalone: bool = False,
    records: Iterable[Record] = (),
) -> list[Path]:
    """Write `table-<benchmark>.<format>` for all benchmarks and formats, and with `html` also one
    page about all of them and about the runs in `records`; the paths, in order."""
    formats = list(formats)
    for name in formats:
        if name not in FORMATS:
            raise unknown("format", name, FORMATS)
    paths = []
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        for table in tables:
            for name in formats:
                if name not in TABLES:
                    continue
                path = out_dir / f"table-{slug(table.benchmark)}.{name}"
                write_atomically(path, render(table, name, standalone).encode())
                paths.append(path)
        if "html" in formats:
            from clbench.report import page

            path = out_dir / PAGE
            write_atomically(path, page.render(tables, records).encode())
            paths.append(path)
    except OSError as error:
        raise UserError(
            f"Tables cannot be written to {out_dir}: {error.strerror or error}. "
            "Fix the cause, or name another folder."
        ) from None
    return paths


def render(table: Table, name: str, standalone: bool = False) -> str:
    """One table in the format of that name, one of TABLES."""
    if name == "tex":
        return latex.render(table, standalone)
    renderers = {"md": markdown.render, "csv": plain.render_csv, "json": plain.render_json}
    return renderers[name](table)
