"""CIFAR10 and CIFAR100: the "python version", unpacked or in its tar.gz."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np

from clbench.data import archives, pickles
from clbench.data.reader import Decoded, Files, OfficialFiles, check_shape, whole
from clbench.errors import UserError


@dataclass(frozen=True)
class Cifar(OfficialFiles):
    """Reads pickled rows of red, green and blue pixels; files named `test` are for testing."""

    labels: str = "labels"
    """Key under which the class numbers are pickled."""

    def decode(self, source: Files, accept: bool) -> Decoded:
        batches = {
            name: self._batch(f"{source.where} ({name})", content)
            for name, content in self.contents(source)
        }
        sizes = {"train": 0, "test": 0}
        for name, (_, labels) in batches.items():
            sizes[_part(name)] += len(labels)
        # in the order of the official list, because an archive may hold them in any order
        return Decoded(sizes, self.classes, ((_part(n), *batches[n]) for n in self.md5))

    def contents(self, source: Files) -> Iterator[tuple[str, bytes]]:
        if source.layout != "archive":
            yield from super().contents(source)
            return
        missing = set(self.md5)
        for member, content in archives.members(source.where, self.largest, self.most):
            if (name := PurePosixPath(member).name) in missing:
                missing.discard(name)
                yield name, b"".join(content)
        if missing:
            raise UserError(f"{source.where} is incomplete: it lacks {', '.join(sorted(missing))}.")

    def _batch(self, where: str, content: bytes) -> tuple[np.ndarray, np.ndarray]:
        batch = pickles.unpickle(io.BytesIO(content), where)
        try:
            data, labels = batch["data"], whole(where, batch[self.labels], self.most)
        except KeyError as error:
            raise UserError(f"{where} is not a batch of {self.title}: it lacks {error}.") from None
        rows, columns = data.shape if getattr(data, "ndim", 0) == 2 else (-1, -1)
        if rows != len(labels) or data.dtype != np.uint8:
            raise UserError(f"{where}: images and {len(labels):,} labels do not match.")
        check_shape(where, (columns,), (int(np.prod(self.shape)),))
        return data.reshape(-1, *self.shape), labels


def _part(name: str) -> str:
    return "test" if "test" in name else "train"
