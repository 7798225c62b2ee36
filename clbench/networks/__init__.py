"""Backbones by name, and the multi-head network that ordinary methods train."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from clbench.errors import unknown
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


def backbone(name: str, input_shape: Sequence[int]) -> Backbone:
    """A fresh backbone for inputs of that shape."""
    if name not in BACKBONES:
        raise unknown("backbone", name, BACKBONES)
    return BACKBONES[name](input_shape)


def ordinary(stream: "Stream") -> MultiHead:
    """The benchmark's backbone with one linear head per task."""
    return MultiHead(backbone(stream.backbone, stream.input_shape), stream.classes)
