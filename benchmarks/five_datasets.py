"""5-Datasets: SVHN, CIFAR10, notMNIST, Fashion-MNIST and MNIST, ten classes each.

Images of 28x28 are padded with 0 to 32x32 and repeated to three channels before scaling.
"""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from clbench.benchmark import Benchmark
from clbench.data import DataSet
from clbench.errors import UserError, unknown
from clbench.stream import Source

# mean and std; in the order of the public code, so that seeds give the same task orders
STATISTICS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "cifar10": ((125.3 / 255, 123.0 / 255, 113.9 / 255), (63.0 / 255, 62.1 / 255, 66.7 / 255)),
    "notmnist": ((0.4254,) * 3, (0.4501,) * 3),
    "mnist": ((0.1,) * 3, (0.2752,) * 3),
    "svhn": ((0.4377, 0.4438, 0.4728), (0.198, 0.201, 0.197)),
    "fashion-mnist": ((0.2190,) * 3, (0.3318,) * 3),
}


def to_rgb32(images: Tensor) -> Tensor:
    """(B, 1, 28, 28) -> (B, 3, 32, 32), with a border of 0."""
    return F.pad(images, (2, 2, 2, 2)).expand(-1, 3, -1, -1)


def garble(images: Tensor) -> Tensor:
    """The input of the public code: the image's float32 buffer read as bytes, so 7 rows fit."""
    first = images.float().flatten(1)[:, :196].contiguous()
    return to_rgb32(first.view(torch.uint8).view(-1, 1, 28, 28))


class FiveDatasets(Benchmark):
    """Five data sets of ten classes, one task each, in an order drawn from the seed."""

    title = "5-Datasets"
    datasets = ("cifar10", "notmnist", "mnist", "svhn", "fashion-mnist")

    order: str = "seed"
    """order of the tasks, like mnist/svhn/cifar10/notmnist/fashion-mnist; `seed`: a random one"""
    garbled: bool = False
    """garble MNIST and Fashion-MNIST as the public code does, to measure the effect"""
    backbone: Literal["alexnet", "resnet18"] = "alexnet"
    """network of ordinary methods"""

    def sources(self, data: Mapping[str, DataSet], seed: int) -> list[Source]:
        return [self._source(data[name]) for name in self._order(seed)]

    def _order(self, seed: int) -> list[str]:
        names = list(STATISTICS)
        if self.order == "seed":
            return [names[i] for i in np.random.RandomState(seed).permutation(len(names))]
        order = self.order.split("/")
        for name in order:
            if name not in names:
                raise unknown("data set in order=", name, names)
        if sorted(order) != sorted(names):
            raise UserError(f"order={self.order}: name each of {'/'.join(names)} once.")
        return order

    def _source(self, data: DataSet) -> Source:
        mean, std = STATISTICS[data.name]
        garbled = self.garbled and data.name in ("mnist", "fashion-mnist")
        gray = data.parts["train"].images.shape[1] == 1
        return Source(
            data.parts["train"],
            data.parts["test"],
            tuple(range(data.classes)),
            mean,
            std,
            title=data.name,
            view=(garble if garbled else to_rgb32) if gray else None,
        )
