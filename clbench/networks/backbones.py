"""The networks below the heads."""

import math
from collections.abc import Sequence

from torch import Tensor, nn

from clbench.networks.dropout import Dropout
from clbench.networks.pooling import ReLUMaxPool2d


class Backbone(nn.Module):
    """A network without a head."""

    features: int
    """Width of the output."""
    least_batch = 1
    """The last batch of an epoch joins the one before it if it has fewer samples."""
    layers: nn.Sequential

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out


def least_batch(model: nn.Module) -> int:
    """The fewest samples that the last batch of an epoch should have."""
    return max((m.least_batch for m in model.modules() if isinstance(m, Backbone)), default=1)


class MLP(Backbone):
    """Two hidden layers of 256 ReLU units, the paper's network for ordinary methods on MNIST."""

    def __init__(self, input_shape: Sequence[int], width: int = 256, depth: int = 2) -> None:
        super().__init__()
        self.features, inputs = width, math.prod(input_shape)
        layers: list[nn.Module] = [nn.Flatten()]
        for _ in range(depth):
            layers += [nn.Linear(inputs, width), nn.ReLU()]
            inputs = width
        self.layers = nn.Sequential(*layers)


class _Pixels(nn.Module):
    """The brightness from 0 to 1 of images that were standardized as those of MNIST are."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 0.3081 + 0.1307


class SmallMLP(MLP):
    """The network of Buzzega et al. (2020) on MNIST: two hidden layers of 100 ReLU units, Xavier's
    initial weights, no initial biases. It sees images from 0 to 1, which makes its gradients, and
    so its learning rates, other than those for standardized images."""

    def __init__(self, input_shape: Sequence[int]) -> None:
        super().__init__(input_shape, width=100)
        self.layers.insert(0, _Pixels())
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)


class AlexNet(Backbone):
    """The AlexNet-like network of HAT (Serra et al., 2018), with the paper's parameter counts.

    Dropout comes before ReLU and pooling, not after them, which is equivalent.
    """

    features = 2048

    def __init__(self, input_shape: Sequence[int]) -> None:
        super().__init__()
        channels, size, _ = input_shape
        kernels = (size // 8, size // 10, 2)
        widths = (64, 128, 256)
        layers: list[nn.Module] = []
        for width, kernel, dropout in zip(widths, kernels, (0.2, 0.2, 0.5), strict=True):
            layers += [nn.Conv2d(channels, width, kernel), Dropout(dropout), ReLUMaxPool2d()]
            channels, size = width, (size - kernel + 1) // 2
        layers.append(nn.Flatten())
        inputs = channels * size * size
        for _ in range(2):
            layers += [nn.Linear(inputs, self.features), nn.ReLU(), Dropout(0.5)]
            inputs = self.features
        self.layers = nn.Sequential(*layers)


class _Block(nn.Module):
    """Two 3x3 convolutions with batch norm around a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = nn.functional.relu(self.path(x) + self.shortcut(x))
        return out


class ResNet18(Backbone):
    """ResNet18 with a third of the usual channels (20, 40, 80, 160), as in GEM and A-GEM."""

    features = 160

    def __init__(self, input_shape: Sequence[int], width: int = 20) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(input_shape[0], width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        ]
        inputs = width
        for stage in range(4):
            outputs = width * 2**stage
            layers += [
                _Block(inputs, outputs, stride=1 if stage == 0 else 2),
                _Block(outputs, outputs, stride=1),
            ]
            inputs = outputs
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
