"""DER++, dark experience replay with labels (Buzzega et al., NeurIPS 2020).

    loss = CE(now) + alpha * MSE(h(x'), z') + beta * CE(h(x''), y'')

x' and x'' are two draws from a reservoir that keeps of each sample its label and the outputs z that
the network gave when it was offered.

Avalanche's own strategy is not used: it asks the network for outputs without a task label, which a
network of many heads does not have, and keeps a balanced memory in the reservoir's place.

Differs from the paper in: the outputs z are those of the sample's own head, where the paper's one
layer has outputs for the classes of all tasks; they are taken in the training step, with dropout
where the network has it.
"""

from typing import Any

import torch
from avalanche.models import avalanche_forward
from torch import Tensor
from torch.nn import functional as F

from clbench.declare import NonNegativeFloat, PositiveInt
from clbench.method import Method
from clbench.networks import ordinary
from clbench.stream import Stream
from clbench.training import Strategy
from clbench.training.buffers import BufferPlugin, Reservoir


class DERPPPlugin(BufferPlugin):
    """Replays samples with the outputs they had."""

    buffer: Reservoir

    def __init__(
        self,
        size: int,
        width: int,
        alpha: float = 0.1,
        beta: float = 0.5,
        replay_batch: int | None = None,
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
    """The mean squared difference; where a head has no output, `out` is -inf and is left out."""
    there = out.isfinite()
    return F.mse_loss(out[there], z[:, : out.shape[1]][there])


class DERPP(Method):
    """Past samples are replayed with their labels, and with the outputs they once had."""

    title = "DER++"
    family = "memory"
    replay_size = "per_class"
    paper = "Buzzega et al., Dark Experience for General Continual Learning, NeurIPS 2020"

    alpha: NonNegativeFloat = 0.1
    """weight of the distance to the kept outputs"""
    beta: NonNegativeFloat = 0.5
    """weight of the cross-entropy of replayed samples; 0 makes it DER"""
    per_class: PositiveInt = 13
    """size of the reservoir: this many samples times the classes of all tasks"""
    replay_batch: PositiveInt | None = None
    """replayed samples a batch in each of the two draws; none means as many as new ones"""

    def build(self, stream: Stream) -> Strategy:
        plugin = DERPPPlugin(
            self.per_class * sum(stream.classes),
            max(stream.classes),
            self.alpha,
            self.beta,
            self.replay_batch,
        )
        return Strategy(model=ordinary(stream), stream=stream, plugins=[plugin])
