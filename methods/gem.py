"""Gradient Episodic Memory (Lopez-Paz and Ranzato, NeurIPS 2017).

Let g be the gradient of the current batch, and g_k, row k of G, the gradient of the whole memory of
past task k. If g.g_k < 0 for some k, the step uses the nearest g' with  g'.g_k >= 0  for all k. The
dual program, with one variable per past task, gives it:

    min_v 1/2 v^T G G^T v + (G g)^T v   subject to v >= margin,      g' = g + G^T v

With a margin of 0 the losses on the memories do not rise. A margin above 0 lowers them.

Differs from the paper in: many epochs instead of one pass; samples for the memory are drawn at
random after each task, where the paper keeps the last samples; the margin bounds v from below, as
in the authors' code, where the paper adds it to the solution (which can break a constraint).
Dropout is off for the gradients of the memories.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import quadprog
import torch
from avalanche.models import avalanche_forward
from torch import Tensor

from clbench.declare import NonNegativeFloat, PositiveInt
from clbench.method import Method
from clbench.networks import ordinary
from clbench.stream import Stream
from clbench.training import Strategy
from clbench.training.buffers import BufferPlugin, ClassBuffer


class GEMPlugin(BufferPlugin):
    """Projects the gradient so that the loss on no past task's memory rises."""

    buffer: ClassBuffer

    def __init__(self, per_class: int, margin: float = 0.0) -> None:
        super().__init__()
        self.buffer = ClassBuffer(per_class)
        self.ends: list[int] = []
        """The number of kept samples after each task."""
        self.margin = margin

    def after_backward(self, strategy: Any, **kwargs: Any) -> None:
        if len(self.buffer):
            trainable = [p for p in strategy.model.parameters() if p.requires_grad]
            project(trainable, self._references(strategy, trainable), self.margin)

    def _references(self, strategy: Any, trainable: list[Tensor]) -> Tensor:
        """G: the gradient of each past task's memory, without dropout, (tasks, parameters)."""
        strategy.model.eval()
        rows = []
        for start, end in pairwise([0, *self.ends]):
            kept = self.buffer.columns.values()
            x, y, t = (column[start:end].to(strategy.device) for column in kept)
            loss = strategy._criterion(avalanche_forward(strategy.model, x, t), y)
            gradients = torch.autograd.grad(loss, trainable, allow_unused=True)
            rows.append(_flat(trainable, gradients))
        strategy.model.train()
        return torch.stack(rows)

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        self.buffer.keep_from(strategy.experience.dataset)
        self.ends.append(len(self.buffer))

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"ends": list(self.ends)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.ends = list(state["ends"])


@torch.no_grad()
def project(parameters: list[Tensor], references: Tensor, margin: float = 0.0) -> None:
    """Turn the gradients of `parameters` so that they oppose no row of `references`. A missing
    gradient, of a head that the batch did not use, counts as zero and gets its projection too."""
    g = _flat(parameters, [p.grad for p in parameters])
    if bool((references @ g >= 0).all()):
        return
    if not bool(torch.isfinite(g).all() and torch.isfinite(references).all()):
        raise FloatingPointError("a gradient is not finite: lower the learning rate (--lr)")
    change = dual(references, g, margin) @ references
    for p, part in zip(parameters, change.split([p.numel() for p in parameters]), strict=True):
        if p.grad is not None:
            p.grad += part.view_as(p)
        elif bool(part.any()):
            p.grad = part.view_as(p).clone()


def dual(references: Tensor, g: Tensor, margin: float) -> Tensor:
    """v, the solution of the dual program; solved for rows and g of length 1, because gradients of
    well-fitted memories can be many orders of magnitude smaller than others."""
    gram = np.zeros((len(references), len(references)))
    products = np.zeros(len(references))
    for rows, part in zip(references.split(2**18, 1), g.split(2**18), strict=True):
        rows, part = rows.double(), part.double()
        gram += (rows @ rows.T).cpu().numpy()
        products += (rows @ part).cpu().numpy()
    norms, length = np.sqrt(gram.diagonal()), float(g.double().norm())
    live = norms > 0  # a row of zeros constrains nothing
    scale = norms[live]
    gram = gram[np.ix_(live, live)] / np.outer(scale, scale) + 1e-9 * np.eye(len(scale))
    v = np.zeros(len(references))
    least = margin * scale / length
    solution = quadprog.solve_qp(
        gram, -products[live] / (scale * length), np.eye(len(scale)), least
    )
    v[live] = np.maximum(solution[0], least) * length / scale
    return torch.from_numpy(v).to(references)


def _flat(parameters: list[Tensor], gradients: Any) -> Tensor:
    """All gradients in one row, a missing one as zeros."""
    pairs = zip(parameters, gradients, strict=True)
    return torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for p, g in pairs])


class GEM(Method):
    """Steps must not raise the loss on the memory of any past task."""

    title = "GEM"
    family = "memory"
    replay_size = "per_class"
    paper = "Lopez-Paz and Ranzato, Gradient Episodic Memory for Continual Learning, NeurIPS 2017"

    protocol = {"optimizer": "sgd"}
    fixed = {
        "optimizer": "the projected gradient must be the step; Adam scales each weight's part, and "
        "the loss on the memory of any past task could then rise"
    }

    per_class: PositiveInt = 13
    """samples kept per class of each task"""
    margin: NonNegativeFloat = 0.5
    """minimum weight of each memory's gradient in a projected step"""

    search = {"margin": "0..1"}
    tuned = {"split-mnist": {"per_class": 20}}  # 40 per task: the memory in the ACL paper's table

    def build(self, stream: Stream) -> Strategy:
        plugin = GEMPlugin(self.per_class, self.margin)
        return Strategy(model=ordinary(stream), stream=stream, plugins=[plugin])
