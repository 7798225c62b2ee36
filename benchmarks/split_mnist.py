"""5-Split MNIST: the ten digits in pairs, 0/1 to 8/9, in this order for every seed."""

from collections.abc import Mapping
from typing import Literal

from clbench.benchmark import Benchmark
from clbench.data import DataSet
from clbench.declare import PositiveInt
from clbench.stream import Source, class_tasks


class SplitMNIST(Benchmark):
    """The digits of MNIST in five two-way tasks."""

    title = "5-Split MNIST"
    datasets = ("mnist",)

    added = ("scenario",)

    tasks: PositiveInt = 5
    """number of tasks; must divide 10"""
    scenario: Literal["task", "class"] = "task"
    """task: one head per task; class: one head for all digits seen so far"""

    def sources(self, data: Mapping[str, DataSet], seed: int) -> list[Source]:
        return class_tasks(data["mnist"], self.tasks, mean=(0.1307,), std=(0.3081,))
