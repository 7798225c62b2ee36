"""DER++, dark experience replay with labels (Buzzega et al., NeurIPS 2020).

    loss = CE(now) + alpha * MSE(h(x'), z') + beta * CE(h(x''), y'')

x' and x'' are two draws from a reservoir. It keeps each sample's label, and the outputs z that the
network gave in the step after which the sample was offered.

Avalanche's own strategy is not used: it needs outputs without a task label, which a multi-head
network does not have, and it keeps a balanced memory instead of a reservoir.

With one head for all classes (`class`), the outputs of later classes are in use from the first task
on, as in the paper and unlike in the other methods: z also keeps them low on replayed samples.

Differs from the paper in: with one head per task, z holds the outputs of the sample's own head; z
comes from the training step, with dropout if the network has it.
"""

from typing import Any

import torch
from avalanche.models import avalanche_forward
from torch import Tensor
from torch.nn import functional as F

from clbench.declare import NonNegativeFloat, PositiveInt
from clbench.method import Method
from clbench.networks import MultiHead, backbone
from clbench.scenario import TASK
from clbench.stream import Stream
from clbench.training import Strategy
from clbench.training.buffers import BufferPlugin, Reservoir, capacity


class DERPPPlugin(BufferPlugin):
    """Replays samples with their labels and their earlier outputs."""

    buffer: Reservoir

    def __init__(
        self, size: int, width: int, alpha: float, beta: float, replay_batch: int | None = None
    ) -> None:
        super().__init__()
        self.buffer = Reservoir(size, "z")
        self.width = width
        """Outputs of the widest head."""
        self.alpha, self.beta = alpha, beta
        self.replay_batch = replay_batch

    def before_backward(self, strategy: Any, **kwargs: Any) -> None:
        if not len(self.buffer):
            return
        n = self.replay_batch or len(strategy.mb_y)
        dark, labelled = self.buffer.draw(n), self.buffer.draw(n)
        x, y, t, z = (
            torch.cat(pair).to(strategy.device) for pair in zip(dark, labelled, strict=True)
        )
        out, first = avalanche_forward(strategy.model, x, t), len(dark[1])
        strategy.loss = (
            strategy.loss
            + self.alpha * distance(out[:first], z[:first])
            + self.beta * F.cross_entropy(out[first:], y[first:])
        )

    def after_update(self, strategy: Any, **kwargs: Any) -> None:
        z = strategy.mb_output.detach()
        z = F.pad(z, (0, self.width - z.shape[1]))
        columns = (strategy.mb_x, strategy.mb_y, strategy.mb_task_id, z)
        self.buffer.offer(*(column.cpu() for column in columns))


def distance(out: Tensor, z: Tensor) -> Tensor:
    """The mean squared difference, without the places where a narrow head has no output (-inf)."""
    there = out.isfinite()
    return F.mse_loss(out[there], z[:, : out.shape[1]][there])


class DERPP(Method):
    """Past samples are replayed with their labels and their earlier outputs."""

    title = "DER++"
    family = "memory"
    replay_size = "per_class"
    paper = "Buzzega et al., Dark Experience for General Continual Learning, NeurIPS 2020"

    search = {"alpha": "log 0.02..2", "beta": "log 0.1..2"}
    added = ("buffer",)

    alpha: NonNegativeFloat = 0.1
    """weight of the distance to the earlier outputs"""
    beta: NonNegativeFloat = 0.5
    """weight of the cross-entropy of replayed samples; 0 makes it DER"""
    per_class: PositiveInt = 13
    """size of the reservoir, in samples per class of all tasks"""
    buffer: PositiveInt | None = None
    """size of the reservoir, in samples; none: `per_class` gives it"""
    replay_batch: PositiveInt | None = None
    """replayed samples per batch in each of the two draws; none: as many as new ones"""

    def build(self, stream: Stream) -> Strategy:
        size, width = capacity(stream, self.per_class, self.buffer), max(stream.heads)
        plugin = DERPPPlugin(size, width, self.alpha, self.beta, self.replay_batch)
        one_head = stream.scenario != TASK
        seen = stream.heads * len(stream) if one_head else None
        model = MultiHead(backbone(stream.network, stream.input_shape), stream.heads, seen)
        return Strategy(model=model, stream=stream, plugins=[plugin])
