"""Permuted MNIST: all ten digits in every task, the 784 pixels permuted differently in each."""

from collections.abc import Mapping
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from clbench.benchmark import Benchmark
from clbench.data import DataSet
from clbench.declare import PositiveInt
from clbench.stream import Source


def permute(order: np.ndarray, images: Tensor) -> Tensor:
    """Reorder the pixels of a batch (B, C, H, W), the same way for every image."""
    # much faster than torch's own indexing
    return torch.from_numpy(images.flatten(1).numpy().take(order, 1)).view_as(images)


class PermutedMNIST(Benchmark):
    """MNIST under one random pixel permutation per task, the first task included."""

    title = "Permuted MNIST"
    datasets = ("mnist",)

    added = ("scenario",)

    tasks: PositiveInt = 10
    """number of tasks; the paper has 10, 20, 30 and 40"""
    scenario: Literal["task", "domain"] = "task"
    """task: one head per task; domain: one head for the ten digits of every task"""

    def sources(self, data: Mapping[str, DataSet], seed: int) -> list[Source]:
        mnist = data["mnist"]
        pixels = int(np.prod(mnist.parts["train"].images.shape[1:]))
        return [
            Source(
                mnist.parts["train"],
                mnist.parts["test"],
                classes=tuple(range(mnist.classes)),
                mean=(0.1307,),
                std=(0.3081,),
                title=f"permutation {k + 1}",
                # the public code's permutation k of run `seed`
                view=partial(permute, np.random.RandomState(seed * 100 + k).permutation(pixels)),
            )
            for k in range(self.tasks)
        ]
