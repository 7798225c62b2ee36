"""MNIST and Fashion-MNIST: four idx files, each with or without `.gz`."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from clbench.data.source import (
    Decoded,
    Files,
    Inspection,
    Reader,
    check_shape,
    compare_md5,
    complete,
    identity,
    read_gzip,
)
from clbench.errors import UserError

STEMS = {"train": "train", "test": "t10k"}
KINDS = {"images": ("images-idx3-ubyte", 3), "labels": ("labels-idx1-ubyte", 1)}


@dataclass(frozen=True)
class Idx(Reader):
    """Reads the format of LeCun's page: big-endian sizes, then one byte a pixel or label."""

    md5: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """File name -> md5 of the official `.gz` and of what is in it."""

    def look(self, folder: Path) -> Files | None:
        found = {name: _variant(folder, name) for name in self.md5}
        files = complete(folder, found)
        return Files(folder, files) if files else None

    def inspect(self, source: Files) -> Inspection:
        digests, problems = {}, []
        for name, path in source.files.items():
            content = read_gzip(path) if path.suffix == ".gz" else path.read_bytes()
            digests[name] = hashlib.sha256(content).hexdigest()
            packed, plain = self.md5[name]
            # Packed again by someone else, the same content is still the official data.
            problem = compare_md5(path.name, content, plain)
            if problem and path.suffix == ".gz":
                problem = compare_md5(path.name, path.read_bytes(), packed)
            if problem:
                problems.append(problem)
        return Inspection(identity(digests), problems[0] if problems else "")

    def count(self, source: Files) -> dict[str, int]:
        sizes = {}
        for part, stem in STEMS.items():
            path = source.files[f"{stem}-{KINDS['labels'][0]}"]
            try:
                with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                    sizes[part] = _header(path, file.read(8), 1)[0]
            except EOFError:
                read_gzip(path)  # says what is wrong with it
        return sizes

    def decode(self, source: Files, accept: bool) -> Decoded:
        arrays = {}
        for part, stem in STEMS.items():
            images, labels = (_read(source.files[f"{stem}-{k}"], n) for k, n in KINDS.values())
            if len(images) != len(labels):
                raise UserError(
                    f"{source.where}: {len(images):,} images of part {part!r} "
                    f"have {len(labels):,} labels."
                )
            check_shape(source.where, (1, *images.shape[1:]), self.shape)
            arrays[part] = images[:, None], labels  # (N, 1, 28, 28)
        sizes = {part: len(labels) for part, (_, labels) in arrays.items()}
        return Decoded(sizes, self.classes, ((part, *pair) for part, pair in arrays.items()))


def _variant(folder: Path, name: str) -> Path | None:
    """The file under its usual names; `.gz` first, torchvision leaves it beside the unpacked."""
    dotted = name.replace("-idx", ".idx")
    for candidate in (f"{name}.gz", name, f"{dotted}.gz", dotted):
        if (folder / candidate).is_file():
            return folder / candidate
    return None


def _header(path: Path, head: bytes, dimensions: int) -> tuple[int, ...]:
    """The sizes an idx file of unsigned bytes declares."""
    if head[:4] != bytes([0, 0, 8, dimensions]) or len(head) < 4 + 4 * dimensions:
        raise UserError(f"{path} is no idx file of {dimensions} dimension(s) of bytes.")
    return tuple(int(n) for n in np.frombuffer(head, ">u4", count=dimensions, offset=4))


def _read(path: Path, dimensions: int) -> np.ndarray:
    content = read_gzip(path) if path.suffix == ".gz" else path.read_bytes()
    shape = _header(path, content[: 4 + 4 * dimensions], dimensions)
    body = np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions)
    if body.size != int(np.prod(shape)):
        raise UserError(
            f"{path} is truncated or damaged: it declares {int(np.prod(shape)):,} bytes of data "
            f"and holds {body.size:,}."
        )
    return body.reshape(shape)
