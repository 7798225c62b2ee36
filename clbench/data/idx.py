"""MNIST and Fashion-MNIST: four idx files, each with or without `.gz`."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clbench.data.reader import Decoded, Files, OfficialFiles, check_shape, compare_md5, read
from clbench.errors import UserError
from clbench.files import read_bounded

STEMS = {"train": "train", "test": "t10k"}
KINDS = {"images": ("images-idx3-ubyte", 3), "labels": ("labels-idx1-ubyte", 1)}


@dataclass(frozen=True)
class Idx(OfficialFiles):
    """Reads the format of LeCun's page: big-endian sizes, then one byte per pixel or label."""

    def file(self, folder: Path, name: str) -> Path:
        """The usual names; `.gz` first, because torchvision leaves it beside the unpacked file."""
        dotted = name.replace("-idx", ".idx")
        names = (f"{name}.gz", name, f"{dotted}.gz", dotted)
        return next((folder / n for n in names if (folder / n).is_file()), folder / name)

    def compare(self, source: Files, name: str, content: bytes) -> str:
        """The md5s are those of the official `.gz` and of its content."""
        packed, plain = self.md5[name]
        path = source.files[name]
        problem = compare_md5(path.name, content, plain)
        # The same content, compressed again by someone else, is still the official data.
        if problem and path.suffix == ".gz":
            return compare_md5(path.name, read_bounded(path, self.largest), packed)
        return problem

    def count(self, source: Files) -> dict[str, int]:
        labels, dimensions = KINDS["labels"]
        files = {part: source.files[f"{stem}-{labels}"] for part, stem in STEMS.items()}
        return {part: len(self._read(path, dimensions)) for part, path in files.items()}

    def decode(self, source: Files, accept: bool) -> Decoded:
        arrays = {}
        for part, stem in STEMS.items():
            images, labels = (
                self._read(source.files[f"{stem}-{kind}"], n) for kind, n in KINDS.values()
            )
            if len(images) != len(labels):
                raise UserError(
                    f"{source.where}: {len(images):,} images of part {part!r} "
                    f"have {len(labels):,} labels."
                )
            arrays[part] = images[:, None], labels  # (N, 1, 28, 28)
        return Decoded.of(arrays, self.classes)

    def _read(self, path: Path, dimensions: int) -> np.ndarray:
        """The unsigned bytes of an idx file, in the shape that its head declares."""
        content, start = read(path, self.largest), 4 + 4 * dimensions
        if content[:4] != bytes([0, 0, 8, dimensions]) or len(content) < start:
            raise UserError(f"{path} is not an idx file of {dimensions} dimension(s) of bytes.")
        shape = [int(n) for n in np.frombuffer(content, ">u4", count=dimensions, offset=4)]
        body = np.frombuffer(content, np.uint8, offset=start)
        if body.size != math.prod(shape):
            raise UserError(
                f"{path} is truncated or damaged: it declares {math.prod(shape):,} bytes of data "
                f"and holds {body.size:,}."
            )
        if dimensions > 1:  # before numpy sees sizes that it cannot multiply
            check_shape(path, (1, *shape[1:]), self.shape)
        return body.reshape(shape)
