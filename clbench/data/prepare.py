"""Bring a data set into the data root: from the network, or from what the user already has."""

import errno
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
from clbench.data.source import Files, Reader
from clbench.errors import UserError

BY_HAND = {
    "notmnist": (
        "notMNIST has no source with a published checksum, so it is not downloaded. Get "
        "notMNIST_small.tar.gz (8,458,043 bytes; its author's page is "
        "http://yaroslavvb.com/upload/notMNIST/) and put it, packed, into {root}; or unpacked, so "
        "that {root}/notMNIST_small holds the folders A to J. Or let "
        "'clbench data prepare notmnist --from FILE_OR_FOLDER' do that."
    ),
    "miniimagenet": (
        "miniImageNet has no source with a published checksum, so it is not downloaded. Get the "
        "three files mini-imagenet-cache-{{train,val,test}}.pkl (Zenodo record 7978538 has them) "
        "or the 60,000 images with train.csv, val.csv and test.csv (made from ImageNet by "
        "https://github.com/yaoyao-liu/mini-imagenet-tools), and put the three files, or the "
        "folder images and the three CSVs, into {root}/miniImageNet. Or let "
        "'clbench data prepare miniimagenet --from FOLDER' do that."
    ),
}


@dataclass(frozen=True)
class Download:
    """One official file: where to get it, its checksum, its place below the data root."""

    urls: tuple[str, ...]
    md5: str
    path: str


def prepare(
    name: str, root: Path, cache: Path, given: Path | None = None, accept: bool = False
) -> DataSet:
    """Make the data set ready in `root`, verified and decoded; nothing there is overwritten."""
    reader, store = reader_of(name), Cache(cache)
    if given is not None:
        return _take(reader, root, store, given, accept)
    try:
        source = reader.find(root)
    except UserError:  # some of its files are there: an earlier download that ended early
        source = None
    if source is None:
        _download(reader, root)
        source = locate(reader, root)
    inspection = identify(reader, source, store)
    if inspection.problem and not accept:
        raise UserError(
            f"{source.where} already holds another {reader.title}: {inspection.problem}. Move it "
            "away and type the same again, or use it as it is with --accept-data."
        )
    return open_files(reader, source, accept, store)


def downloads(name: str) -> list[Download]:
    """The files of a data set, with torchvision's own addresses and checksums."""
    try:
        from torchvision import datasets
    except (ImportError, RuntimeError) as error:
        raise UserError(
            f"torchvision, which knows the addresses, does not import ({error}). "
            "Type 'clbench sys-info' to see what is broken."
        ) from None
    if name in ("mnist", "fashion-mnist"):
        official = datasets.MNIST if name == "mnist" else datasets.FashionMNIST
        mirrors = official.mirrors
        return [
            Download(tuple(f"{m}{file}" for m in mirrors), md5, f"{reader_of(name).home}/{file}")
            for file, md5 in official.resources
        ]
    if name in ("cifar10", "cifar100"):
        official = datasets.CIFAR10 if name == "cifar10" else datasets.CIFAR100
        return [Download((official.url,), official.tgz_md5, official.filename)]
    split = datasets.SVHN.split_list
    return [Download((split[p][0],), split[p][2], split[p][1]) for p in ("train", "test")]


def _download(reader: Reader, root: Path) -> None:
    if reader.name in BY_HAND:
        raise UserError(BY_HAND[reader.name].format(root=root))
    for file in downloads(reader.name):
        target = root / file.path
        if not target.exists():
            advice = (
                f"Get it by other means and place it as {target}, or hand it over with "
                f"'clbench data prepare {reader.name} --from FILE_OR_FOLDER'."
            )
            fetch(file.urls, target, file.md5, advice)


def _take(reader: Reader, root: Path, cache: Cache, given: Path, accept: bool) -> DataSet:
    """Verify and decode what lies at `given`, then copy it into the layout of `root`."""
    if not reader.places:
        raise UserError(f"{reader.name} comes with a package: it takes no --from.")
    if not given.exists():
        raise UserError(f"--from {given}: there is no such file or folder.")
    with _disk(root):
        root.mkdir(parents=True, exist_ok=True)
        staging = root / f".staging-{uuid.uuid4().hex}"
        staging.mkdir()
        try:
            source = _open(reader, given, staging / "unpacked")
            data = open_files(reader, source, accept, cache)
            moves = _copies(reader, source, root, staging / "copies")
            for copy, target in moves:
                target.parent.mkdir(parents=True, exist_ok=True)
                os.rename(copy, target)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    arrived = locate(reader, root)
    if identify(reader, arrived, cache).sha256 != data.sha256:
        raise UserError(
            f"{arrived.where} is found before what was copied from {given}. Move it away."
        )
    return data


def _open(reader: Reader, given: Path, unpacked: Path) -> Files:
    """The data set in `given`: an archive, a folder at any level, or one of its files."""
    if given.is_file() and archives.is_archive(given):
        if _archive_name(reader, given):
            return reader.archived(given)
        archives.unpack(given, unpacked)
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
    """The name under which the data root keeps this archive packed; empty if it does not."""
    ending = ".zip" if path.name.lower().endswith(".zip") else ".tar.gz"
    known = [name for name in reader.archives if name.endswith(ending)]
    return path.name if path.name in known else next(iter(known), "")


def _copies(reader: Reader, source: Files, root: Path, staging: Path) -> list[tuple[Path, Path]]:
    """Copy every file of `source`, and say where each copy belongs."""
    moves: list[tuple[Path, Path]] = []
    for name, path in source.files.items():
        if source.layout == "archive":
            target = root / _archive_name(reader, path)
        else:  # a file keeps its own name, which may end in .gz
            inner = Path(name) if path.is_dir() else Path(name).with_name(path.name)
            target = root / reader.home / inner
        if target.exists() and target.samefile(path):
            continue
        if target.exists():
            raise UserError(f"{target} is there already and is not overwritten. Move it away.")
        copy = staging / str(len(moves))
        copy.parent.mkdir(parents=True, exist_ok=True)
        _copy(path, copy)
        moves.append((copy, target))
    return moves


def _copy(path: Path, copy: Path) -> None:
    """Contents only: a read-only folder must not become one that cannot be moved."""
    if not path.is_dir():
        shutil.copyfile(path, copy)
        return
    copy.mkdir()
    for file in path.iterdir():
        if file.is_file():
            shutil.copyfile(file, copy / file.name)


@contextmanager
def _disk(root: Path) -> Iterator[None]:
    """A data root that cannot be written, in words."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "the disk is full" if full else error.strerror
        raise UserError(f"The data root {root} cannot be written: {what}.") from None
