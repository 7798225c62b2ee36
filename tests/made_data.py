"""Tiny data sets in every layout, written by the tests."""

import csv
import gzip
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np

from clbench.data.notmnist import LETTERS


class Make:
    """Writes tiny data sets below `root`; pixels are random, labels go round the classes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.random = np.random.default_rng(0)

    def pixels(self, *shape: int) -> np.ndarray:
        return self.random.integers(0, 256, shape, dtype=np.uint8)

    def idx(
        self, place: str = "MNIST/raw", packed: bool = True, test: int = 10, size: int = 28
    ) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        folder = self.root / place
        folder.mkdir(parents=True)
        parts = {}
        for stem, count in {"train": 20, "t10k": test}.items():
            images, labels = self.pixels(count, size, size), np.arange(count, dtype=np.uint8) % 10
            for name, array in {"images-idx3": images, "labels-idx1": labels}.items():
                head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
                data = head + array.tobytes()
                file = folder / f"{stem}-{name}-ubyte{'.gz' if packed else ''}"
                file.write_bytes(gzip.compress(data) if packed else data)
            parts["train" if stem == "train" else "test"] = images[:, None], labels
        return parts

    def cifar100(self, protocol: int = 2, classes: int = 100) -> dict[str, np.ndarray]:
        folder = self.root / "cifar-100-python"
        folder.mkdir(parents=True)
        images = {}
        for part in ("train", "test"):
            images[part] = self.pixels(100, 3072)
            labels = [n % classes for n in range(100)]
            content = {"data": images[part], "fine_labels": labels, "coarse_labels": labels}
            (folder / part).write_bytes(pickle.dumps(content, protocol=protocol))
        return images

    def cifar10(self) -> dict[str, np.ndarray]:
        folder = self.root / "cifar-10-batches-py"
        folder.mkdir(parents=True)
        images = {}
        for name in (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"):
            images[name] = self.pixels(10, 3072)
            content = {"data": images[name], "labels": list(range(10))}
            (folder / name).write_bytes(pickle.dumps(content))
        return images

    def svhn(self) -> dict[str, np.ndarray]:
        from scipy.io import savemat

        self.root.mkdir(parents=True, exist_ok=True)
        images = {}
        for part in ("train", "test"):
            images[part] = self.pixels(32, 32, 3, 10)
            labels = np.arange(1, 11, dtype=np.uint8)[:, None]
            savemat(self.root / f"{part}_32x32.mat", {"X": images[part], "y": labels})
        return images

    def picture(self, path: Path, *shape: int) -> np.ndarray:
        from PIL import Image

        pixels = self.pixels(*shape)
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path, format="PNG")  # lossless, so that pixels compare
        return pixels

    def notmnist(self, place: str = "notMNIST_small", count: int = 3) -> dict[str, np.ndarray]:
        folder = self.root / place
        names = [f"{letter}/{n}.png" for letter in LETTERS for n in range(count)]
        return {name: self.picture(folder / name, 28, 28) for name in names}

    def mini(self, layout: str, count: int = 6, size: int = 84) -> dict[str, np.ndarray]:
        """Four classes, divided 2/1/1 among train, val and test, written in descending order."""
        folder = self.root / "miniImageNet"
        classes = {"train": ["n04", "n03"], "val": ["n02"], "test": ["n01"]}
        images = {}
        for file, labels in classes.items():
            rows, stacked = [], []
            for label in labels:
                for n in range(count):
                    name = f"{label}_{n}.jpg"
                    inner = f"images/{name}" if layout == "csv" else f"{label}/{name}"
                    images[f"{label}/{n}"] = self.picture(folder / inner, size, size, 3)
                    rows.append((name, label))
                    stacked.append(images[f"{label}/{n}"])
            if layout == "csv":
                with (folder / f"{file}.csv").open("w", newline="") as table:
                    csv.writer(table).writerows([("filename", "label"), *rows])
            if layout == "pickles":
                places = {
                    label: [i * count + n for n in range(count)] for i, label in enumerate(labels)
                }
                content = {"image_data": np.stack(stacked), "class_dict": places}
                (folder / f"mini-imagenet-cache-{file}.pkl").write_bytes(pickle.dumps(content))
        if layout == "pickles":
            for path in folder.glob("n0*"):
                for picture in path.iterdir():
                    picture.unlink()
                path.rmdir()
        return images

    def archive(self, folder: Path, target: Path, top: str) -> Path:
        """Pack `folder` as `target`, its files below `top`, in descending order."""
        files = sorted((path for path in folder.rglob("*") if path.is_file()), reverse=True)
        if target.suffix == ".zip":
            with zipfile.ZipFile(target, "w") as packed:
                for path in files:
                    packed.write(path, f"{top}/{path.relative_to(folder)}")
        else:
            with tarfile.open(target, "w:gz") as packed_tar:
                for path in files:
                    packed_tar.add(path, f"{top}/{path.relative_to(folder)}")
        return target
