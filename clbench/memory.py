"""Bytes that a method keeps: architecture, replay, auxiliary state.

As in the paper, every number counts 4 bytes (a uint8 pixel too) and MB = 10^6 bytes.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from clbench.limits import Count

if TYPE_CHECKING:
    from torch import Tensor, nn

BYTES = 4


class Memory(Struct, frozen=True, gc=False):
    """Bytes by purpose."""

    architecture: Count = 0
    """The network that predicts."""
    replay: Count = 0
    """Samples of past tasks."""
    auxiliary: Count = 0
    """State that only training needs: importances, anchors, masks, a discriminator."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.architecture + self.replay + self.auxiliary

    def __add__(self, other: "Memory") -> "Memory":
        return Memory(
            self.architecture + other.architecture,
            self.replay + other.replay,
            self.auxiliary + other.auxiliary,
        )


def of_tensors(tensors: "Iterable[Tensor]") -> int:
    """Bytes of all numbers in the tensors, 4 each."""
    return BYTES * sum(tensor.numel() for tensor in tensors)


def of_model(model: "nn.Module") -> int:
    """Bytes of a network's parameters, 4 each."""
    return of_tensors(model.parameters())
