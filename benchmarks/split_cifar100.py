"""20-Split CIFAR100: a hundred classes, five per task, in an order from the seed."""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from clbench.benchmark import Benchmark
from clbench.data import DataSet
from clbench.declare import PositiveInt
from clbench.stream import Source, class_tasks


class SplitCIFAR100(Benchmark):
    """The classes of CIFAR100 in twenty five-way tasks."""

    title = "20-Split CIFAR100"
    datasets = ("cifar100",)
    mean = (125.3 / 255, 123.0 / 255, 113.9 / 255)
    std = (63.0 / 255, 62.1 / 255, 66.7 / 255)

    added = ("scenario",)

    tasks: PositiveInt = 20
    """number of tasks; must divide the number of classes, 100 in the full set"""
    backbone: Literal["alexnet", "resnet18"] = "alexnet"
    """network of ordinary methods"""
    scenario: Literal["task", "class"] = "task"
    """task: one head per task; class: one head for all classes seen so far"""

    def sources(self, data: Mapping[str, DataSet], seed: int) -> list[Source]:
        images = data[self.datasets[0]]
        order = np.random.RandomState(seed).permutation(images.classes)  # as in the public code
        return class_tasks(images, self.tasks, self.mean, self.std, order.tolist())
