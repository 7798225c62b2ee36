"""Experience replay from a reservoir (Chaudhry et al., "tiny episodic memories", 2019).

Samples from the reservoir join each batch, and the mean loss over both is minimised. After its step
each batch is offered to the reservoir, which counts samples over all epochs and tasks. So at any
time the reservoir is a uniform sample of all training samples so far.

Differs from the paper in: many epochs instead of one pass; as many replayed samples as new ones by
default, where the paper has 10 and 10.
"""

from typing import Any

from clbench.declare import PositiveInt
from clbench.method import Method
from clbench.networks import ordinary
from clbench.stream import Stream
from clbench.training import Strategy
from clbench.training.buffers import BufferPlugin, Reservoir, capacity


class ReservoirReplayPlugin(BufferPlugin):
    """Adds reservoir samples to every training batch."""

    buffer: Reservoir
    derived = ("_current",)  # the batch of a step

    def __init__(self, size: int, replay_batch: int | None = None) -> None:
        super().__init__()
        self.buffer = Reservoir(size)
        self.replay_batch = replay_batch
        self._current: list[Any] = []

    def before_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
        self._current = list(strategy.mbatch)
        self.buffer.join(strategy, self.replay_batch)

    def after_update(self, strategy: Any, **kwargs: Any) -> None:
        x, y, t = self._current[0], self._current[1], self._current[-1]
        self.buffer.offer(x.cpu(), y.cpu(), t.cpu())


class ERReservoir(Method):
    """Past samples from a reservoir join every batch."""

    title = "ER-RES"
    family = "memory"
    replay_size = "per_class"
    paper = "Chaudhry et al., On Tiny Episodic Memories in Continual Learning, 2019"

    added = ("buffer",)

    per_class: PositiveInt = 13
    """size of the reservoir, in samples per class of all tasks"""
    buffer: PositiveInt | None = None
    """size of the reservoir, in samples; none: `per_class` gives it"""
    replay_batch: PositiveInt | None = None
    """replayed samples per batch; none: as many as new ones"""

    def build(self, stream: Stream) -> Strategy:
        size = capacity(stream, self.per_class, self.buffer)
        plugin = ReservoirReplayPlugin(size, self.replay_batch)
        return Strategy(model=ordinary(stream), stream=stream, plugins=[plugin])
