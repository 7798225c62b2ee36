"""What is on this machine: one row for each data set, without decoding and without torch."""

import ast
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clbench.data.cache import Cache
from clbench.data.catalog import READERS
from clbench.data.loading import identify, note
from clbench.data.source import Files, Reader
from clbench.errors import UserError


@dataclass(frozen=True)
class Row:
    """One data set as it was found."""

    name: str
    title: str
    found: bool
    where: str
    verified: str
    """How it was compared with the official data: by checksum, by number, or not at all."""
    content: str
    """'complete', or how it differs, or what is wrong with it."""
    complete: bool
    damaged: bool
    bytes: int
    decoded: str
    """State of the cache: '', 'yes', or with `verify` 'verified' or 'damaged'."""
    needed_by: tuple[str, ...]


def survey(
    root: Path, cache: Path, needed_by: Mapping[str, tuple[str, ...]], verify: bool = False
) -> list[Row]:
    """A row for every data set clbench knows; `verify` reads all bytes of source and cache."""
    return [
        _row(reader, root, Cache(cache), needed_by.get(name, ()), verify)
        for name, reader in READERS.items()
    ]


def _row(reader: Reader, root: Path, cache: Cache, needed_by: tuple[str, ...], verify: bool) -> Row:
    def row(where: str, verified: str, content: str, bytes: int = 0, decoded: str = "") -> Row:
        complete, damaged = content == "complete", verified == "damaged" or decoded == "damaged"
        return Row(
            reader.name, reader.title, bool(where), where, verified, content, complete, damaged,
            bytes, decoded, needed_by,
        )  # fmt: skip

    source = None
    try:
        source = reader.find(root)
        if source is None:
            return row("", "", f"type 'clbench data prepare {reader.name}'")
        verified, content = _compare(reader, source, cache, verify)
        return row(
            str(source.where),
            verified,
            content,
            source.bytes(),
            _decoded(reader, source, cache, verify),
        )
    except (UserError, OSError) as error:
        return row(str(source.where if source else root), "damaged", str(error))


def _compare(reader: Reader, source: Files, cache: Cache, verify: bool) -> tuple[str, str]:
    """How the source was compared with the official data, and the outcome."""
    if verify:
        cache.remember(reader, source, reader.inspect(source))
    elif reader.by_count and cache.recall(reader, source) is None:
        sizes = reader.count(source)
        problem = "" if sizes == reader.sizes else "another number of images"
        return "by number", note(reader, problem, sizes) or "complete"
    inspection = identify(reader, source, cache)
    words = note(reader, inspection.problem, reader.count(source)) if inspection.problem else ""
    if reader.by_count:
        return "by number", words or "complete"
    return ("other checksum" if inspection.problem else "checksum"), words or "complete"


def _decoded(reader: Reader, source: Files, cache: Cache, verify: bool) -> str:
    known = cache.recall(reader, source)
    if known is None or not cache.holds(reader, known.sha256):
        return ""
    if not verify:
        return "yes"
    return "verified" if cache.sound(reader, known.sha256) else "damaged"


def benchmarks_by_data() -> dict[str, tuple[str, ...]]:
    """Data set -> benchmarks that need it, read from their files without importing them.

    A benchmark says what it needs in a literal class attribute, `datasets = ("mnist",)`.
    """
    spec = importlib.util.find_spec("clbench.benchmarks")
    needed: dict[str, list[str]] = {}
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(folder).glob("[!_]*.py")):
            for data in _declared(path):
                needed.setdefault(data, []).append(path.stem.replace("_", "-"))
    return {data: tuple(names) for data, names in needed.items()}


def _declared(path: Path) -> list[str]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError, OSError):
        return []  # `clbench ls` is the place to complain about a broken benchmark
    found: list[str] = []
    for statement in (s for c in tree.body if isinstance(c, ast.ClassDef) for s in c.body):
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        else:
            continue
        if any(isinstance(t, ast.Name) and t.id == "datasets" for t in targets) and statement.value:
            try:
                found += ast.literal_eval(statement.value)
            except ValueError:
                continue
    return list(dict.fromkeys(found))
