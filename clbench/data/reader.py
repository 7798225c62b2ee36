"""What the readers of all data sets share: how files are found, identified and decoded."""

import gzip
import hashlib
import io
import math
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from clbench.errors import UserError
from clbench.files import read_bounded, shown


class WrongSizeError(UserError):
    """Images of a size that the data set does not have."""


Block = tuple[str, np.ndarray, np.ndarray]
"""Some decoded images of one part: its name, uint8 (n, C, H, W), integer labels (n,)."""


@dataclass(frozen=True)
class Files:
    """The files of one data set as they lie on disk, found but not yet read."""

    where: Path
    """The folder or archive to name in messages."""
    files: Mapping[str, Path]
    """Name inside the data set -> file, or folder of image files."""
    layout: str = "files"
    """Which of its reader's layouts this is."""

    def fingerprint(self) -> list[list[object]]:
        """Paths, sizes and times of change: equal as long as nobody touched the files.

        A folder of images counts by its own time, because checking 60,000 files takes seconds on a
        network disk. If an image was edited in place, its earlier, verified content is used.
        """
        marks: list[list[object]] = []
        for path in self.files.values():
            stat = path.stat()
            size = 0 if path.is_dir() else stat.st_size
            marks.append([str(path.resolve()), size, stat.st_mtime_ns])
        return sorted(marks, key=str)

    def bytes(self) -> int:
        """Size on disk of everything that belongs to the data set."""
        total = 0
        for path in self.files.values():
            found = path.iterdir() if path.is_dir() else [path]
            total += sum(file.stat().st_size for file in found if file.is_file())
        return total


@dataclass(frozen=True)
class Inspection:
    """What the bytes of a data set's files say about it."""

    sha256: str
    problem: str
    """Empty for the official, complete data; else how the files differ."""


@dataclass
class Decoded:
    """Files about to be decoded: first the sizes, which tell the disk space, then the images."""

    sizes: dict[str, int]
    classes: int
    blocks: Iterator[Block]
    remarks: set[str] = field(default_factory=set)
    """Changes made to the images, such as resizing; filled while `blocks` runs."""

    @classmethod
    def of(cls, parts: Mapping[str, tuple[np.ndarray, np.ndarray]], classes: int) -> "Decoded":
        """Whole parts: name -> images and labels."""
        sizes = {part: len(labels) for part, (_, labels) in parts.items()}
        return cls(sizes, classes, ((part, *pair) for part, pair in parts.items()))


@dataclass(frozen=True)
class Reader(ABC):
    """One data set: its description, the layouts it is found in, and how it is decoded."""

    by_count: ClassVar[bool] = False
    """Whether no official checksum exists, so that only the number of images can be checked."""

    name: str
    title: str
    shape: tuple[int, int, int]
    sizes: Mapping[str, int]
    """Official number of images of each part."""
    classes: int = 10
    places: tuple[str, ...] = ()
    """Folders of the data root that may hold the files; `clbench data prepare` uses the first."""
    archives: tuple[str, ...] = ()
    """Archives of the data root that are read without unpacking."""
    expects: str = ""
    """The files of a place, in words, for the message that nothing was found."""

    @property
    def most(self) -> int:
        """Most images that are read: twice the official number, for sets that were enlarged."""
        return 2 * sum(self.sizes.values())

    @property
    def largest(self) -> int:
        """Most bytes of one file or archive, unpacked: all images, and some bytes for labels."""
        return self.most * (math.prod(self.shape) + 64)

    @property
    def checked(self) -> str:
        """What is known of data that passed the check."""
        if self.by_count:
            return "complete by number of images; no official checksum exists"
        return "official, complete"

    def find(self, root: Path) -> Files | None:
        """The first place or archive below `root` that holds the data set."""
        for place in self.places:
            if (root / place).is_dir() and (source := self.look(root / place)):
                return source
        for archive in self.archives:
            if (root / archive).is_file():
                return Files(root / archive, {archive: root / archive}, layout="archive")
        return None

    @abstractmethod
    def look(self, folder: Path) -> Files | None:
        """The data set if its files lie directly in `folder`; an error if only some of them do."""

    @abstractmethod
    def inspect(self, source: Files) -> Inspection:
        """Read all bytes once: identify them and compare them with the official ones."""

    def count(self, source: Files) -> dict[str, int]:
        """Number of images of each part, without decoding them where the format allows."""
        return self.decode(source, accept=True).sizes

    @abstractmethod
    def decode(self, source: Files, accept: bool) -> Decoded:
        """Images and labels, block by block."""


def all_or_none(folder: Path, files: Mapping[str, Path]) -> Mapping[str, Path] | None:
    """`files` if all are there, None if none is, an error if some are missing."""
    missing = [name for name, path in files.items() if not path.is_file()]
    if len(missing) == len(files):
        return None
    if missing:
        raise UserError(f"{folder} is incomplete: it lacks {', '.join(missing)}.")
    return files


@dataclass(frozen=True)
class OfficialFiles(Reader):
    """A data set of a few files with official md5s."""

    md5: Mapping[str, Any] = field(default_factory=dict)
    """Name of each official file -> md5."""

    def look(self, folder: Path) -> Files | None:
        files = all_or_none(folder, {name: self.file(folder, name) for name in self.md5})
        return Files(folder, files) if files else None

    def file(self, folder: Path, name: str) -> Path:
        """The place of that file in `folder`."""
        return folder / name

    def contents(self, source: Files) -> Iterator[tuple[str, bytes]]:
        """Name and content of each official file, each exactly once."""
        left = self.largest
        for name, path in source.files.items():
            content = read(path, left)
            left -= len(content)
            yield name, content

    def compare(self, source: Files, name: str, content: bytes) -> str:
        """Empty if `content` is that of the official file, else how it differs."""
        return compare_md5(name, content, self.md5[name])

    def inspect(self, source: Files) -> Inspection:
        digests, problem = {}, ""
        for name, content in self.contents(source):
            digests[name] = hashlib.sha256(content).hexdigest()
            problem = problem or self.compare(source, name, content)
        return Inspection(identity(digests), problem)


def identity(digests: Mapping[str, str]) -> str:
    """One checksum for named contents, independent of their order, folder and packing."""
    lines = "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))
    return hashlib.sha256(os.fsencode(lines)).hexdigest()


def compare_md5(name: str, data: bytes, official: str) -> str:
    """Empty if `data` is the official file, else how it differs."""
    found = hashlib.md5(data, usedforsecurity=False).hexdigest()
    return "" if found == official else f"{name} has md5 {found}, the official file has {official}"


@contextmanager
def readable(where: Path) -> Iterator[None]:
    """Turn errors of files that are not readable, or vanish meanwhile, into a UserError."""
    try:
        yield
    except OSError as error:
        path = shown(Path(error.filename or where))
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from None


def listed(folder: Path, most: int) -> list[Path]:
    """What is in a folder, sorted; more than `most` is a UserError before all names are read."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in islice(entries, most + 1)]
    if len(names) > most:
        raise UserError(f"{folder} holds more files than the data set can have. Move some away.")
    return [folder / name for name in sorted(names)]


def read(path: Path, limit: int) -> bytes:
    """The whole content of a file, unpacked if it is a `.gz`: at most `limit` bytes."""
    content = read_bounded(path, limit)
    if path.suffix != ".gz":
        return content
    unpacked = io.BytesIO()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            while chunk := file.read(CHUNK):
                unpacked.write(chunk)
                if unpacked.tell() > limit:
                    raise UserError(
                        f"{path} unpacks to more than {limit:,} bytes, more than the data set can "
                        f"have. {AGAIN}"
                    )
        return unpacked.getvalue()
    except EOFError:
        raise UserError(f"{path} is truncated: it ends before its data does. {AGAIN}") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path} is damaged ({error}). {AGAIN}") from None


def check_shape(where: object, found: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """Raise WrongSizeError unless the images have the size of the data set."""
    if found != wanted:
        sizes = ["x".join(map(str, shape)) for shape in (found, wanted)]
        raise WrongSizeError(f"{where} holds images of {sizes[0]}; this data set needs {sizes[1]}.")


def whole(where: object, found: object, most: int) -> np.ndarray:
    """At most `most` labels as int64; anything but a row of whole numbers is a UserError."""
    if isinstance(found, list) and not all(isinstance(n, (int, float, np.number)) for n in found):
        raise UserError(f"{where} holds labels that are not numbers.")
    array = np.asarray(found)
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise UserError(f"{where} holds labels that are not a row of whole numbers.")
    if array.size > most:
        raise UserError(f"{where} holds {array.size:,} labels, more than the data set can have.")
    with np.errstate(invalid="ignore"):
        labels = array.astype(np.int64)
    if (wrong := np.flatnonzero(labels != array)).size:
        raise UserError(f"{where} holds the label {array[wrong[0]]}, which is no whole number.")
    return labels


CHUNK = 2**20
"""Bytes that are unpacked at a time."""
AGAIN = "Delete it and get it again; 'clbench data prepare --help' shows how."
