"""Figures into files: each format and a caption, replaced whole or not at all."""

import importlib
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from clbench.errors import UserError
from clbench.report.escape import slug
from clbench.report.figures import style
from clbench.report.figures.picture import LackingError, Picture
from clbench.report.table import Table
from clbench.report.write import put

# what would name the day or the version of a library
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}


def write(
    kind: str,
    tables: Iterable[Table],
    folder: Path,
    formats: Sequence[str],
    note: str = "",
    root: Path | None = None,
    **options: Any,
) -> tuple[list[Path], list[str]]:
    """Draw `figure-<kind>-<benchmark>.<format>` of every table that has what the figure needs.

    Returns the paths, captions included, and a sentence for every table that was left out, which
    is the error if none can be drawn. `note` is a sentence for each caption. If `root` is given, a
    link between it and the files is an error.
    """
    draw = importlib.import_module(f"clbench.report.figures.{kind}").draw
    paths: list[Path] = []
    left_out: list[str] = []
    for table in tables:
        with style.styled():
            try:
                picture: Picture = draw(table, **options)
            except LackingError as error:
                left_out.append(str(error))
                continue
            stem = f"figure-{kind}-{slug(table.benchmark)}"
            files = {f"{stem}.{name}": render(picture, name) for name in formats}
        paths += put(folder, files | {f"{stem}.txt": picture.text(note).encode()}, root)
    if not paths:
        raise UserError(left_out[0])
    return paths, left_out


def render(picture: Picture, name: str) -> bytes:
    """The bytes of one format; call it inside `styled`."""
    file = io.BytesIO()
    picture.figure.savefig(file, format=name, metadata=_METADATA[name])
    return file.getvalue()
