"""Backbones, and the multi-head network that ordinary methods train."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from clbench.backbone import Network, find
from clbench.networks.backbones import MLP, AlexNet, Backbone, ResNet18
from clbench.networks.heads import MultiHead

if TYPE_CHECKING:
    from clbench.stream import Stream

__all__ = ["MLP", "AlexNet", "Backbone", "MultiHead", "ResNet18", "backbone", "ordinary"]

BACKBONES: dict[str, Callable[[Sequence[int]], Backbone]] = {
    "mlp": MLP,
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
    """The stream's backbone with one linear head per task."""
    return MultiHead(backbone(stream.network, stream.input_shape), stream.classes)
