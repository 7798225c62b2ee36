"""Batches straight from tensors.

Avalanche fetches items one by one and collates them, which costs a small network more than the
training step itself. A data set made by clbench carries its tensors, and its batches are slices of
them; any other Avalanche data set is read by Avalanche's own loader.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from clbench.stream import Split

Batch = list[Tensor]  # [x, y, task labels]


class TensorLoader:
    """Iterates over in-memory splits in batches, shuffled anew at every pass if asked to."""

    def __init__(
        self, splits: list[Split], batch_size: int, shuffle: torch.Generator | None = None
    ) -> None:
        self.x = torch.cat([s.inputs() for s in splits]) if len(splits) > 1 else splits[0].inputs()
        self.y = torch.cat([s.labels for s in splits])
        self.t = torch.cat([torch.full_like(s.labels, s.task) for s in splits])
        self.batch_size = batch_size
        self.shuffle = shuffle

    def __len__(self) -> int:
        return -(-len(self.y) // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        n = len(self.y)
        if self.shuffle is None:
            for at in range(0, n, self.batch_size):
                rows = slice(at, at + self.batch_size)
                yield [self.x[rows], self.y[rows], self.t[rows]]
            return
        order = torch.randperm(n, generator=self.shuffle)
        for rows in order.split(self.batch_size):
            yield [self.x[rows], self.y[rows], self.t[rows]]


def batches(dataset: Any, batch_size: int, shuffle: torch.Generator | None = None) -> Any:
    """Batches `[x, y, task labels]` of an Avalanche data set, the fast way if it has tensors."""
    split = getattr(dataset, "split", None)
    if isinstance(split, Split):
        return TensorLoader([split], batch_size, shuffle)
    return DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=shuffle is not None,
        generator=shuffle,
        collate_fn=dataset.collate_fn,
    )
