"""Backbones by name, and the multi-head network that ordinary methods learn with."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import nn

from clbench.networks.backbones import MLP
from clbench.networks.heads import MultiHead

if TYPE_CHECKING:
    from clbench.stream import Stream

__all__ = ["MLP", "MultiHead", "backbone", "ordinary"]

BACKBONES: dict[str, type[nn.Module]] = {"mlp": MLP}


def backbone(name: str, input_shape: Sequence[int]) -> nn.Module:
    """A fresh backbone; `features` is the width of what it returns."""
    return BACKBONES[name](input_shape)


def ordinary(stream: "Stream") -> MultiHead:
    """The benchmark's own backbone with one linear head for each of its tasks."""
    return MultiHead(backbone(stream.backbone, stream.input_shape), stream.classes)
