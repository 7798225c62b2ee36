"""miniImageNet: 100 classes of 600 images of 84x84, in the three usual layouts.

- `images/*.jpg` with `train.csv`, `val.csv` and `test.csv` (columns filename, label);
- one folder of images per class, also below `train`, `val` and `test`;
- `mini-imagenet-cache-train.pkl`, `-val.pkl` and `-test.pkl`.

The three files divide the *classes*, for few-shot learning. Continual learning needs all classes
in both parts, so the files are joined and every class is divided again: one image in six is for
testing (100 of 600), the first by the SHA-256 of `class/file name`. Classes are numbered in the
order of their WordNet ids.
"""

import csv
import hashlib
import io
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clbench.data import pickles, pictures
from clbench.data.reader import (
    Block,
    Decoded,
    Files,
    Inspection,
    Reader,
    WrongSizeError,
    all_or_none,
    identity,
    listed,
)
from clbench.data.split import shuffled
from clbench.errors import UserError
from clbench.files import brief, opened, read_bounded, read_text

FILES = ("train", "val", "test")
PER_CLASS = 600
ROWS = 500
"""Images per decoded block: 10 MB."""
Parts = dict[str, dict[str, list[str]]]
"""Part -> class -> names of images."""


@dataclass(frozen=True)
class MiniImageNet(Reader):
    """Reads RGB images; complete if it has 100 classes of 600."""

    by_count = True

    def look(self, folder: Path) -> Files | None:
        images = folder / "images"
        tables = [folder / f"{file}.csv" for file in FILES if images.is_dir()]
        if found := all_or_none(folder, {path.name: path for path in tables}):
            return Files(folder, {**found, "images": images}, layout="csv")
        caches = [folder / f"mini-imagenet-cache-{file}.pkl" for file in FILES]
        if found := all_or_none(folder, {path.name: path for path in caches}):
            return Files(folder, found, layout="pickles")
        classes = self._class_folders(folder)
        return Files(folder, classes, layout="folders") if classes else None

    def inspect(self, source: Files) -> Inspection:
        if source.layout == "pickles":
            digests = {n: _hash_file(path, self.largest) for n, path in source.files.items()}
            return Inspection(identity(digests), self._problem(self._pickled_classes(source)))
        index = self._index(source)
        images = [(f"{label}/{n}", path) for label in index for n, path in index[label].items()]
        digests = {name: _hash_file(path, pictures.LARGEST) for name, path in images}
        return Inspection(identity(digests), self._problem(index))

    def count(self, source: Files) -> dict[str, int]:
        pickled = source.layout == "pickles"
        return _sizes(_divide(self._pickled_classes(source) if pickled else self._index(source)))

    def decode(self, source: Files, accept: bool) -> Decoded:
        if source.layout == "pickles":
            classes = self._pickled_classes(source)
            parts = _divide(classes)
            return Decoded(_sizes(parts), len(classes), self._unpickled(source, classes, parts))
        index = self._index(source)
        parts = _divide(index)
        remarks: set[str] = set()
        blocks = self._decoded(index, parts, remarks if accept else None)
        return Decoded(_sizes(parts), len(index), blocks, remarks)

    def _decoded(
        self, index: dict[str, dict[str, Path]], parts: Parts, remarks: set[str] | None
    ) -> Iterator[Block]:
        for part, chosen in parts.items():
            for number, label in enumerate(index):
                paths = [index[label][name] for name in chosen[label]]
                for start in range(0, len(paths), ROWS):
                    images = [self._picture(p, remarks) for p in paths[start : start + ROWS]]
                    yield part, np.stack(images), np.full(len(images), number)

    def _picture(self, path: Path, remarks: set[str] | None) -> np.ndarray:
        try:
            return pictures.decode(path, read_bounded(path, pictures.LARGEST), self.shape, remarks)
        except WrongSizeError as error:
            raise UserError(f"{error} Add --accept-data to your command to resize it.") from None

    def _unpickled(
        self, source: Files, classes: dict[str, list[str]], parts: Parts
    ) -> Iterator[Block]:
        numbers = {label: number for number, label in enumerate(classes)}
        for path in source.files.values():  # one at a time, because the largest takes 0.8 GB
            images, rows = self._unpickle(path)
            if images.shape[1:] != (84, 84, 3) or images.dtype != np.uint8:
                raise UserError(f"{path} holds images of {images.shape[1:]}, not of 84x84x3 bytes.")
            for label, numbers_in_file in rows.items():
                for part, chosen in parts.items():
                    picked = np.array([numbers_in_file[int(name)] for name in chosen[label]])
                    labels = np.full(len(picked), numbers[label])
                    yield part, images[picked].transpose(0, 3, 1, 2), labels
            del images

    def _problem(self, index: Mapping[str, Mapping[str, Path] | list[str]]) -> str:
        found = sum(len(files) for files in index.values())
        if len(index) == self.classes and all(len(f) == PER_CLASS for f in index.values()):
            return ""
        return (
            f"it has {found:,} images of {len(index)} classes, "
            f"the complete set has {self.classes} classes of {PER_CLASS}"
        )

    def _class_folders(self, folder: Path) -> dict[str, Path]:
        """`class` or `train/class` -> folder, for each folder named like a WordNet id."""
        tops = [folder / file for file in FILES if (folder / file).is_dir()] or [folder]
        paths = [path for top in tops for path in listed(top, self.most) if path.is_dir()]
        found = [path for path in paths if path.name[0] == "n" and path.name[1:].isdigit()]
        return {str(path.relative_to(folder)): path for path in found}

    def _index(self, source: Files) -> dict[str, dict[str, Path]]:
        """Class -> file name -> file, both sorted."""
        index: dict[str, dict[str, Path]] = {}
        if source.layout == "csv":
            for file in FILES:
                for name, label in self._table(source.files[f"{file}.csv"]):
                    index.setdefault(label, {})[name] = source.files["images"] / name
            present = {path.name for path in listed(source.files["images"], self.most)}
            for label, files in index.items():
                if missing := [name for name in files if name not in present]:
                    raise UserError(
                        f"{source.where / 'images'} lacks {len(missing):,} image(s) of the class "
                        f"{brief(label)}, for example {brief(missing[0])}."
                    )
        else:
            left = self.most
            for folder in source.files.values():
                paths = listed(folder, left)
                left -= len(paths)
                files = {path.name: path for path in paths if pictures.is_picture(path.name)}
                if not files:
                    raise UserError(f"{folder} is the folder of a class, but holds no images.")
                index.setdefault(folder.name, {}).update(files)
        return {label: dict(sorted(index[label].items())) for label in sorted(index)}

    def _table(self, path: Path) -> Iterator[tuple[str, str]]:
        """Image and class of each row."""
        try:
            text = read_text(path, self.most * 128)
            for number, row in enumerate(csv.DictReader(io.StringIO(text, newline=""))):
                if number >= self.most:
                    raise UserError(f"{path} has more rows than the data set can have images.")
                name, label = row["filename"], row["label"]
                if not name or not label or Path(name).name != name:
                    raise UserError(f"{path} has a row without an image or class: {brief(row)}.")
                yield name, label
        except (KeyError, csv.Error):
            raise UserError(f"{path} must be a CSV with the columns filename and label.") from None

    def _pickled_classes(self, source: Files) -> dict[str, list[str]]:
        """Class -> names of its images; in a pickle, the name is the position in the class."""
        classes: dict[str, list[str]] = {}
        for path in source.files.values():
            for label, rows in self._unpickle(path)[1].items():
                if label in classes:
                    raise UserError(
                        f"{path} holds the class {brief(label)}, and so does another file."
                    )
                classes[label] = [str(place) for place in range(len(rows))]
        return dict(sorted(classes.items()))

    def _unpickle(self, path: Path) -> tuple[np.ndarray, dict[str, list[int]]]:
        with opened(path, self.largest) as file:
            content = pickles.unpickle(file, path)
        try:
            images, found = content["image_data"], content["class_dict"]
            if sum(map(len, found.values())) > self.most:  # one list may stand for many classes
                raise ValueError("it has more images than the data set can have")
            rows = {label: [operator.index(n) for n in found[label]] for label in found}
            inside = all(0 <= row < len(images) for chosen in rows.values() for row in chosen)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(f"{path} lacks image_data or class_dict ({brief(error)}).") from None
        if not isinstance(images, np.ndarray) or images.ndim != 4 or not inside:
            raise UserError(f"{path}: image_data and class_dict do not fit together.")
        return images, rows


def _divide(index: Mapping[str, Mapping[str, Path] | list[str]]) -> Parts:
    """One image in six of each class is for testing."""
    parts: Parts = {"train": {}, "test": {}}
    for label, names in index.items():
        if len(names) < 2:
            raise UserError(f"The class {label} of miniImageNet has one image: two are needed.")
        count = max(1, round(len(names) / 6))
        test = {
            name.rsplit("/", 1)[1] for name in shuffled([f"{label}/{n}" for n in names])[:count]
        }
        parts["train"][label] = [name for name in names if name not in test]
        parts["test"][label] = [name for name in names if name in test]
    return parts


def _sizes(parts: Parts) -> dict[str, int]:
    return {part: sum(map(len, chosen.values())) for part, chosen in parts.items()}


def _hash_file(path: Path, limit: int) -> str:
    with opened(path, limit) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
