"""Batches straight from tensors.

Avalanche fetches items one by one and collates them, which for a small network takes longer than
the training step itself. A data set made by clbench carries its tensors, and its batches are slices
of them. Avalanche's own loader reads all other data sets.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from clbench.stream import Split

Batch = list[Tensor]  # [x, y, task labels]


class Known(NamedTuple):
    """The inputs of a batch, and values already computed for its samples, one row each."""

    x: Tensor
    values: Tensor


FLOATS = 2**26
"""Splits of up to this many numbers (256 MB) are converted to network inputs once; larger ones are
converted batch by batch."""


def batch_sizes(n: int, batch_size: int, least: int = 1) -> list[int]:
    """The sizes of the batches of n samples. A last one of fewer than `least` joins the one before
    it, because batch normalisation cannot train on few."""
    full, rest = divmod(n, batch_size)
    sizes = [batch_size] * (max(1, full) if rest < min(least, batch_size) else full + 1)
    sizes[-1] += n - sum(sizes)
    return sizes


class TensorLoader:
    """Iterates over in-memory splits in batches; with `shuffle`, each pass has a new order.

    A last batch of fewer than `least` samples joins the batch before it, because batch
    normalisation cannot train on few. Inputs that are converted once move to `device` once;
    others are pinned if it is a GPU.
    """

    def __init__(
        self,
        splits: list[Split],
        batch_size: int,
        shuffle: torch.Generator | None = None,
        device: torch.device | str = "cpu",
        least: int = 1,
    ) -> None:
        self.splits = splits
        self.least = least
        numbers = sum(map(len, splits)) * splits[0].inputs(slice(0, 1)).numel()
        fits = numbers <= FLOATS
        self.home = torch.device(device if fits else "cpu")
        self.x = torch.cat([s.inputs() for s in splits]).to(self.home) if fits else None
        self.y = torch.cat([s.labels for s in splits]).to(self.home)
        self.pinned = not fits and torch.device(device).type == "cuda"
        self.starts = torch.tensor([0, *(len(s) for s in splits)]).cumsum(0)
        tasks = [torch.tensor(s.label, device=self.home).expand(len(s)) for s in splits]
        self.t = torch.cat(tasks) if len(splits) > 1 else tasks[0]  # one number, expanded
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.known: Tensor | None = None
        """Values already computed for the samples, one row each, in the order of the splits."""
        self.given: Known | None = None
        """The last batch's inputs and the rows of `known` that belong to them."""

    def __len__(self) -> int:
        return len(self._sizes())

    def _sizes(self) -> list[int]:
        return batch_sizes(len(self.y), self.batch_size, self.least)

    def __iter__(self) -> Iterator[Batch]:
        n = len(self.y)
        if self.shuffle is None:
            order = torch.arange(n)
        else:
            order = torch.randperm(n, generator=self.shuffle)
        for rows in order.to(self.home).split(self._sizes()):
            x = self.x.index_select(0, rows) if self.x is not None else self._inputs(rows)
            t = self.t.index_select(0, rows) if len(self.splits) > 1 else self.t[: len(rows)]
            known = self.known
            self.given = None if known is None else Known(x, known.index_select(0, rows))
            yield [x, self.y.index_select(0, rows), t]

    def _inputs(self, rows: Tensor) -> Tensor:
        """Network inputs of some rows, which count over all splits."""
        which = torch.bucketize(rows, self.starts[1:], right=True)
        present = which.unique().tolist()
        places = [(which == i).nonzero().flatten() for i in present]
        parts = [
            self.splits[i].inputs(rows[at] - self.starts[i])
            for i, at in zip(present, places, strict=True)
        ]
        made = torch.cat(parts)[torch.cat(places).argsort()]
        return made.pin_memory() if self.pinned else made


def samples(dataset: Any, rows: Tensor | None = None) -> tuple[Tensor, ...]:
    """All x, y and task labels of an Avalanche data set, or those of some rows."""
    split = getattr(dataset, "split", None)
    if rows is not None and isinstance(split, Split):  # only these rows become network inputs
        y, t = labels(dataset)
        return split.inputs(rows), y[rows], t[rows]
    parts = [(b[0], b[1], b[-1]) for b in batches(dataset, 1000)]
    columns = tuple(torch.cat(column) for column in zip(*parts, strict=True))
    return columns if rows is None else tuple(column[rows] for column in columns)


def labels(dataset: Any) -> tuple[Tensor, Tensor]:
    """All y and task labels of an Avalanche data set."""
    split = getattr(dataset, "split", None)
    if isinstance(split, Split):
        return split.labels, torch.full_like(split.labels, split.label)
    _, y, t = samples(dataset)
    return y, t


def batches(dataset: Any, batch_size: int, shuffle: torch.Generator | None = None) -> Any:
    """Batches `[x, y, task labels]` of an Avalanche data set, sliced if it carries its tensors."""
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
