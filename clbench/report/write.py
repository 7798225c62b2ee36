"""Tables into files: one per benchmark and format, and one page; replaced whole or not at all."""

from collections.abc import Iterable
from pathlib import Path

from clbench.errors import UserError, unknown
from clbench.files import refuse_links, write_atomically
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
    root: Path | None = None,
) -> list[Path]:
    """Write `table-<benchmark>.<format>` for all benchmarks and formats, and with `html` also one
    page about all of them and about the runs in `records`; the paths, in order. If `root` is given,
    a link between it and the files is an error."""
    formats = list(formats)
    for name in formats:
        if name not in FORMATS:
            raise unknown("format", name, FORMATS)
    files = {
        f"table-{slug(table.benchmark)}.{name}": render(table, name, standalone).encode()
        for table in tables
        for name in formats
        if name in TABLES
    }
    if "html" in formats:
        from clbench.report import page

        files[PAGE] = page.render(tables, records).encode()
    return put(out_dir, files, root)


def put(folder: Path, files: dict[str, bytes], root: Path | None = None) -> list[Path]:
    """Write files by name into a folder, which is not reached by a link below `root`; their
    paths."""
    try:
        if root is not None:
            refuse_links(folder, root)
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            write_atomically(folder / name, content, root)
    except OSError as error:
        raise UserError(
            f"Files cannot be written to {folder}: {error.strerror or error}. "
            "Fix the cause, or name another folder."
        ) from None
    return [folder / name for name in files]


def render(table: Table, name: str, standalone: bool = False) -> str:
    """One table in the format of that name, one of TABLES."""
    if name == "tex":
        return latex.render(table, standalone)
    renderers = {"md": markdown.render, "csv": plain.render_csv, "json": plain.render_json}
    return renderers[name](table)
