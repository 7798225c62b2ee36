"""20-Split miniImageNet: a hundred classes, five per task, in an order from the seed."""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from clbench.benchmark import Benchmark
from clbench.data import DataSet
from clbench.declare import PositiveInt
from clbench.stream import Source, class_tasks


class SplitMiniImageNet(Benchmark):
    """The classes of miniImageNet in twenty five-way tasks."""

    title = "20-Split miniImageNet"
    datasets = ("miniimagenet",)
    protocol = {"lr": 0.05, "batch_size": 64, "epochs": 200, "lr_min": 1e-4}

    tasks: PositiveInt = 20
    """number of tasks; must divide the number of classes, 100 in the full set"""
    backbone: Literal["alexnet", "resnet18"] = "alexnet"
    """network of ordinary methods"""

    def sources(self, data: Mapping[str, DataSet], seed: int) -> list[Source]:
        mini = data["miniimagenet"]
        order = np.random.RandomState(seed).permutation(mini.classes)  # as in the public code
        mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        return class_tasks(mini, self.tasks, mean, std, order.tolist())
