"""CIFAR10 and CIFAR100: the "python version", unpacked or in its tar.gz."""

import hashlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np

from clbench.data import archives, pickles
from clbench.data.source import (
    Decoded,
    Files,
    Inspection,
    Reader,
    check_shape,
    compare_md5,
    complete,
    identity,
)
from clbench.errors import UserError


@dataclass(frozen=True)
class Cifar(Reader):
    """Reads pickles of rows of 3,072 bytes: all red, then all green, then all blue pixels."""

    md5: Mapping[str, str] = field(default_factory=dict)
    """Official file -> md5. Files with 'test' in their name are the test part."""
    labels: str = "labels"
    """Key under which the class numbers are pickled."""

    def look(self, folder: Path) -> Files | None:
        paths = {name: folder / name for name in self.md5}
        files = complete(folder, {n: p if p.is_file() else None for n, p in paths.items()})
        return Files(folder, files) if files else None

    def inspect(self, source: Files) -> Inspection:
        digests, problems = {}, []
        for name, content in self._contents(source):
            digests[name] = hashlib.sha256(content).hexdigest()
            if problem := compare_md5(name, content, self.md5[name]):
                problems.append(problem)
        return Inspection(identity(digests), problems[0] if problems else "")

    def count(self, source: Files) -> dict[str, int]:
        return self.decode(source, accept=True).sizes

    def decode(self, source: Files, accept: bool) -> Decoded:
        batches = {}
        for name, content in self._contents(source):
            batches[name] = self._batch(f"{source.where} ({name})", content)
        sizes = {"train": 0, "test": 0}
        for name, (_, labels) in batches.items():
            sizes[_part(name)] += len(labels)
        # In the order of the official list: an archive may hold them in any.
        return Decoded(sizes, self.classes, ((_part(n), *batches[n]) for n in self.md5))

    def _contents(self, source: Files) -> Iterator[tuple[str, bytes]]:
        """Name and bytes of each official file, each exactly once."""
        if source.layout != "archive":
            for name, path in source.files.items():
                yield name, path.read_bytes()
            return
        missing = set(self.md5)
        for member, content in archives.members(source.where):
            if (name := PurePosixPath(member).name) in missing:
                missing.discard(name)
                yield name, content
        if missing:
            raise UserError(f"{source.where} is incomplete: it lacks {', '.join(sorted(missing))}.")

    def _batch(self, where: str, content: bytes) -> tuple[np.ndarray, np.ndarray]:
        batch = pickles.unpickle(io.BytesIO(content), where)
        try:
            data, labels = batch["data"], np.asarray(batch[self.labels], dtype=np.int64)
        except (KeyError, ValueError, TypeError) as error:
            raise UserError(f"{where} is no batch of {self.title}: {error!r}.") from None
        rows, columns = data.shape if getattr(data, "ndim", 0) == 2 else (-1, -1)
        if rows != len(labels) or data.dtype != np.uint8:
            raise UserError(f"{where}: images and {len(labels):,} labels do not match.")
        check_shape(where, (columns,), (int(np.prod(self.shape)),))
        return data.reshape(-1, *self.shape), labels


def _part(name: str) -> str:
    return "test" if "test" in name else "train"
