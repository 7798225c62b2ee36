"""Bad input: a sentence and exit code 2, and nothing half read is taken for whole."""

import gzip
import os
import pickle
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import clbench.cli
from clbench.data import catalog, load, pickles
from clbench.errors import UserError


def refuse(name: str, root: Path, words: str, accept: bool = True) -> None:
    with pytest.raises(UserError, match=words):
        load(name, root, accept=accept)


def test_a_users_mistake_ends_with_code_2(make, monkeypatch, capsys):
    make.idx()
    monkeypatch.setitem(clbench.cli.COMMANDS, "data", "Data.")
    monkeypatch.setattr(sys, "argv", ["clbench", "data", "prepare", "mnist"])
    monkeypatch.setenv("CLBENCH_DATA", str(make.root))
    with pytest.raises(SystemExit) as end:
        clbench.cli.main()
    assert end.value.code == 2
    assert "--accept-data" in capsys.readouterr().err


def test_unofficial_files_are_refused_with_the_flag_that_accepts_them(make):
    make.idx()
    refuse("mnist", make.root, "md5 .* --accept-data", accept=False)
    make.notmnist()
    refuse("notmnist", make.root, "30 images.*18,724.*--accept-data", accept=False)


def test_the_official_checksum_needs_no_flag_and_a_flipped_byte_does(make, monkeypatch):
    import hashlib

    make.cifar100()
    folder = make.root / "cifar-100-python"
    md5 = {f: hashlib.md5((folder / f).read_bytes()).hexdigest() for f in ("train", "test")}
    monkeypatch.setitem(catalog.READERS, "cifar100", replace(catalog.READERS["cifar100"], md5=md5))
    assert load("cifar100", make.root).note == ""
    damaged = bytearray((folder / "train").read_bytes())
    damaged[2000] ^= 1
    (folder / "train").write_bytes(damaged)
    refuse("cifar100", make.root, f"train has md5 .*{md5['train']}", accept=False)


def test_truncated_gz(make):
    make.idx()
    path = make.root / "MNIST/raw/train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-500])
    refuse("mnist", make.root, "train-images-idx3-ubyte.gz is truncated")


def test_flipped_byte_in_gz(make):
    make.idx()
    path = make.root / "MNIST/raw/train-images-idx3-ubyte.gz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    refuse("mnist", make.root, "train-images-idx3-ubyte.gz is damaged")


def test_idx_that_holds_less_than_it_declares(make):
    make.idx(packed=False)
    path = make.root / "MNIST/raw/train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    refuse("mnist", make.root, "declares 15,680 bytes of data and holds 15,679")


def test_images_without_labels(make):
    make.idx(packed=False)
    path = make.root / "MNIST/raw/train-labels-idx1-ubyte"
    path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 10, *range(10)]))
    refuse("mnist", make.root, "20 images of part 'train' have 10 labels")


def test_a_missing_file_is_named(make):
    make.idx()
    (make.root / "MNIST/raw/t10k-labels-idx1-ubyte.gz").unlink()
    refuse("mnist", make.root, "incomplete: it lacks t10k-labels-idx1-ubyte")


def test_nothing_there_says_where_it_was_looked_for(make):
    refuse("cifar100", make.root, "cifar-100-python.*clbench data prepare cifar100.*--data-root")


def test_an_unknown_name_is_met_with_the_nearest():
    refuse("cifar1000", Path(), "Did you mean 'cifar100'")


def test_a_missing_class(make):
    make.idx(test=9)
    refuse("mnist", make.root, r"part 'test' has no images of the class\(es\) 9")


def test_a_missing_letter(make):
    make.notmnist()
    for path in (make.root / "notMNIST_small/C").iterdir():
        path.unlink()
    refuse("notmnist", make.root, r"lacks images of the class\(es\) C")


def test_a_missing_image_of_a_csv(make):
    make.mini("csv")
    (make.root / "miniImageNet/images/n03_2.jpg").unlink()
    refuse("miniimagenet", make.root, "lacks 1 image.* of the class n03, for example n03_2.jpg")


def test_image_sizes_that_do_not_fit(make):
    make.idx(size=32)
    refuse("mnist", make.root, "images of 1x32x32; this data set needs 1x28x28")


def test_miniimagenet_of_another_size_says_how_it_is_accepted(make, monkeypatch):
    make.mini("csv", size=90)
    monkeypatch.setattr(type(catalog.READERS["miniimagenet"]), "_problem", lambda *_: "")
    refuse("miniimagenet", make.root, "3x90x90; .*needs 3x84x84.*--accept-data", accept=False)
    load("miniimagenet", make.root, accept=True)
    refuse("miniimagenet", make.root, "only resized.*--accept-data", accept=False)


def test_labels_beyond_the_classes(make):
    make.cifar100(classes=100)
    path = make.root / "cifar-100-python/test"
    content = pickle.loads(path.read_bytes())
    content["fine_labels"][0] = 100
    path.write_bytes(pickle.dumps(content))
    refuse("cifar100", make.root, "labels 0 to 99; part 'test' holds labels from 1 to 100")


@pytest.mark.parametrize("name", ["notmnist", "miniimagenet"])
def test_an_image_that_does_not_decode_is_named(make, name, cache):
    file = {"notmnist": "notMNIST_small/D/1.png", "miniimagenet": "miniImageNet/n02/n02_3.jpg"}
    make.notmnist() if name == "notmnist" else make.mini("folders")
    path = make.root / file[name]
    path.write_bytes(path.read_bytes()[:60])
    refuse(name, make.root, f"{path.name} does not decode as an image")
    assert not list(cache.glob(f"{name}-*"))
    assert not list(cache.glob(".tmp-*"))


class Calls:
    """Pickles as a call of os.mkdir."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __reduce__(self):
        return os.mkdir, (self.folder,)


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_that_calls_a_function_does_not(make, tmp_path, protocol):
    make.cifar100()
    made = tmp_path / "made-by-the-pickle"
    content = {"data": Calls(made), "fine_labels": [0]}
    (make.root / "cifar-100-python/train").write_bytes(pickle.dumps(content, protocol=protocol))
    refuse("cifar100", make.root, "this pickle calls .*mkdir, .*refused")
    assert not made.exists()


def test_a_pickle_of_python_objects_or_of_nonsense(tmp_path):
    path = tmp_path / "train"
    for content, words in (
        (pickle.dumps({"data": np.array([{}], dtype=object)}), "array of object"),
        (pickle.dumps({"data": np.zeros(3, "S4")}), "not of numbers"),
        (pickle.dumps([1]), "holds a list"),
        (pickle.dumps({"data": 1})[:-4], "damaged or not a pickle"),
        (b"", "damaged or not a pickle"),
    ):
        path.write_bytes(content)
        with path.open("rb") as file, pytest.raises(UserError, match=words):
            pickles.unpickle(file, path)


@pytest.mark.parametrize(
    ("member", "words"),
    [
        ("../A/1.png", "points outside"),
        ("x/../../A/1.png", "points outside"),
        ("/tmp/A/1.png", "points outside"),
        ("C:\\A\\1.png", "points outside"),
        ("..\\A\\1.png", "points outside"),
    ],
)
def test_an_archive_that_points_outside(make, tar_of, member, words):
    tar_of(member, make.root / "notMNIST_small.tar.gz")
    refuse("notmnist", make.root, words)


def test_an_archive_with_a_link(make, tar_of):
    tar_of("A/1.png", make.root / "notMNIST_small.tar.gz", link="/etc/passwd")
    refuse("notmnist", make.root, "is a link or device")


@pytest.mark.parametrize("ending", ["tar.gz", "zip"])
def test_a_truncated_archive(make, ending):
    make.notmnist()
    folder = make.root / "notMNIST_small"
    path = make.archive(folder, make.root / f"notMNIST.{ending}", "x")
    folder.rename(make.root / "away")
    path.write_bytes(path.read_bytes()[:3000])
    refuse("notmnist", make.root, f"notMNIST.{ending} is (truncated|damaged)")


def test_a_damaged_mat_file(make):
    make.svhn()
    path = make.root / "train_32x32.mat"
    content = path.read_bytes()
    path.write_bytes(b"no MATLAB" * 100)
    refuse("svhn", make.root, "train_32x32.mat is damaged or no MATLAB 5 file")
    path.write_bytes(content[:1000])
    refuse("svhn", make.root, "train_32x32.mat has no variable 'y': it is truncated")


def test_not_an_idx_file(make):
    make.idx()
    path = make.root / "MNIST/raw/t10k-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(b"<html>not found</html>"))
    refuse("mnist", make.root, "not an idx file")
