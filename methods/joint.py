"""Joint training: all tasks at once, from the initial weights (ORD-JT).

The paper's row is one model, trained on the union of all tasks. Intransigence needs, for each k, a
model trained on tasks 1..k: `each=true` trains all of them, each from the initial weights.
"""

import copy
from typing import Any

import torch
from torch import Tensor

from clbench.memory import BYTES, Memory
from clbench.method import Method
from clbench.networks import ordinary
from clbench.stream import Stream
from clbench.training import Strategy


class JointStrategy(Strategy):
    """Trains on the data of all tasks so far, from the same initial weights each time."""

    HARNESS = Strategy.HARNESS | {"each", "fresh"}

    def __init__(self, *, each: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.each = each
        self.fresh = copy.deepcopy(self.model.state_dict())

    def learn(self, k: int) -> list[dict[str, float]] | None:
        if not self.each and k < len(self.stream) - 1:
            return None
        self.model.load_state_dict(self.fresh)
        return super().learn(k)

    def training_tasks(self) -> list[int]:
        return list(range(super().training_tasks()[0] + 1))

    def memory(self) -> Memory:
        """The network, and the training and validation images. An image that several tasks use, as
        on Permuted MNIST, is stored once and counts once, as in the paper."""
        tasks = self.stream.tasks
        rows: dict[int, list[Tensor]] = {}
        for split in (split for task in tasks for split in (task.train, task.valid)):
            rows.setdefault(split.images.data_ptr(), []).append(split.rows)
        images = sum(len(torch.cat(of_one).unique()) for of_one in rows.values())
        numbers = tasks[0].test.inputs(slice(0, 1)).numel()
        return super().memory() + Memory(replay=images * numbers * BYTES)


class Joint(Method):
    """Training on all tasks at once: the upper bound."""

    title = "ORD-JT"
    version = 2
    family = "reference"
    upper_bound = True
    paper = "Ebrahimi et al., Adversarial Continual Learning, ECCV 2020 (row ORD-JT)"

    each: bool = False
    """train a new model on tasks 1..k after every task k, not only one on all tasks"""

    tuned = {"split-mnist": {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.001}}

    def build(self, stream: Stream) -> Strategy:
        return JointStrategy(model=ordinary(stream), stream=stream, each=self.each)
