"""The networks below the heads."""

import math
from collections.abc import Sequence

from torch import Tensor, nn


class Backbone(nn.Module):
    """A network without a head."""

    features: int
    """Width of the output."""


class MLP(Backbone):
    """Two hidden layers of 256 ReLU units, as the paper gives ordinary methods on MNIST."""

    def __init__(self, input_shape: Sequence[int], width: int = 256) -> None:
        super().__init__()
        self.features = width
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(math.prod(input_shape), width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out
