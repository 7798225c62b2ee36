"""Put a data set into the data root: from the network, or from the user's own files."""

import filecmp
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from clbench.data import archives
from clbench.data.cache import Cache
from clbench.data.catalog import reader_of
from clbench.data.fetch import fetch
from clbench.data.loading import DataSet, identify, locate, open_files
from clbench.data.reader import Files, Reader, readable
from clbench.errors import UserError
from clbench.files import shown

BY_HAND = {
    "notmnist": "notMNIST_small.tar.gz (8,458,043 bytes) from its author's page, "
    "http://yaroslavvb.com/upload/notMNIST/",
    "miniimagenet": "the three files mini-imagenet-cache-{train,val,test}.pkl (Zenodo record "
    "7978538), or the 60,000 images with train.csv, val.csv and test.csv (made from ImageNet by "
    "https://github.com/yaoyao-liu/mini-imagenet-tools)",
}
"""Data sets that no source offers with a checksum, and what a user can get instead."""


@dataclass(frozen=True)
class Download:
    """One official file: where to get it, its checksum, its place below the data root."""

    urls: tuple[str, ...]
    md5: str
    path: str


def prepare(
    name: str, root: Path, cache: Path, given: Path | None = None, accept: bool = False
) -> tuple[DataSet, str]:
    """Make the data set ready in `root`, verified and decoded; nothing there is overwritten. Also
    returns how the files got there: "downloaded", "copied" or "already there"."""
    reader, store = reader_of(name), Cache(cache)
    if given is not None:
        return _take(reader, root, store, given, accept)
    try:
        with readable(root):
            source = reader.find(root)
    except UserError:  # some of its files are there: an earlier download that ended early
        source = None
    how = "already there"
    if source is None:
        with readable(root):
            _download(reader, root)
        source, how = locate(reader, root), "downloaded"
    return open_files(reader, source, accept, store), how


def downloads(name: str) -> list[Download]:
    """The files of a data set, with torchvision's own addresses and checksums."""
    try:
        from torchvision import datasets
    except (ImportError, RuntimeError) as error:
        raise UserError(
            f"torchvision has the addresses of the data, and it does not import ({error}). "
            "Type 'clbench sys-info' to see what is broken."
        ) from None
    if name in ("mnist", "fashion-mnist"):
        official = datasets.MNIST if name == "mnist" else datasets.FashionMNIST
        place = reader_of(name).places[0]
        return [
            Download(tuple(f"{m}{file}" for m in official.mirrors), md5, f"{place}/{file}")
            for file, md5 in official.resources
        ]
    if name in ("cifar10", "cifar100"):
        official = datasets.CIFAR10 if name == "cifar10" else datasets.CIFAR100
        return [Download((official.url,), official.tgz_md5, official.filename)]
    split = datasets.SVHN.split_list
    return [Download((split[p][0],), split[p][2], split[p][1]) for p in ("train", "test")]


def _download(reader: Reader, root: Path) -> None:
    if reader.name in BY_HAND:
        raise UserError(
            f"clbench does not download {reader.title}, because no source has a published "
            f"checksum. Get {BY_HAND[reader.name]}. Then put {reader.expects} into "
            f"{root / reader.places[0]}, or type 'clbench data prepare {reader.name} --from "
            "FILE_OR_FOLDER'."
        )
    for file in downloads(reader.name):
        target = root / file.path
        if not target.exists():
            advice = (
                f"Get it in another way and save it as {target}, or type "
                f"'clbench data prepare {reader.name} --from FILE_OR_FOLDER'."
            )
            fetch(file.urls, target, file.md5, advice)


def _take(
    reader: Reader, root: Path, cache: Cache, given: Path, accept: bool
) -> tuple[DataSet, str]:
    """Verify and decode the files at `given`, then copy them into the layout of `root`."""
    if not reader.places:
        raise UserError(f"{reader.name} is part of a package: leave out --from.")
    with readable(given):
        if not given.exists():
            raise UserError(f"--from {given}: no such file or folder.")
        if not (given.is_dir() or given.is_file()):
            raise UserError(f"--from {given}: it is neither a file nor a folder.")
    with _disk(root):
        root.mkdir(parents=True, exist_ok=True)
        staging = root / f".staging-{uuid.uuid4().hex}"
        staging.mkdir()
        try:
            source = _open(reader, given, staging / "unpacked")
            instead = "name the official files in --from"
            data = open_files(reader, source, accept, cache, instead)
            moves = _copies(reader, source, root, staging / "copies")
            for copy, target in moves:
                target.parent.mkdir(parents=True, exist_ok=True)
                os.rename(copy, target)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    arrived = locate(reader, root)
    if identify(reader, arrived, cache).sha256 != data.sha256:
        raise UserError(
            f"clbench reads {arrived.where}, not the files from {given} beside it. Move it away."
        )
    return data, "copied" if moves else "already there"


def _open(reader: Reader, given: Path, unpacked: Path) -> Files:
    """The data set in `given`: an archive, a folder up to three levels above, or one file of it."""
    if given.is_file() and archives.is_archive(given):
        if _archive_name(reader, given):
            return Files(given, {given.name: given}, layout="archive")
        archives.unpack(given, unpacked, reader.largest, reader.most)
        folder = unpacked
    else:
        folder = given if given.is_dir() else given.parent
    source = reader.look(folder) or reader.find(folder)
    for depth in ("*/", "*/*/", "*/*/*/"):
        for inner in sorted(folder.glob(depth)):
            source = source or reader.look(inner)
    if source is None:
        raise UserError(
            f"--from {given}: no {reader.title} in it. Needed: {reader.expects or 'nothing'}."
        )
    return source


def _archive_name(reader: Reader, path: Path) -> str:
    """The name of this archive in the data root; empty if it has to be unpacked."""
    ending = ".zip" if path.name.lower().endswith(".zip") else ".tar.gz"
    known = [name for name in reader.archives if name.endswith(ending)]
    return path.name if path.name in known else next(iter(known), "")


def _copies(reader: Reader, source: Files, root: Path, staging: Path) -> list[tuple[Path, Path]]:
    """Copy each file of `source` that the data root lacks; returns copies and their places."""
    moves: list[tuple[Path, Path]] = []
    for name, path in source.files.items():
        if source.layout == "archive":
            target = root / _archive_name(reader, path)
        else:  # a file keeps its own name, which may end in .gz
            inner = Path(name) if path.is_dir() else Path(name).with_name(path.name)
            target = root / reader.places[0] / inner
        if target.exists():
            if _equal(path, target):
                continue
            raise UserError(
                f"{target} has other content and is not overwritten. Move it away and type the "
                "same command again."
            )
        copy = staging / str(len(moves))
        copy.parent.mkdir(parents=True, exist_ok=True)
        _copy(path, copy)
        moves.append((copy, target))
    return moves


def _contents(path: Path) -> dict[str, Path]:
    """The file itself, or the files of a folder by name."""
    return {p.name: p for p in path.iterdir() if p.is_file()} if path.is_dir() else {"": path}


def _equal(one: Path, other: Path) -> bool:
    """Whether two files, or the files of two folders, have the same names and bytes."""
    if one.samefile(other):
        return True
    ours, theirs = _contents(one), _contents(other)
    return ours.keys() == theirs.keys() and all(
        filecmp.cmp(file, theirs[name], shallow=False) for name, file in ours.items()
    )


def _copy(path: Path, copy: Path) -> None:
    """Copy contents only: a copy of a read-only folder could not be moved."""
    if path.is_dir():
        copy.mkdir()
    for name, file in _contents(path).items():
        shutil.copyfile(file, copy / name)


@contextmanager
def _disk(root: Path) -> Iterator[None]:
    """Turn the error of a data root that cannot be written into a UserError."""
    try:
        yield
    except OSError as error:
        place = f"The data root {root} cannot be written"
        if error.filename and not Path(error.filename).is_relative_to(root):
            place = f"{shown(Path(error.filename))} cannot be read"
        raise UserError(f"{place}: {error.strerror or error}.") from None
