"""GDumb, a greedy sampler and a dumb learner (Prabhu et al., ECCV 2020).

The sampler keeps at most `buffer` samples, balanced over the classes seen so far. A sample of class
y is taken if y is new or has fewer than buffer / |classes seen| samples. If the buffer is full, a
random sample of the largest class makes room.

After each task a network is trained on the buffer alone, from the initial weights, for `passes`
passes. The learning rate falls from the protocol's to a hundredth of it along a cosine. There is no
validation: past tasks have none, and that of the last task alone would prefer its classes.

A class is one of a task where tasks share their labels (`domain`). The paper's sampler, which knows
labels only, would keep samples of the first task alone.

Differs from the paper in: one cosine without restarts; the protocol's batch size, momentum and
weight decay, without CutMix; every network begins with the same initial weights.
"""

import copy
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from clbench.declare import PositiveInt
from clbench.loader import labels, samples
from clbench.method import Method
from clbench.networks import ordinary
from clbench.networks.backbones import least_batch
from clbench.stream import Stream
from clbench.training import Strategy
from clbench.training.buffers import Buffer, BufferPlugin, Replay, capacity, too_small

Class = tuple[int, int]
"""(task, label)."""


def greedy(kept: list[Class], offered: list[Class], size: int) -> list[int]:
    """The sampler. Classes of the kept samples and of offered ones, in their order -> the places,
    among both together, of the samples to keep."""
    counts = Counter(kept)
    places: dict[Class, list[int]] = {}
    for at, own in enumerate(kept):
        places.setdefault(own, []).append(at)
    for at, own in enumerate(offered, len(kept)):
        if own in counts and counts[own] >= size / len(counts):
            continue
        if counts.total() >= size:
            largest = max(counts, key=counts.__getitem__)
            places[largest].pop(int(torch.randint(counts[largest], ())))
            counts[largest] -= 1
        places.setdefault(own, []).append(at)
        counts[own] += 1
    return sorted(at for those in places.values() for at in those)


class GDumbPlugin(BufferPlugin):
    """Trains the network on a balanced buffer alone, each time from its initial weights."""

    derived = ("fresh", "_rates")  # the initial weights come from the seed

    def __init__(self, size: int, fresh: dict[str, Tensor]) -> None:
        """`fresh` is the state of the untrained network."""
        super().__init__()
        self.size = size
        """The most samples in all."""
        self.buffer = Buffer()
        self.classes: list[Class] = []
        """The class of each sample in the buffer."""
        self.fresh = copy.deepcopy(fresh)
        self._rates: list[float] = []

    def before_train_dataset_adaptation(self, strategy: Any, **kwargs: Any) -> None:
        strategy.model.load_state_dict(self.fresh)

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        self.take(strategy.experience.dataset, strategy.experience.current_experience)
        size, least = strategy.train_mb_size, least_batch(strategy.model)
        strategy.dataloader = Replay(self.buffer, size, strategy.device, least)
        self._rates = [group["lr"] for group in strategy.optimizer.param_groups]

    def take(self, dataset: Any, task: int) -> None:
        """Offer the samples of a task to the buffer, in random order."""
        y, _ = labels(dataset)
        order = torch.randperm(len(y))
        both = self.classes + [(task, label) for label in y[order].tolist()]
        places = greedy(self.classes, both[len(self.classes) :], self.size)
        old = [at for at in places if at < len(self.classes)]
        new = order[[at - len(self.classes) for at in places[len(old) :]]]
        self.buffer.columns = {name: c[old] for name, c in self.buffer.columns.items()}
        self.buffer.append(*samples(dataset, new))
        self.classes = [both[at] for at in places]

    def before_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
        done = strategy.clock.train_exp_epochs / strategy.train_epochs
        share = 0.01 + 0.99 * (1 + math.cos(math.pi * done)) / 2
        for group, rate in zip(strategy.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * share

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        for group, rate in zip(strategy.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"classes": [list(own) for own in self.classes]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.classes = [(task, label) for task, label in state["classes"]]


class GDumb(Method):
    """A network trained on a balanced buffer alone, anew after each task."""

    title = "GDumb"
    family = "memory"
    replay_size = "per_class"
    paper = "Prabhu et al., GDumb: A Simple Approach that Questions Our Progress in CL, ECCV 2020"

    per_class: PositiveInt = 13
    """samples in all, per class of all tasks; while there are fewer classes, each has more"""
    buffer: PositiveInt | None = None
    """samples in all; none: `per_class` gives them"""
    passes: PositiveInt | None = None
    """passes over the buffer after each task; none: the protocol's epochs"""

    def refuses(self, stream: Stream) -> str:
        return too_small(stream, self.buffer)

    def build(self, stream: Stream) -> Strategy:
        model = ordinary(stream)
        size = capacity(stream, self.per_class, self.buffer)
        plugin = GDumbPlugin(size, model.state_dict())
        strategy = Strategy(model=model, stream=stream, plugins=[plugin])
        strategy.train_epochs = self.passes or stream.protocol.epochs
        strategy.schedule.protocol = replace(stream.protocol, valid=0.0)  # only records the curve
        strategy.decided["schedule"] = "cosine to lr/100, no validation"
        return strategy
