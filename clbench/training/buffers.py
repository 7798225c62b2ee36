"""Memories of past samples: a reservoir, and a fixed number per class.

Both keep network inputs with their label and task in tensors, draw from the global generator
(which the runner seeds), and carry their state into checkpoints.
"""

from typing import Any

import torch
from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor

from clbench.loader import batches
from clbench.memory import Memory, of_tensors


class Buffer:
    """Samples x, y, t that can be drawn from and saved."""

    def __init__(self) -> None:
        self.x = torch.empty(0)
        self.y = torch.empty(0, dtype=torch.long)
        self.t = torch.empty(0, dtype=torch.long)

    def __len__(self) -> int:
        return len(self.y)

    def draw(self, n: int) -> tuple[Tensor, Tensor, Tensor]:
        """Up to n different samples, at random."""
        rows = torch.randperm(len(self))[:n]
        return self.x[rows], self.y[rows], self.t[rows]

    def memory(self) -> Memory:
        return Memory(replay=of_tensors([self.x]))

    def state_dict(self) -> dict[str, Any]:
        return {"x": self.x, "y": self.y, "t": self.t}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.x, self.y, self.t = state["x"], state["y"], state["t"]

    def _append(self, x: Tensor, y: Tensor, t: Tensor) -> None:
        self.x = torch.cat([self.x, x]) if len(self) else x.clone()
        self.y = torch.cat([self.y, y])
        self.t = torch.cat([self.t, t])


class Reservoir(Buffer):
    """A uniform sample of all that was ever offered (Vitter 1985, algorithm R)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.offered = 0
        """How many samples were offered so far, over all epochs and tasks."""

    def offer(self, x: Tensor, y: Tensor, t: Tensor) -> None:
        """Offer the samples one after the other; sample number n stays with chance size / n."""
        free = min(self.size - len(self), len(y))
        if free > 0:
            self._append(x[:free], y[:free], t[:free])
        counts = torch.arange(self.offered + free + 1, self.offered + len(y) + 1)
        self.offered += len(y)
        slots = (torch.rand(len(counts), dtype=torch.float64) * counts).long()
        for i in (slots < self.size).nonzero().flatten().tolist():
            slot = slots[i]
            self.x[slot], self.y[slot], self.t[slot] = x[free + i], y[free + i], t[free + i]

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"offered": self.offered}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.offered = state["offered"]


class ClassBuffer(Buffer):
    """The same number of samples of every class of every task, drawn when the task is over."""

    def __init__(self, per_class: int) -> None:
        super().__init__()
        self.per_class = per_class

    def keep(self, x: Tensor, y: Tensor, t: Tensor) -> None:
        """Draw `per_class` samples of each class in (t, y)."""
        for task in t.unique().tolist():
            for label in y[t == task].unique().tolist():
                rows = ((t == task) & (y == label)).nonzero().flatten()
                rows = rows[torch.randperm(len(rows))[: self.per_class]]
                self._append(x[rows], y[rows], t[rows])

    def keep_from(self, dataset: Any) -> None:
        """The same, from an Avalanche data set."""
        parts = [(b[0], b[1], b[-1]) for b in batches(dataset, 1000)]
        x, y, t = (torch.cat(column) for column in zip(*parts, strict=True))
        self.keep(x, y, t)


class BufferPlugin(SupervisedPlugin):
    """A plugin whose state is one buffer."""

    buffer: Buffer

    def memory(self) -> Memory:
        return self.buffer.memory()

    def state_dict(self) -> dict[str, Any]:
        return self.buffer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.buffer.load_state_dict(state)
