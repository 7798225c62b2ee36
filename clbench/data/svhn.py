"""SVHN, cropped digits: two MATLAB files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clbench.data.matlab import variable
from clbench.data.reader import Block, Decoded, Files, OfficialFiles, check_shape, whole
from clbench.errors import UserError

ROWS = 4096
"""Images transposed at a time: MATLAB stores the number of the image as the last axis."""


@dataclass(frozen=True)
class Svhn(OfficialFiles):
    """Reads X (32, 32, 3, N) and y (N, 1), where the label 10 means the digit 0."""

    def count(self, source: Files) -> dict[str, int]:
        return {_part(name): len(self._labels(path)) for name, path in source.files.items()}

    def decode(self, source: Files, accept: bool) -> Decoded:
        return Decoded(self.count(source), self.classes, self._blocks(source))

    def _blocks(self, source: Files) -> Iterator[Block]:
        for name, path in source.files.items():
            images, labels = variable(path, "X", self.largest), self._labels(path)
            if images.ndim != 4 or images.dtype != np.uint8 or images.shape[3] != len(labels):
                raise UserError(f"{path}: images and {len(labels):,} labels do not match.")
            height, width, channels, _ = images.shape
            check_shape(path, (channels, height, width), self.shape)
            for start in range(0, len(labels), ROWS):
                rows = slice(start, start + ROWS)
                yield _part(name), images[..., rows].transpose(3, 2, 0, 1), labels[rows]

    def _labels(self, path: Path) -> np.ndarray:
        found = variable(path, "y", self.largest)
        if found.size != max(found.shape):
            raise UserError(f"{path} holds labels in a table; one column is needed.")
        labels = whole(path, found.reshape(-1), self.most)
        return np.where(labels == 10, 0, labels)


def _part(name: str) -> str:
    return name.split("_")[0]
