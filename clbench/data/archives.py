"""Reading tar and zip archives that may be hostile: nothing is written outside one folder."""

import gzip
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple, cast

from clbench.errors import UserError
from clbench.files import brief, opened

SUFFIXES = (".tar.gz", ".tgz", ".tar", ".zip")
CHUNK = 2**20
HEAD = 2**20
"""Most bytes that stand between two members of a tar: long names, extended attributes."""
INDEX = 2**25
"""Most bytes of the index of a zip, for 300,000 files."""


def is_archive(path: Path) -> bool:
    """Whether the name ends like that of an archive that clbench reads."""
    return path.name.lower().endswith(SUFFIXES)


def members(path: Path, limit: int, most: int) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Checked name and content of each regular file, in the order of the archive.

    The content comes in pieces. All files together have at most `limit` bytes, which is what the
    data set can have; there are at most `most` of them.
    """
    total = 0
    with _sentences(path), opened(path, limit) as file:
        kind = _zip if path.name.lower().endswith(".zip") else _tar
        for number, member in enumerate(kind(file)):
            name, total = _safe(path, member.name), total + member.size
            if total > limit:
                raise UserError(
                    f"{path} unpacks to more than {limit:,} bytes, more than the data set can have."
                )
            if number >= 2 * most:  # folders are counted too
                raise UserError(f"{path} holds more files than the data set can have.")
            if member.is_folder:
                continue
            if member.content is None:
                raise UserError(f"{path} holds {name!r}, which is a link or device: refused.")
            if not _clutter(name):
                yield name, _pieces(path, member.content)


def unpack(path: Path, folder: Path, limit: int, most: int) -> None:
    """Write all members below `folder`, which must be new: then nothing is overwritten."""
    for name, content in members(path, limit, most):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            file.writelines(content)


class _Member(NamedTuple):
    name: str
    is_folder: bool
    size: int
    content: Iterator[bytes] | None
    """None if it is neither a folder nor a file."""


def _tar(file: BinaryIO) -> Iterator[_Member]:
    packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    stream: Any = _Stream(gzip.GzipFile(fileobj=file) if packed else file)
    # as a stream: read once, front to back
    with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Info) as archive:
        while (m := archive.next()) is not None:
            if m.size < 0:
                raise tarfile.ReadError("a file has a negative size")
            stream.left = m.size + HEAD
            archive.members = []  # type: ignore[attr-defined]  # it keeps all
            content = archive.extractfile(m) if m.isreg() else None
            yield _Member(m.name, m.isdir(), m.size, _read(content) if content else None)


class _Info(tarfile.TarInfo):
    """A member whose attributes are read front to back: for some, the patterns of tarfile take
    hours and hundreds of gigabytes."""

    def _proc_pax(self, archive: Any) -> tarfile.TarInfo:
        content = archive.fileobj.read(self._block(self.size))[: self.size]  # type: ignore[attr-defined]
        given = dict(_attributes(content))
        if any(key.startswith("GNU.sparse") for key in given):
            raise tarfile.ReadError("a file of it has holes")
        member: Any = self.fromtarfile(archive)
        if self.type != tarfile.XGLTYPE:  # what is said of all members says nothing of their data
            used = {key: given[key] for key in ("path", "size") if key in given}
            member._apply_pax_info(used, archive.encoding, archive.errors)
            if "size" in used and member.isreg():
                archive.offset = member.offset_data + member._block(member.size)
        return cast(tarfile.TarInfo, member)


def _attributes(content: bytes) -> Iterator[tuple[str, str]]:
    """The lines `LENGTH KEY=VALUE` in the head of a member; ValueError if they are none."""
    place = 0
    while place < len(content):
        space = content.find(b" ", place, place + 20)
        end = place + int(content[place:space])
        key, equals, value = content[space + 1 : end - 1].partition(b"=")
        if not (place < space < end and key and equals) or content[end - 1 : end] != b"\n":
            raise ValueError("the head of a file is not a list of attributes")
        yield key.decode("utf-8", "replace"), value.decode("utf-8", "surrogateescape")
        place = end


class _Stream:
    """A tar that is unpacked, in which no head is larger than `HEAD`: tarfile has no bound."""

    def __init__(self, file: BinaryIO | gzip.GzipFile) -> None:
        self.file, self.left = file, HEAD

    def read(self, size: int) -> bytes:
        self.left -= size
        if self.left < 0:
            raise tarfile.ReadError(f"the head of a file has more than {HEAD:,} bytes")
        return self.file.read(size)


def _zip(file: BinaryIO) -> Iterator[_Member]:
    with zipfile.ZipFile(_Index(file)) as archive:
        for m in archive.infolist():
            if m.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise zipfile.BadZipFile(f"it is packed by the method {m.compress_type}")
            link = (m.external_attr >> 16) & 0o170000 == 0o120000
            content = None if link else _unzipped(archive, m)
            yield _Member(m.filename, m.is_dir(), m.file_size, content)


class _Index:
    """A zip of which at most `INDEX` bytes are read at a time: zipfile reads the index at once."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if size > INDEX:
            raise zipfile.BadZipFile(f"its index has more than {INDEX:,} bytes")
        return self.file.read(min(size, INDEX) if size >= 0 else INDEX)


def _unzipped(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(member) as file:
        yield from _read(file)


def _read(file: object) -> Iterator[bytes]:
    while piece := file.read(CHUNK):  # type: ignore[attr-defined]
        yield piece


def _pieces(path: Path, content: Iterator[bytes]) -> Iterator[bytes]:
    with _sentences(path):
        yield from content


@contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """Whatever the libraries raise of a damaged archive, as a UserError."""
    try:
        yield
    except UserError:
        raise
    except EOFError:
        raise UserError(f"{path} is truncated: it ends before its data does.") from None
    except Exception as error:  # a damaged archive can raise anything
        if isinstance(error, OSError) and error.filename:
            raise UserError(f"{path} cannot be read: {error.strerror}.") from None
        raise UserError(f"{path} is damaged or not an archive ({brief(error)}).") from None


def _safe(path: Path, name: str) -> str:
    """`name`, if on every operating system it stays in the folder it is unpacked into."""
    if not name.isprintable():
        raise UserError(f"{path} holds a file with the name {name[:200]!r}: refused.")
    pure = PurePosixPath(name.replace("\\", "/"))
    if pure.is_absolute() or ".." in pure.parts or any(":" in part for part in pure.parts[:1]):
        raise UserError(f"{path} holds {name!r}, which points outside of its folder: refused.")
    return str(pure)


def _clutter(name: str) -> bool:
    """Whether an operating system added the file by itself."""
    return any(part.startswith(".") or part == "__MACOSX" for part in PurePosixPath(name).parts)
