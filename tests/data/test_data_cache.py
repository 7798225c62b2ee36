"""The cache of decoded images: fast, atomic, rebuilt when damaged."""

import errno
import json
import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest

from clbench.data import cache as cache_module
from clbench.data import load
from clbench.data.idx import Idx
from clbench.errors import UserError


def entry(cache: Path) -> Path:
    (found,) = cache.glob("mnist-*")
    return found


def flip(path: Path) -> None:
    """Change the last byte and hide it: same size, same time."""
    stat = path.stat()
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 1]))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_the_second_opening_reads_no_source(make, monkeypatch):
    make.idx()
    first = load("mnist", make.root, accept=True)
    monkeypatch.setattr(Idx, "inspect", None)
    monkeypatch.setattr(Idx, "decode", None)
    second = load("mnist", make.root, accept=True)
    assert second.sha256 == first.sha256
    assert isinstance(second.parts["train"].images, np.memmap)
    assert np.array_equal(second.parts["train"].images, first.parts["train"].images)


def test_what_was_not_accepted_before_is_still_refused(make):
    make.idx()
    load("mnist", make.root, accept=True)
    with pytest.raises(UserError, match="--accept-data"):
        load("mnist", make.root)


def test_a_changed_source_is_another_entry(make, cache):
    make.idx()
    first = load("mnist", make.root, accept=True).sha256
    for path in (make.root / "MNIST/raw").iterdir():
        path.unlink()
    (make.root / "MNIST/raw").rmdir()
    make.idx()  # other random pixels
    assert load("mnist", make.root, accept=True).sha256 != first
    assert len(list(cache.glob("mnist-*"))) == 2


@pytest.mark.parametrize("name", ["train-images.npy", "test-labels.npy"])
def test_a_flipped_byte_is_found_and_repaired(make, cache, name, capfd):
    parts = make.idx()
    load("mnist", make.root, accept=True)
    flip(entry(cache) / name)
    data = load("mnist", make.root, accept=True)
    assert f"the checksum of {name} differs" in capfd.readouterr().err
    assert np.array_equal(data.parts["train"].images, parts["train"][0])
    assert np.array_equal(data.parts["test"].labels, parts["test"][1])
    load("mnist", make.root, accept=True)
    assert capfd.readouterr().err == ""


def test_large_entries_are_checked_when_their_time_changed(make, cache, monkeypatch, capfd):
    monkeypatch.setattr(cache_module, "ALWAYS", 0)
    make.idx()
    load("mnist", make.root, accept=True)
    path = entry(cache) / "train-images.npy"
    flip(path)
    os.utime(path)
    progress = capfd.readouterr().err
    assert "30 images of MNIST" in progress
    assert "Warning" not in progress
    load("mnist", make.root, accept=True)
    assert "damaged" in capfd.readouterr().err


@pytest.mark.parametrize("damage", ["truncate", "remove", "manifest", "no manifest"])
def test_other_damage_is_repaired(make, cache, damage, capfd):
    parts = make.idx()
    load("mnist", make.root, accept=True)
    folder = entry(cache)
    if damage == "truncate":
        os.truncate(folder / "train-images.npy", 200)
    elif damage == "remove":
        (folder / "train-images.npy").unlink()
    elif damage == "manifest":
        (folder / "manifest.json").write_text('{"format": 1')
    else:
        (folder / "manifest.json").unlink()
    data = load("mnist", make.root, accept=True)
    assert np.array_equal(data.parts["train"].images, parts["train"][0])
    said = capfd.readouterr().err
    assert said.startswith("Warning: ")
    assert "decoding mnist again" in said
    assert ("train-images.npy has 200 bytes" in said) == (damage == "truncate")
    assert not list(cache.glob(".tmp-*"))


def test_a_disk_that_fills_up_leaves_nothing(make, cache, monkeypatch):
    make.idx()

    class Full(cache_module._Npy):
        def append(self, rows: np.ndarray) -> None:
            super().append(rows)
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache_module, "_Npy", Full)
    needed = 30 * (784 + 8)
    with pytest.raises(UserError, match=f"disk is full: .* {needed:,} bytes in {cache}"):
        load("mnist", make.root, accept=True)
    assert [path.name for path in cache.iterdir()] == ["sources"]
    monkeypatch.undo()
    assert len(load("mnist", make.root, accept=True, cache=cache).parts["train"].labels) == 20


def test_too_little_space_is_said_before_anything_is_written(make, cache, monkeypatch):
    make.idx()
    usage = cache_module.shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(cache_module.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(UserError, match="disk is full"):
        load("mnist", make.root, accept=True)
    assert not list(cache.glob(".tmp-*"))


def test_a_cache_that_cannot_be_made(make, cache):
    make.idx()
    cache.write_text("a file, not a folder")
    with pytest.raises(UserError, match=r"cannot be written.*CLBENCH_CACHE"):
        load("mnist", make.root, accept=True)


def test_a_source_that_changes_while_it_is_read_is_not_kept(make, cache, monkeypatch):
    make.idx()
    decode = Idx.decode

    def touching(self, source, accept):
        decoded = decode(self, source, accept)
        os.utime(next(iter(source.files.values())), ns=(1, 1))
        return decoded

    monkeypatch.setattr(Idx, "decode", touching)
    with pytest.raises(UserError, match="changed while it was read"):
        load("mnist", make.root, accept=True)
    assert not list(cache.glob("mnist-*"))


def _racer(root: Path, cache: Path, barrier: object, results: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    data = load("mnist", root, accept=True, cache=cache)
    results.put(int(data.parts["train"].images.sum()))  # type: ignore[attr-defined]


@pytest.mark.parametrize("damaged", [False, True], ids=["empty", "damaged"])
def test_several_processes_at_once(make, cache, damaged):
    total = int(make.idx()["train"][0].sum())
    if damaged:
        load("mnist", make.root, accept=True)
        flip(entry(cache) / "train-images.npy")
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(4), context.Queue()
    racers = [
        context.Process(target=_racer, args=(make.root, cache, barrier, results)) for _ in range(4)
    ]
    for racer in racers:
        racer.start()
    sums = [results.get(timeout=60) for _ in racers]
    for racer in racers:
        racer.join()
    assert sums == [total] * 4
    assert not list(cache.glob(".tmp-*"))


def test_the_manifest_holds_no_absolute_path(make, cache):
    make.idx()
    load("mnist", make.root, accept=True)
    manifest = json.loads((entry(cache) / "manifest.json").read_text())
    assert manifest["name"] == "mnist"
    assert str(make.root) not in json.dumps(manifest)
