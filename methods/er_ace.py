"""ER-ACE, experience replay with an asymmetric cross-entropy (Caccia et al., ICLR 2022).

    loss = CE(new; classes in the batch of new samples) + CE(replayed; all classes seen so far)

The outputs of classes without a new sample in the batch are left out of the softmax of new samples,
so learning a new class does not push the outputs of older ones down. Replayed samples, as many as
new ones, come from the reservoir of `er-res` and compare all classes.

With one head per task there are no outputs of older classes to leave out: it would be `er-res` with
another weight of replayed samples, so it refuses `task`. In `domain` every task has all classes,
and only those that happen to be missing in a batch are left out.

Differs from the paper in: many epochs instead of one pass; as many replayed samples as new ones by
default, where the paper has 10 and 10; no augmentation of its own; replay begins with the second
batch, where the authors' code begins it with the second task.
"""

from typing import Any

import torch
from torch.nn import functional as F

from clbench.declare import PositiveInt
from clbench.method import Method
from clbench.networks import ordinary
from clbench.stream import Stream
from clbench.training import Strategy
from clbench.training.buffers import capacity

from .er_res import ReservoirReplayPlugin


class ERACEPlugin(ReservoirReplayPlugin):
    """Replay in which new samples compare only the classes of their batch."""

    def before_backward(self, strategy: Any, **kwargs: Any) -> None:
        out, y = strategy.mb_output, strategy.mb_y
        new = len(self._current[1])
        absent = torch.ones(out.shape[1], dtype=torch.bool, device=out.device)
        absent[y[:new]] = False
        strategy.loss = F.cross_entropy(out[:new].masked_fill(absent, -torch.inf), y[:new])
        if len(y) > new:
            strategy.loss = strategy.loss + F.cross_entropy(out[new:], y[new:])


class ERACE(Method):
    """Replay from a reservoir; new samples do not compete with the classes of past tasks."""

    title = "ER-ACE"
    family = "memory"
    replay_size = "per_class"
    paper = "Caccia et al., New Insights on Reducing Abrupt Representation Change, ICLR 2022"
    scenarios = ("class", "domain")

    per_class: PositiveInt = 13
    """size of the reservoir, in samples per class of all tasks"""
    buffer: PositiveInt | None = None
    """size of the reservoir, in samples; none: `per_class` gives it"""
    replay_batch: PositiveInt | None = None
    """replayed samples per batch; none: as many as new ones"""

    def build(self, stream: Stream) -> Strategy:
        plugin = ERACEPlugin(capacity(stream, self.per_class, self.buffer), self.replay_batch)
        return Strategy(model=ordinary(stream), stream=stream, plugins=[plugin])
