"""The data sets that clbench knows, with the checksums of their official files.

The checksums are torchvision's (a test compares them); those of unpacked idx files were added.
"""

from itertools import product

from clbench.data.cifar import Cifar
from clbench.data.idx import Idx
from clbench.data.miniimagenet import MiniImageNet
from clbench.data.mnist5k import Mnist5k
from clbench.data.notmnist import NotMnist
from clbench.data.reader import Reader
from clbench.data.svhn import Svhn
from clbench.errors import unknown

GRAY, COLOR = (1, 28, 28), (3, 32, 32)
IDX = "the four files {train,t10k}-{images-idx3,labels-idx1}-ubyte, with or without .gz"


def _of_idx_files(*md5s: tuple[str, str]) -> dict[str, tuple[str, str]]:
    """File -> the md5s of its official `.gz` and of its content."""
    parts = product(("train", "t10k"), ("images-idx3-ubyte", "labels-idx1-ubyte"))
    return {f"{part}-{kind}": pair for (part, kind), pair in zip(parts, md5s, strict=True)}


_ALL: tuple[Reader, ...] = (
    Mnist5k(
        name="mnist-5k",
        title="MNIST, 5,000 images",
        shape=GRAY,
        sizes={"train": 4000, "test": 1000},
    ),
    Idx(
        name="mnist",
        title="MNIST",
        shape=GRAY,
        sizes={"train": 60_000, "test": 10_000},
        places=("MNIST/raw", "mnist/MNIST/raw", "MNIST", "mnist"),
        expects=IDX,
        md5=_of_idx_files(
            ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
            ("d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
            ("9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
            ("ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
        ),
    ),
    Idx(
        name="fashion-mnist",
        title="Fashion-MNIST",
        shape=GRAY,
        sizes={"train": 60_000, "test": 10_000},
        places=("FashionMNIST/raw", "fashionmnist/FashionMNIST/raw", "FashionMNIST"),
        expects=IDX,
        md5=_of_idx_files(
            ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
            ("25c81989df183df01b3e8a0aad5dffbe", "9018921c3c673c538a1fc5bad174d6f9"),
            ("bef4ecab320f06d8554ea6380940ec79", "8181f5470baa50b63fa0f6fddb340f0a"),
            ("bb300cfdad3c16e7a12a480ee83cd310", "15d484375f8d13e6eb1aabb0c3f46965"),
        ),
    ),
    Cifar(
        name="cifar10",
        title="CIFAR10",
        shape=COLOR,
        sizes={"train": 50_000, "test": 10_000},
        places=("cifar-10-batches-py", "cifar10/cifar-10-batches-py"),
        archives=("cifar-10-python.tar.gz", "cifar10/cifar-10-python.tar.gz"),
        expects="data_batch_1 to data_batch_5 and test_batch",
        md5={
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "40351d587109b95175f43aff81a1287e",
        },
    ),
    Cifar(
        name="cifar100",
        title="CIFAR100",
        classes=100,
        shape=COLOR,
        sizes={"train": 50_000, "test": 10_000},
        places=("cifar-100-python", "cifar100/cifar-100-python"),
        archives=("cifar-100-python.tar.gz", "cifar100/cifar-100-python.tar.gz"),
        expects="train and test",
        labels="fine_labels",
        md5={
            "train": "16019d7e3df5f24257cddd939b257f8d",
            "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
        },
    ),
    Svhn(
        name="svhn",
        title="SVHN, cropped digits",
        shape=COLOR,
        sizes={"train": 73_257, "test": 26_032},
        places=(".", "SVHN", "svhn"),
        expects="train_32x32.mat and test_32x32.mat",
        md5={
            "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
            "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
        },
    ),
    NotMnist(
        name="notmnist",
        title="notMNIST (small)",
        shape=GRAY,
        sizes={"train": 18_265, "test": 459},
        places=("notMNIST_small", "notMNIST", "notmnist", "notMNIST/notMNIST_small"),
        archives=("notMNIST_small.tar.gz", "notMNIST_small.zip", "notMNIST.zip", "notMNIST.tar.gz"),
        expects="the folders A to J of images",
    ),
    MiniImageNet(
        name="miniimagenet",
        title="miniImageNet",
        classes=100,
        shape=(3, 84, 84),
        sizes={"train": 50_000, "test": 10_000},
        places=("miniImageNet", "miniimagenet", "mini-imagenet", "mini_imagenet", "miniImagenet"),
        expects=(
            "images/ with train.csv, val.csv and test.csv; or one folder per class; "
            "or mini-imagenet-cache-{train,val,test}.pkl"
        ),
    ),
)

READERS: dict[str, Reader] = {reader.name: reader for reader in _ALL}


def reader_of(name: str) -> Reader:
    """The reader of a data set, or an error with the nearest names."""
    if name not in READERS:
        raise unknown("data set", name, READERS, "Type 'clbench data status' to see them.")
    return READERS[name]
