"""Memories of past samples, in tensors: a reservoir, and a fixed number per class.

All draw from the global generator, which the runner seeds, and save their state in checkpoints.
"""

from collections.abc import Iterator
from typing import Any

import torch
from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor

from clbench.loader import batch_sizes, labels, samples
from clbench.memory import Memory, of_tensors
from clbench.stream import Stream


def capacity(stream: Stream, per_class: int, buffer: int | None) -> int:
    """The samples that a method may keep: `buffer`, or if that is None, `per_class` for each class
    of each task."""
    return buffer or per_class * sum(stream.classes)


def share(stream: Stream, per_class: int, buffer: int | None) -> int:
    """The samples that a method may keep of each class of each task: its share of `buffer`, or if
    that is None, `per_class`."""
    return per_class if buffer is None else buffer // sum(stream.classes)


def too_small(stream: Stream, buffer: int | None) -> str:
    """Why a buffer cannot hold a sample of each class of each task; empty if it can."""
    least = sum(stream.classes)
    if buffer is None or buffer >= least:
        return ""
    return f"buffer={buffer} has no room for one sample of each of the stream's {least} classes."


class Buffer:
    """Samples x, y, t and more columns that a method names; it can be drawn from and saved."""

    def __init__(self, *more: str) -> None:
        self.columns = {name: torch.empty(0) for name in ("x", "y", "t", *more)}
        self.columns["y"] = self.columns["t"] = torch.empty(0, dtype=torch.long)

    def __len__(self) -> int:
        return len(self.columns["y"])

    def draw(self, n: int) -> tuple[Tensor, ...]:
        """All columns of up to n different samples, at random."""
        rows = torch.randperm(len(self))[:n]
        return tuple(column.index_select(0, rows) for column in self.columns.values())

    def join(self, strategy: Any, n: int | None) -> None:
        """Add n samples, or as many as it has itself, to the strategy's batch of x, y and t."""
        if len(self):
            now = strategy.mbatch
            drawn = (part.to(strategy.device) for part in self.draw(n or len(now[1])))
            batch = (now[0], now[1], now[-1])
            strategy.mbatch = [torch.cat(pair) for pair in zip(batch, drawn, strict=True)]

    def of_task(self, task: int) -> tuple[Tensor, ...]:
        """All columns of the samples of one task."""
        mine = self.columns["t"] == task
        return tuple(column[mine] for column in self.columns.values())

    @property
    def tasks(self) -> list[int]:
        """The tasks of its samples, in order."""
        return self.columns["t"].unique().tolist()

    def memory(self) -> Memory:
        labels = ("y", "t")
        return Memory(replay=of_tensors(c for n, c in self.columns.items() if n not in labels))

    def state_dict(self) -> dict[str, Any]:
        return dict(self.columns)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.columns = {name: state[name] for name in self.columns}

    def append(self, *new: Tensor) -> None:
        """Keep samples, given column by column."""
        empty = not len(self)
        for (name, old), rows in zip(self.columns.items(), new, strict=True):
            self.columns[name] = rows.clone() if empty else torch.cat([old, rows])


class Union:
    """Batches of a loader's samples and of a buffer's together, each sample once per pass.

    The batches are those of one random order of the union, so their shares of replayed samples
    vary around len(buffer) / (samples + len(buffer)). A last batch of fewer than `least` samples
    joins the batch before it.
    """

    def __init__(
        self, loader: Any, samples: int, buffer: Buffer, batch_size: int, least: int = 1
    ) -> None:
        """`loader` gives `samples` new ones per pass, in batches `[x, y, ..., task labels]`."""
        self.loader, self.samples = loader, samples
        self.buffer, self.batch_size, self.least = buffer, batch_size, least

    def __len__(self) -> int:
        return len(self._sizes())

    def _sizes(self) -> list[int]:
        return batch_sizes(self.samples + len(self.buffer), self.batch_size, self.least)

    def __iter__(self) -> Iterator[list[Tensor]]:
        batches = ([b[0], b[1], b[-1]] for b in self.loader)
        new = next(batches)
        kept = [column.to(new[0].device) for column in self.buffer.draw(len(self.buffer))]
        is_kept = torch.randperm(self.samples + len(self.buffer)) < len(self.buffer)
        for slots in is_kept.split(self._sizes()):
            from_kept = int(slots.sum())
            from_new = len(slots) - from_kept
            while len(new[0]) < from_new:
                new = [torch.cat(pair) for pair in zip(new, next(batches), strict=True)]
            parts = zip(new, kept, strict=True)
            yield [torch.cat([a[:from_new], b[:from_kept]]) for a, b in parts]
            new, kept = [a[from_new:] for a in new], [b[from_kept:] for b in kept]


class Replay:
    """Batches of a buffer's samples alone, each once per pass, in a new order for each pass. A last
    batch of fewer than `least` samples joins the batch before it."""

    def __init__(
        self, buffer: Buffer, batch_size: int, device: torch.device | str, least: int = 1
    ) -> None:
        self.columns = [column.to(device) for column in list(buffer.columns.values())[:3]]
        self.batch_size, self.least = batch_size, least

    def __len__(self) -> int:
        return len(self._sizes())

    def _sizes(self) -> list[int]:
        return batch_sizes(len(self.columns[1]), self.batch_size, self.least)

    def __iter__(self) -> Iterator[list[Tensor]]:
        order = torch.randperm(len(self.columns[1])).to(self.columns[1].device)
        for rows in order.split(self._sizes()):
            yield [column.index_select(0, rows) for column in self.columns]


class Reservoir(Buffer):
    """A uniform sample of all offered samples (Vitter 1985, algorithm R)."""

    def __init__(self, size: int, *more: str) -> None:
        super().__init__(*more)
        self.size = size
        self.offered = 0
        """Number of samples offered so far, over all epochs and tasks."""

    def offer(self, *new: Tensor) -> None:
        """Offer samples, column by column; the n-th one ever is kept with chance size / n."""
        offered = len(new[0])
        free = min(self.size - len(self), offered)
        if free > 0:
            self.append(*(rows[:free] for rows in new))
        counts = torch.arange(self.offered + free + 1, self.offered + offered + 1)
        self.offered += offered
        slots = (torch.rand(len(counts), dtype=torch.float64) * counts).long()
        for i in (slots < self.size).nonzero().flatten().tolist():
            for column, rows in zip(self.columns.values(), new, strict=True):
                column[slots[i]] = rows[free + i]

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"offered": self.offered}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.offered = state["offered"]


class ClassBuffer(Buffer):
    """The same number of samples of every class of every task, drawn after the task."""

    def __init__(self, per_class: int) -> None:
        super().__init__()
        self.per_class = per_class

    def keep(self, x: Tensor, y: Tensor, t: Tensor) -> None:
        """Draw `per_class` samples of each class in (t, y)."""
        rows = self._rows(y, t)
        self.append(x[rows], y[rows], t[rows])

    def keep_from(self, dataset: Any) -> None:
        """The same, from an Avalanche data set."""
        self.append(*samples(dataset, self._rows(*labels(dataset))))

    def _rows(self, y: Tensor, t: Tensor) -> Tensor:
        kept = []
        for task in t.unique().tolist():
            for label in y[t == task].unique().tolist():
                rows = ((t == task) & (y == label)).nonzero().flatten()
                kept.append(rows[torch.randperm(len(rows))[: self.per_class]])
        return torch.cat(kept)


class BufferPlugin(SupervisedPlugin):
    """A plugin whose state is one buffer."""

    buffer: Buffer

    def memory(self) -> Memory:
        return self.buffer.memory()

    def state_dict(self) -> dict[str, Any]:
        return self.buffer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.buffer.load_state_dict(state)
