"""Every layout that users have gives the pixels and labels that were put in."""

import shutil

import numpy as np
import pytest

from clbench.data import data_root, load
from clbench.data.catalog import READERS
from clbench.data.notmnist import EMPTY, LETTERS


@pytest.mark.parametrize("packed", [True, False], ids=["gz", "plain"])
@pytest.mark.parametrize(
    "place", ["MNIST/raw", "mnist/MNIST/raw"], ids=["torchvision", "avalanche"]
)
def test_idx(make, packed, place):
    parts = make.idx(place, packed)
    data = load("mnist", make.root, accept=True)
    for part, (images, labels) in parts.items():
        assert np.array_equal(data.parts[part].images, images)
        assert np.array_equal(data.parts[part].labels, labels)
    assert data.note == "subset: 30 of 70,000 images"
    assert data.parts["train"].images.dtype == np.uint8
    assert data.parts["train"].labels.dtype == np.int64
    assert not data.parts["train"].images.flags.writeable


def test_idx_identity_does_not_depend_on_packing(make):
    make.idx(packed=True)
    packed = load("mnist", make.root, accept=True).sha256
    shutil.rmtree(make.root)
    make.random = np.random.default_rng(0)
    make.idx(packed=False)
    assert load("mnist", make.root, accept=True).sha256 == packed


@pytest.mark.parametrize("protocol", [0, 2, 3, 4, 5])
def test_cifar100_pickles_of_every_protocol(make, protocol):
    images = make.cifar100(protocol)
    data = load("cifar100", make.root, accept=True)
    for part in ("train", "test"):
        assert np.array_equal(data.parts[part].images, images[part].reshape(-1, 3, 32, 32))
        assert data.parts[part].labels.tolist() == list(range(100))


def test_cifar10_batches_keep_their_order_inside_an_archive(make, tmp_path):
    images = make.cifar10()
    data = load("cifar10", make.root, accept=True)
    train = np.concatenate([images[f"data_batch_{n}"] for n in range(1, 6)])
    assert np.array_equal(data.parts["train"].images, train.reshape(-1, 3, 32, 32))
    folder = make.root / "cifar-10-batches-py"
    make.archive(folder, make.root / "cifar-10-python.tar.gz", "cifar-10-batches-py")
    shutil.rmtree(folder)
    packed = load("cifar10", make.root, accept=True, cache=tmp_path / "other")
    assert packed.sha256 == data.sha256
    assert np.array_equal(packed.parts["train"].images, data.parts["train"].images)


def test_svhn_turns_the_axes_and_writes_ten_as_zero(make):
    images = make.svhn()
    data = load("svhn", make.root, accept=True)
    assert np.array_equal(data.parts["test"].images[3], images["test"][..., 3].transpose(2, 0, 1))
    assert data.parts["test"].labels.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]


@pytest.mark.parametrize("ending", ["tar.gz", "zip"])
def test_notmnist_folders_and_archives_are_the_same(make, ending, tmp_path):
    images = make.notmnist()
    data = load("notmnist", make.root, accept=True)
    assert data.parts["train"].labels.tolist() == sorted(list(range(10)) * 2)
    assert data.parts["test"].labels.tolist() == list(range(10))
    pixels = {array.tobytes() for array in images.values()}
    found = np.concatenate([part.images for part in data.parts.values()])
    assert {array.tobytes() for array in found} == pixels
    folder = make.root / "notMNIST_small"
    make.archive(folder, make.root / f"notMNIST_small.{ending}", "notMNIST_small")
    shutil.rmtree(folder)
    packed = load("notmnist", make.root, accept=True, cache=tmp_path / "other")
    assert packed.sha256 == data.sha256
    assert np.array_equal(packed.parts["test"].images, data.parts["test"].images)


def test_notmnist_keeps_a_division_that_it_comes_with(make):
    make.notmnist("notMNIST/Train", count=2)
    test = make.notmnist("notMNIST/Test", count=1)
    data = load("notmnist", make.root, accept=True)
    assert len(data.parts["train"].labels) == 20
    assert np.array_equal(data.parts["test"].images[:, 0], np.stack(list(test.values())))


def test_notmnist_leaves_out_the_two_empty_files_of_the_official_archive(make):
    make.notmnist()
    for name in EMPTY:
        (make.root / "notMNIST_small" / name).touch()
    reader = READERS["notmnist"]
    source = reader.find(make.root)
    assert source is not None
    assert reader.count(source) == {"train": 20, "test": 10}
    assert load("notmnist", make.root, accept=True).note == "subset: 30 of 18,724 images"


@pytest.mark.parametrize("layout", ["csv", "folders", "pickles"])
def test_miniimagenet(make, layout):
    images = make.mini(layout)
    data = load("miniimagenet", make.root, accept=True)
    assert data.classes == 4
    assert data.note == "subset: 24 of 60,000 images, 4 of 100 classes"
    assert np.bincount(data.parts["train"].labels).tolist() == [5] * 4
    assert np.bincount(data.parts["test"].labels).tolist() == [1] * 4
    expected = {array.tobytes(): int(name[2]) - 1 for name, array in images.items()}
    for part in data.parts.values():
        for image, label in zip(part.images, part.labels, strict=True):
            assert expected.pop(image.transpose(1, 2, 0).tobytes()) == label
    assert not expected


def test_miniimagenet_below_train_val_test_folders(make):
    make.mini("folders")
    folder = make.root / "miniImageNet"
    for file, label in {"train": "n04", "val": "n03", "test": "n02"}.items():
        (folder / file).mkdir()
        (folder / label).rename(folder / file / label)
    shutil.rmtree(folder / "n01")
    assert load("miniimagenet", make.root, accept=True).classes == 3


def test_miniimagenet_resizes_only_what_is_accepted(make):
    make.mini("csv", size=90)
    data = load("miniimagenet", make.root, accept=True)
    assert data.parts["train"].images.shape[1:] == (3, 84, 84)
    assert data.note.endswith("resized to 84x84")


def test_mnist_5k_needs_no_folder():
    data = load("mnist-5k")
    assert data.note == ""
    assert np.bincount(data.parts["train"].labels).tolist() == [400] * 10
    assert np.bincount(data.parts["test"].labels).tolist() == [100] * 10


def test_root_is_the_flag_then_the_variable_then_the_platforms(monkeypatch, tmp_path):
    monkeypatch.setenv("CLBENCH_DATA", str(tmp_path))
    assert data_root("~/x") == data_root("~/x").expanduser()
    assert str(data_root("elsewhere")) == "elsewhere"
    assert data_root(None) == tmp_path
    monkeypatch.delenv("CLBENCH_DATA")
    assert data_root(None).parts[-2:] == ("clbench", "data")


def test_the_catalog_needs_no_files():
    known = READERS
    assert known["miniimagenet"].shape == (3, 84, 84)
    assert sum(known["notmnist"].sizes.values()) == 18_724
    assert len(LETTERS) == known["notmnist"].classes == 10
