"""Reading tar and zip archives that may be hostile: nothing is written outside one folder."""

import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from clbench.errors import UserError

SUFFIXES = (".tar.gz", ".tgz", ".tar", ".zip")
LARGEST = 2**31
"""Largest member in bytes; larger ones are refused, because no data set has any."""


def is_archive(path: Path) -> bool:
    """Whether the name ends like that of an archive that clbench reads."""
    return path.name.lower().endswith(SUFFIXES)


def members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Checked name and content of each regular file, in the order of the archive."""
    try:
        for member in _zip(path) if path.name.lower().endswith(".zip") else _tar(path):
            name = _safe(path, member.name)
            if member.is_folder:
                continue
            if not member.is_file:
                raise UserError(f"{path} holds {name!r}, which is a link or device: refused.")
            if member.size > LARGEST:
                size = f"{member.size:,} bytes"
                raise UserError(f"{path} holds {name!r} of {size}, too large for image data.")
            if not _clutter(name):
                yield name, member.read()
    except EOFError:
        raise UserError(f"{path} is truncated: it ends before its data does.") from None
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, OSError, RuntimeError) as error:
        raise UserError(f"{path} is damaged or not an archive ({error}).") from None


def unpack(path: Path, folder: Path) -> None:
    """Write all members below `folder`, which must be new: then nothing is overwritten."""
    for name, content in members(path):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


class _Member(NamedTuple):
    name: str
    is_folder: bool
    is_file: bool
    size: int
    read: Callable[[], bytes]


def _tar(path: Path) -> Iterator[_Member]:
    with tarfile.open(path, mode="r|*") as archive:  # a stream: read once, front to back
        for m in archive:
            file = archive.extractfile(m) if m.isreg() else None
            read = file.read if file else bytes
            yield _Member(m.name, m.isdir(), file is not None, m.size, read)


def _zip(path: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(path) as archive:
        for m in archive.infolist():
            link = (m.external_attr >> 16) & 0o170000 == 0o120000
            yield _Member(m.filename, m.is_dir(), not link, m.file_size, partial(archive.read, m))


def _safe(path: Path, name: str) -> str:
    """`name`, if on every operating system it stays in the folder it is unpacked into."""
    pure = PurePosixPath(name.replace("\\", "/"))
    if pure.is_absolute() or ".." in pure.parts or any(":" in part for part in pure.parts[:1]):
        raise UserError(f"{path} holds {name!r}, which points outside of its folder: refused.")
    return str(pure)


def _clutter(name: str) -> bool:
    """Whether an operating system added the file by itself."""
    return any(part.startswith(".") or part == "__MACOSX" for part in PurePosixPath(name).parts)
