"""Averaged Gradient Episodic Memory (Chaudhry et al., ICLR 2019).

Let g be the gradient of the current batch, and r the gradient of a batch from the memory of past
tasks, over all parameters together. If g.r < 0, the step uses  g - (g.r / r.r) r  instead of g.

Differs from the paper in: many epochs instead of one pass; samples for the memory are drawn at
random after each task, where the paper keeps the last samples of each class.
"""

from typing import Any

import numpy as np
import torch
from avalanche.models import avalanche_forward
from torch import Tensor

from clbench.declare import PositiveInt
from clbench.method import Method
from clbench.networks import ordinary
from clbench.stream import Stream
from clbench.training import Strategy
from clbench.training.buffers import BufferPlugin, ClassBuffer, share, too_small


class AGEMPlugin(BufferPlugin):
    """Projects the gradient so that the mean loss on the memory does not rise."""

    buffer: ClassBuffer

    def __init__(self, per_class: int, reference_batch: int) -> None:
        super().__init__()
        self.buffer = ClassBuffer(per_class)
        self.reference_batch = reference_batch

    def after_backward(self, strategy: Any, **kwargs: Any) -> None:
        if len(self.buffer):
            groups = strategy.optimizer.param_groups  # faster to walk than the network
            trainable = [p for group in groups for p in group["params"] if p.requires_grad]
            project(trainable, self._reference(strategy, trainable))

    def _reference(self, strategy: Any, trainable: list[Tensor]) -> list[Tensor | None]:
        """The gradient of a memory batch, without dropout."""
        x, y, t = (part.to(strategy.device) for part in self.buffer.draw(self.reference_batch))
        strategy.model.eval()
        loss = strategy._criterion(avalanche_forward(strategy.model, x, t), y)
        strategy.model.train()
        return list(torch.autograd.grad(loss, trainable, allow_unused=True))

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        self.buffer.keep_from(strategy.experience.dataset)


@torch.no_grad()
def project(parameters: list[Tensor], reference: list[Tensor | None]) -> None:
    """Make the gradients of `parameters` orthogonal to `reference` where they oppose it. A missing
    gradient, of a head that the batch did not use, counts as zero and gets its projection too."""
    pairs = [(p, r) for p, r in zip(parameters, reference, strict=True) if r is not None]
    product = sum((p.grad * r).sum() for p, r in pairs if p.grad is not None)
    if product >= 0:
        return
    parts = [r for _, r in pairs]
    length = squared_length(parts)
    if length == 0:  # r.r underflows if the memory is fitted very well
        return
    scale = -product / length
    for p, r in pairs:
        part = r * scale
        p.grad = part if p.grad is None else p.grad + part


def squared_length(parts: list[Tensor]) -> float:
    """The sum of all squares, part after part. Small parts of one shape are summed together: forty
    heads one by one would take longer than the trunk."""
    dtype = torch.promote_types(parts[0].dtype, torch.float32)  # numpy has no bfloat16
    sums = torch.empty(len(parts), dtype=dtype).numpy()
    shapes: dict[torch.Size, list[int]] = {}
    for i, part in enumerate(parts):
        if part.numel() < 2**15 and part.layout == torch.strided:
            shapes.setdefault(part.shape, []).append(i)
        else:  # torch sums long tensors in parallel
            sums[i] = float((part * part).sum())
    for places in shapes.values():
        same = torch.stack([parts[i] for i in places])
        sums[places] = same.square_().unsqueeze(1).flatten(1).sum(1).tolist()
    return float(np.add.accumulate(sums)[-1])


class AGEM(Method):
    """Steps must not raise the mean loss on a memory of past tasks."""

    title = "A-GEM"
    family = "memory"
    replay_size = "per_class"
    paper = "Chaudhry et al., Efficient Lifelong Learning with A-GEM, ICLR 2019"

    protocol = {"optimizer": "sgd"}
    fixed = {
        "optimizer": "the projected gradient must be the step; Adam scales each weight's part, and "
        "the loss on the memory could then rise"
    }

    added = ("buffer",)

    per_class: PositiveInt = 13
    """samples kept per class of each task"""
    buffer: PositiveInt | None = None
    """samples kept in all, equally many per class of each task; none: `per_class`"""
    reference_batch: PositiveInt = 256
    """samples drawn from the memory per reference gradient; at most all of it"""

    def refuses(self, stream: Stream) -> str:
        return too_small(stream, self.buffer)

    def build(self, stream: Stream) -> Strategy:
        kept = share(stream, self.per_class, self.buffer)
        plugin = AGEMPlugin(kept, self.reference_batch)
        return Strategy(model=ordinary(stream), stream=stream, plugins=[plugin])
