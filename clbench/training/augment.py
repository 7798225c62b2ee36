"""Random changes of training images (`--augment`), in the step itself: what a method keeps are the
images without them, and replayed images are changed anew each time."""

from typing import Any

import torch
from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor
from torch.nn import functional as F

from clbench.memory import Memory
from clbench.seeding import generator
from clbench.stream import Stream

SHIFT = 4
"""The most pixels of a shift, in each direction."""


def flip_crop(x: Tensor, black: Tensor, draws: torch.Generator) -> Tensor:
    """Images (B, C, H, W), each mirrored with a chance of 1/2 and shifted by up to `SHIFT` pixels;
    `black` (C, 1, 1) fills what comes in."""
    n, _, height, width = x.shape
    mirrored = torch.rand(n, generator=draws) < 0.5
    down, right = torch.randint(2 * SHIFT + 1, (2, n, 1), generator=draws)
    columns = torch.arange(width).expand(n, -1)
    columns = torch.where(mirrored[:, None], columns.flip(1), columns) + right
    rows = torch.arange(height) + down
    wide = F.pad(x - black, (SHIFT,) * 4)
    at = torch.arange(n)[:, None, None]
    moved = wide.permute(0, 2, 3, 1)[at, rows[:, :, None], columns[:, None, :]]
    return moved.permute(0, 3, 1, 2).contiguous() + black


class Augment(SupervisedPlugin):
    """Changes the images of each training batch before its forward pass."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        split = stream.tasks[0].train
        mean, std = torch.tensor(split.mean), torch.tensor(split.std)
        self.black = (-mean / std).view(-1, 1, 1).to(stream.device)
        self.seed = stream.seed
        self.draws = torch.Generator()

    def memory(self) -> Memory:
        """Nothing between tasks."""
        return Memory()

    def state_dict(self) -> dict[str, Any]:
        """Nothing between tasks: each has its own draws."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing between tasks."""

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        self.draws = generator(self.seed, "augment", strategy.experience.current_experience)

    def before_forward(self, strategy: Any, **kwargs: Any) -> None:
        changed = flip_crop(strategy.mbatch[0], self.black, self.draws)
        strategy.mbatch = [changed, *strategy.mbatch[1:]]


def augmenting(stream: Stream) -> list[Augment]:
    """The plugin that the protocol asks for, if any."""
    return [] if stream.protocol.augment == "none" else [Augment(stream)]
