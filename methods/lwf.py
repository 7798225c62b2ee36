"""Learning without Forgetting (Li and Hoiem, ECCV 2016).

    loss = CE + strength * sum over past tasks k of KL(softmax(o_k / T) || softmax(h_k / T))

with h_k the output of head k for the current samples, and o_k what the network said there before
the current task. The loss is Avalanche's `LearningWithoutForgetting`, which is right for networks
of many heads; its cost grows with the number of heads.

Differs from the paper in: no warm-up of the new head alone. Differs from Avalanche's plugin in: the
old network predicts without dropout, and is copied when the next task starts, so that a checkpoint
needs no second network.
"""

import copy
from typing import Any

from avalanche.training.plugins import LwFPlugin as AvalancheLwF

from clbench.declare import NonNegativeFloat, PositiveFloat
from clbench.memory import Memory, of_model
from clbench.method import Method
from clbench.networks import ordinary
from clbench.stream import Stream
from clbench.training import Strategy


class LwFPlugin(AvalancheLwF):
    """Avalanche's plugin, resumable."""

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        if self.lwf.expcount:
            self.lwf.prev_model = copy.deepcopy(strategy.model).eval()

    def memory(self) -> Memory:
        teacher = self.lwf.prev_model
        return Memory(auxiliary=of_model(teacher) if teacher is not None else 0)

    def state_dict(self) -> dict[str, Any]:
        classes = {k: sorted(seen) for k, seen in self.lwf.prev_classes_by_task.items()}
        return {"tasks": self.lwf.expcount, "classes": classes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.lwf.expcount = state["tasks"]
        self.lwf.prev_classes_by_task.update({k: set(v) for k, v in state["classes"].items()})


class LwF(Method):
    """The network keeps saying of new samples what it said before, in the heads of past tasks."""

    title = "LwF"
    family = "regularization"
    paper = "Li and Hoiem, Learning without Forgetting, ECCV 2016"

    strength: NonNegativeFloat = 1.0
    """weight of the distillation"""
    temperature: PositiveFloat = 2.0
    """T: how much both outputs are softened"""

    def build(self, stream: Stream) -> Strategy:
        plugin = LwFPlugin(self.strength, self.temperature)
        return Strategy(model=ordinary(stream), stream=stream, plugins=[plugin])
