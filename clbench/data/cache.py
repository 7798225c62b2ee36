"""Decoded images on disk, memory-mapped: a data set opens fast the second time, for all processes.

    <cache>/<name>-<first 16 of sha256>/   {train,test}-{images,labels}.npy and manifest.json
    <cache>/sources/<hash>.json            paths, sizes and times of files -> their content's hash

An entry is written to a folder of its own and renamed when it is whole; if two processes write it,
one wins and both go on. Files are written front to back and not through a memory map, so that a
full disk raises an error instead of killing the process by a signal.
"""

import errno
import hashlib
import json
import operator
import os
import re
import shutil
import sys
import time
import uuid
import zlib
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from clbench.data.reader import Decoded, Files, Inspection, Reader
from clbench.errors import UserError
from clbench.files import read_bounded
from clbench.lease import guard

FORMAT = 1
"""Part of every key: raised when readers decode or divide differently."""
ALWAYS = 256 * 2**20
"""Entries up to this size are checked at every opening (0.1 s), larger ones when the time of a file
differs from the manifest, and by `clbench data status --verify`."""
NOTES = 2**20
"""Most bytes of a file of JSON."""
DAY = 86_400


@dataclass(frozen=True)
class Entry:
    """One data set of the cache, opened."""

    parts: dict[str, tuple[np.ndarray, np.ndarray]]
    classes: int
    remarks: tuple[str, ...]


class DamagedError(Exception):
    """An entry differs from its manifest, so it is built again."""


@dataclass(frozen=True)
class Cache:
    """A folder of decoded data sets."""

    folder: Path

    def recall(self, reader: Reader, source: Files) -> Inspection | None:
        """The result of an earlier inspection of these files, if there was one."""
        try:
            known = Inspection(**_read(self._memo(reader, source)))
        except (OSError, ValueError, TypeError):
            return None
        texts = isinstance(known.problem, str) and isinstance(known.sha256, str)
        return known if texts and re.fullmatch("[0-9a-f]{64}", known.sha256) else None

    def remember(self, reader: Reader, source: Files, inspection: Inspection) -> None:
        """Keep `inspection` for the next time, if the cache can be written."""
        memo = self._memo(reader, source)
        with suppress(OSError):
            memo.parent.mkdir(parents=True, exist_ok=True)
            temporary = _fresh(memo.parent)
            temporary.write_text(json.dumps(asdict(inspection)))
            os.replace(temporary, memo)

    def open(self, reader: Reader, sha256: str) -> Entry | None:
        """The entry of that content, or None if it is missing or damaged."""
        folder = self._entry(reader, sha256)
        try:
            return _open(folder, sha256, verify=False)
        except (FileNotFoundError, NotADirectoryError):
            if folder.exists():
                _print(f"Warning: {folder} is incomplete; decoding {reader.name} again.")
        except DamagedError as damage:
            _print(f"Warning: {folder} is damaged ({damage}); decoding {reader.name} again.")
        return None

    def holds(self, reader: Reader, sha256: str) -> bool:
        """Whether there is an entry of that content; it may be damaged."""
        return (self._entry(reader, sha256) / "manifest.json").is_file()

    def sound(self, reader: Reader, sha256: str) -> bool:
        """Whether the entry has all the bytes that were written."""
        try:
            _open(self._entry(reader, sha256), sha256, verify=True)
        except (DamagedError, FileNotFoundError):
            return False
        return True

    def build(self, reader: Reader, sha256: str, decoded: Decoded) -> Entry:
        """Decode into a new entry, replacing a damaged one."""
        target = self._entry(reader, sha256)
        pixels = int(np.prod(reader.shape))
        needed = sum(count * (pixels + 8) for count in decoded.sizes.values())
        temporary = _fresh(self.folder)
        try:
            temporary.mkdir(parents=True)
        except OSError as error:
            raise UserError(
                f"The cache {self.folder} cannot be written ({error.strerror}). "
                "Name another folder in CLBENCH_CACHE."
            ) from None
        if needed > ALWAYS:
            _print(f"Decoding {sum(decoded.sizes.values()):,} images of {reader.title}, once.")
        try:
            self._sweep()
            if shutil.disk_usage(self.folder).free < needed:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            _write(temporary, reader, sha256, decoded)
            self._install(temporary, target, sha256)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise UserError(
                f"The disk is full: the decoded images need {needed:,} bytes in {self.folder}. "
                "Free some space, or name another folder in CLBENCH_CACHE."
            ) from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return _open(target, sha256, verify=False)

    def _install(self, temporary: Path, target: Path, sha256: str) -> None:
        with guard(self.folder):
            try:
                _open(target, sha256, verify=False)  # another process was faster
            except (DamagedError, FileNotFoundError, NotADirectoryError):
                old = _fresh(self.folder)
                with suppress(FileNotFoundError):
                    os.rename(target, old)
                os.rename(temporary, target)
                shutil.rmtree(old, ignore_errors=True)

    def _sweep(self) -> None:
        """Remove the leftovers of killed processes."""
        for path in self.folder.glob(".tmp-*"):
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > DAY:
                    shutil.rmtree(path, ignore_errors=True)

    def _entry(self, reader: Reader, sha256: str) -> Path:
        return self.folder / f"{reader.name}-{sha256[:16]}"

    def _memo(self, reader: Reader, source: Files) -> Path:
        key = json.dumps([FORMAT, reader.name, source.layout, source.fingerprint()])
        return self.folder / "sources" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def _write(folder: Path, reader: Reader, sha256: str, decoded: Decoded) -> None:
    """Write all arrays and then the manifest, each flushed to disk before the next step."""
    files: dict[str, _Npy] = {}
    try:
        for part, count in decoded.sizes.items():
            images, labels = folder / f"{part}-images.npy", folder / f"{part}-labels.npy"
            files[images.name] = _Npy(images, np.uint8, (count, *reader.shape))
            files[labels.name] = _Npy(labels, np.int64, (count,))
        seen = {part: np.zeros(decoded.classes, np.int64) for part in decoded.sizes}
        for part, pixels, numbers in decoded.blocks:
            if len(numbers) and not 0 <= numbers.min() <= numbers.max() < decoded.classes:
                raise UserError(
                    f"{reader.title} has labels 0 to {decoded.classes - 1}; part {part!r} holds "
                    f"labels from {numbers.min()} to {numbers.max()}."
                )
            seen[part] += np.bincount(numbers, minlength=decoded.classes)
            files[f"{part}-images.npy"].append(pixels)
            files[f"{part}-labels.npy"].append(numbers)
        for part, counts in seen.items():
            if missing := np.flatnonzero(counts == 0).tolist():
                raise UserError(
                    f"{reader.title}: part {part!r} has no images of the class(es) "
                    f"{', '.join(map(str, missing[:10]))}{' ...' if len(missing) > 10 else ''}."
                )
        described = {name: file.close() for name, file in files.items()}
    finally:
        for file in files.values():
            file.file.close()
    manifest = {
        "format": FORMAT,
        "name": reader.name,
        "sha256": sha256,
        "classes": decoded.classes,
        "remarks": sorted(decoded.remarks),
        "files": described,
    }
    with (folder / "manifest.json").open("w") as text:
        json.dump(manifest, text, indent=1)
        text.flush()
        os.fsync(text.fileno())


class _Npy:
    """A .npy file written row by row, with a running checksum."""

    def __init__(self, path: Path, dtype: type, shape: tuple[int, ...]) -> None:
        self.file: BinaryIO = path.open("wb")
        self.dtype, self.shape, self.rows = np.dtype(dtype), shape, 0
        header = np.lib.format.header_data_from_array_1_0(np.empty((0,), self.dtype))
        np.lib.format.write_array_header_1_0(self.file, {**header, "shape": shape})
        self.crc = 0

    def append(self, rows: np.ndarray) -> None:
        data = np.ascontiguousarray(rows, dtype=self.dtype)
        if data.shape[1:] != self.shape[1:]:
            raise UserError(
                f"Decoded images have the shape {data.shape[1:]}, not {self.shape[1:]}."
            )
        self.crc = zlib.crc32(data.data, self.crc)
        self.file.write(data.data)
        self.rows += len(data)

    def close(self) -> dict[str, Any]:
        if self.rows != self.shape[0]:
            raise UserError(
                f"{self.rows:,} images were decoded where {self.shape[0]:,} were counted."
            )
        self.file.flush()
        os.fsync(self.file.fileno())
        stat = os.fstat(self.file.fileno())
        return {
            "shape": self.shape,
            "dtype": self.dtype.str,
            "crc32": self.crc,
            "bytes": stat.st_size,
            "mtime_ns": stat.st_mtime_ns,
        }


def _open(folder: Path, sha256: str, verify: bool) -> Entry:
    try:
        manifest = _read(folder / "manifest.json")
        files = manifest["files"]
        if manifest["format"] != FORMAT or manifest["sha256"] != sha256:
            raise DamagedError("its manifest belongs to other data")
        verify = verify or sum(file["bytes"] for file in files.values()) <= ALWAYS
        arrays = {name: _array(folder / name, told, verify) for name, told in files.items()}
        parts = {
            part: (arrays[f"{part}-images.npy"], arrays[f"{part}-labels.npy"])
            for part in ("train", "test")
        }
        return Entry(parts, operator.index(manifest["classes"]), tuple(manifest["remarks"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"its manifest is not readable: {error!r}") from None


def _read(path: Path) -> Any:
    """JSON of the cache; damage of any kind is a ValueError."""
    try:
        return json.loads(read_bounded(path, NOTES))
    except (RecursionError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.EINVAL, errno.EFBIG):
            raise
        raise ValueError(str(error)) from None


def _array(path: Path, told: dict[str, Any], verify: bool) -> np.ndarray:
    stat = path.stat()
    if not path.is_file():
        raise DamagedError(f"{path.name} is no file")
    if stat.st_size != told["bytes"]:
        raise DamagedError(f"{path.name} has {stat.st_size:,} bytes, not {told['bytes']:,}")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DamagedError(f"{path.name}: {error}") from None
    if array.dtype.str != told["dtype"] or list(array.shape) != told["shape"]:
        raise DamagedError(f"{path.name} has another shape or type than written")
    touched = stat.st_mtime_ns != told["mtime_ns"]
    if (verify or touched) and zlib.crc32(array.reshape(-1).data) != told["crc32"]:
        raise DamagedError(f"the checksum of {path.name} differs")
    return array


def _fresh(folder: Path) -> Path:
    """A new name. `tempfile` would make files that other users of the cache cannot read."""
    return folder / f".tmp-{uuid.uuid4().hex}"


def _print(sentence: str) -> None:
    print(sentence, file=sys.stderr)
