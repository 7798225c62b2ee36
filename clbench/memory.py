"""Bytes that a method keeps: architecture, replay, auxiliary state.

As in the paper, every number counts 4 bytes (a uint8 pixel too) and MB = 10^6 bytes.
"""

from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass
from operator import add
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

BYTES = 4


@dataclass(frozen=True)
class Memory:
    """Bytes by purpose."""

    architecture: int = 0
    """The network that predicts."""
    replay: int = 0
    """Samples of past tasks."""
    auxiliary: int = 0
    """State that only training needs: importances, anchors, masks, a discriminator."""

    def __add__(self, other: "Memory") -> "Memory":
        return Memory(*map(add, astuple(self), astuple(other)))

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


def of_tensors(tensors: "Iterable[Tensor]") -> int:
    """Bytes of all numbers in the tensors, 4 each."""
    return BYTES * sum(tensor.numel() for tensor in tensors)


def of_model(model: "nn.Module") -> int:
    """Bytes of a network's parameters, 4 each."""
    return of_tensors(model.parameters())
