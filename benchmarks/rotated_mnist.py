"""Rotated MNIST: all ten digits in every task, turned by another angle in each."""

from collections.abc import Mapping
from functools import partial
from typing import Literal

import numpy as np
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.functional import rotate

from clbench.benchmark import Benchmark
from clbench.data import DataSet
from clbench.declare import PositiveInt
from clbench.stream import Source


def turn(angle: float, images: Tensor) -> Tensor:
    """A batch (B, C, H, W) turned counter-clockwise by `angle` degrees, with black corners."""
    turned: Tensor = rotate(images, angle, InterpolationMode.BILINEAR)
    return turned


class RotatedMNIST(Benchmark):
    """MNIST turned by one random angle per task, between 0 and 180 degrees."""

    title = "Rotated MNIST"
    datasets = ("mnist",)

    tasks: PositiveInt = 20
    """number of tasks"""
    scenario: Literal["domain", "task"] = "domain"
    """domain: one head for the ten digits of every task; task: one head per task"""

    def sources(self, data: Mapping[str, DataSet], seed: int) -> list[Source]:
        mnist = data["mnist"]
        angles = np.random.RandomState(seed).uniform(0, 180, self.tasks)
        return [
            Source(
                mnist.parts["train"],
                mnist.parts["test"],
                classes=tuple(range(mnist.classes)),
                mean=(0.1307,),
                std=(0.3081,),
                title=f"{angle:.1f} degrees",
                view=partial(turn, float(angle)),
            )
            for angle in angles
        ]
