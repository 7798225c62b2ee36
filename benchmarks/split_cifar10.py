"""5-Split CIFAR10: the ten classes in pairs, 0/1 to 8/9, in this order for every seed."""

from collections.abc import Mapping
from typing import Literal

from clbench.benchmark import Benchmark
from clbench.data import DataSet
from clbench.declare import PositiveInt
from clbench.stream import Source, class_tasks


class SplitCIFAR10(Benchmark):
    """The classes of CIFAR10 in five two-way tasks."""

    title = "5-Split CIFAR10"
    datasets = ("cifar10",)

    tasks: PositiveInt = 5
    """number of tasks; must divide 10"""
    backbone: Literal["alexnet", "resnet18"] = "alexnet"
    """network of ordinary methods"""
    scenario: Literal["task", "class"] = "task"
    """task: one head per task; class: one head for all classes seen so far"""

    def sources(self, data: Mapping[str, DataSet], seed: int) -> list[Source]:
        mean, std = (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)
        return class_tasks(data["cifar10"], self.tasks, mean, std)
