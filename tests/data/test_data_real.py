"""The real files, where they are: full MNIST and CIFAR100, and what there is of the others."""

import numpy as np
import pytest

from clbench.data import DataSet, load
from clbench.data.catalog import reader_of
from clbench.errors import UserError


def opened(name: str, root: object, **options: bool) -> DataSet:
    """The data set, or a skip in words if this machine does not have it."""
    try:
        return load(name, root, **options)  # type: ignore[arg-type]
    except UserError as error:
        if "is not in the data root" in str(error):
            pytest.skip(str(error))
        raise


def test_mnist_is_official(real_root):
    data = opened("mnist", real_root)
    assert data.note == ""
    train, test = data.parts["train"], data.parts["test"]
    assert train.labels[:8].tolist() == [5, 0, 4, 1, 9, 2, 1, 3]
    assert test.labels[:4].tolist() == [7, 2, 1, 0]
    counts = np.bincount(train.labels).reshape(5, 2).sum(1).tolist()
    # Train and valid of the paper's 5-Split MNIST together, task by task.
    assert counts == [10766 + 1899, 10276 + 1813, 9574 + 1689, 10356 + 1827, 10030 + 1770]
    assert np.bincount(test.labels).reshape(5, 2).sum(1).tolist() == [2115, 2042, 1874, 1986, 1983]
    assert round(float(train.images.mean()) / 255, 4) == 0.1307


def test_cifar100_is_official(real_root):
    data = opened("cifar100", real_root)
    assert data.note == ""
    assert data.parts["train"].labels[:5].tolist() == [19, 29, 0, 11, 1]  # fine, not coarse
    assert np.bincount(data.parts["train"].labels).tolist() == [500] * 100
    assert np.bincount(data.parts["test"].labels).tolist() == [100] * 100
    means = data.parts["train"].images[::10].mean(axis=(0, 2, 3))
    assert np.allclose(means, [129.3, 124.1, 112.4], atol=1.5)  # red, green, blue


@pytest.mark.parametrize("name", ["fashion-mnist", "cifar10", "svhn", "notmnist", "miniimagenet"])
def test_the_others_are_complete_or_refused(real_root, name):
    data = opened(name, real_root, accept=True)
    known = reader_of(name)
    sizes = {part: len(images.labels) for part, images in data.parts.items()}
    if sizes == known.sizes and data.note == "":
        assert data.classes == known.classes
        return
    with pytest.raises(UserError, match="--accept-data"):
        load(name, real_root)
    assert data.note.startswith(("subset: ", "unofficial"))
    for images in data.parts.values():
        assert images.images.shape[1:] == known.shape
        assert set(np.unique(images.labels)) == set(range(data.classes))


def test_neighbouring_pixels_are_alike(real_root):
    """Garbled axes or channels would make real photographs look like noise."""
    for name in ("cifar10", "svhn", "miniimagenet", "notmnist", "fashion-mnist"):
        images = opened(name, real_root, accept=True).parts["test"].images[:100].astype(float)
        spread = images.std()
        assert np.abs(np.diff(images, axis=3)).mean() < 0.5 * spread, name
        assert np.abs(np.diff(images, axis=2)).mean() < 0.5 * spread, name
