"""Backbones, and the multi-head network that ordinary methods train."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from clbench.backbone import Network, find
from clbench.networks.backbones import MLP, AlexNet, Backbone, ResNet18, SmallMLP
from clbench.networks.heads import MultiHead
from clbench.scenario import TASK

if TYPE_CHECKING:
    from clbench.stream import Stream

__all__ = ["MLP", "AlexNet", "Backbone", "MultiHead", "ResNet18", "backbone", "heads", "ordinary"]

BACKBONES: dict[str, Callable[[Sequence[int]], Backbone]] = {
    "mlp": MLP,
    "mlp-100": SmallMLP,
    "alexnet": AlexNet,
    "resnet18": ResNet18,
}


def backbone(network: Network | str, input_shape: Sequence[int]) -> Backbone:
    """A fresh backbone for inputs of that shape, of a network or of what `--backbone` takes."""
    network = find(network) if isinstance(network, str) else network
    if network.name in BACKBONES:
        return BACKBONES[network.name](input_shape)
    from clbench.networks.others import foreign

    return foreign(network, input_shape)


def ordinary(stream: "Stream") -> MultiHead:
    """The stream's backbone with one linear head per task, or in `class` and `domain` with one."""
    return MultiHead(backbone(stream.network, stream.input_shape), *heads(stream))


def heads(stream: "Stream") -> tuple[list[int], list[int] | None]:
    """The outputs of each head, and of one head how many are in use from each task on."""
    return stream.heads, None if stream.scenario == TASK else stream.seen
