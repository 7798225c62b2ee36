"""What is on this machine: one row per data set, without decoding and without torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clbench.data.cache import Cache
from clbench.data.catalog import READERS
from clbench.data.loading import identify, note
from clbench.data.reader import Files, Reader, readable
from clbench.errors import UserError


@dataclass(frozen=True)
class Found:
    """One data set, or its absence, on this machine."""

    name: str
    title: str
    found: bool
    where: str
    verified: str
    """How it was compared with the official data: by checksum, by number, or not at all."""
    content: str
    """Whether it is complete, how it differs from the official data, or what is damaged."""
    complete: bool
    damaged: bool
    bytes: int
    decoded: str
    """State of the cache: '', 'yes', or with `verify` 'verified' or 'damaged'."""
    needed_by: Sequence[str]
    """Benchmarks that use it."""


def survey(
    root: Path, cache: Path, needed_by: Mapping[str, Sequence[str]], verify: bool = False
) -> list[Found]:
    """Every data set that clbench knows; `verify` reads all bytes of the files and the cache."""
    return [
        _look(reader, root, Cache(cache), needed_by.get(name, ()), verify)
        for name, reader in READERS.items()
    ]


def _look(
    reader: Reader, root: Path, cache: Cache, needed_by: Sequence[str], verify: bool
) -> Found:
    where, verified, content, size, decoded = "", "", "missing", 0, ""
    try:
        with readable(root):
            source = reader.find(root)
            where = str(source.where if source else "")
            if source:
                verified, difference = _compare(reader, source, cache, verify)
                content = difference or reader.checked
                size, decoded = source.bytes(), _decoded(reader, source, cache, verify)
    except UserError as error:
        where, verified, content = where or str(root), "damaged", str(error)
    return Found(
        reader.name,
        reader.title,
        bool(where),
        where,
        verified,
        content,
        complete=content == reader.checked,
        damaged="damaged" in (verified, decoded),
        bytes=size,
        decoded=decoded,
        needed_by=needed_by,
    )


def _compare(reader: Reader, source: Files, cache: Cache, verify: bool) -> tuple[str, str]:
    """How the files were compared with the official data, and how they differ."""
    if verify:
        cache.remember(reader, source, reader.inspect(source))
    elif reader.by_count and cache.recall(reader, source) is None:
        sizes = reader.count(source)
        problem = "" if sizes == reader.sizes else "another number of images"
        return "by number", note(reader, problem, sizes)
    inspection = identify(reader, source, cache)
    words = note(reader, inspection.problem, reader.count(source)) if inspection.problem else ""
    if reader.by_count:
        return "by number", words
    return ("other checksum" if inspection.problem else "checksum"), words


def _decoded(reader: Reader, source: Files, cache: Cache, verify: bool) -> str:
    known = cache.recall(reader, source)
    if known is None or not cache.holds(reader, known.sha256):
        return ""
    if not verify:
        return "yes"
    return "verified" if cache.sound(reader, known.sha256) else "damaged"
