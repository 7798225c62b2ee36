"""Learning without Forgetting (Li and Hoiem, ECCV 2016).

    loss = CE + strength * sum over past tasks k of KL(softmax(o_k / T) || softmax(h_k / T))

with h_k the output of head k for the current samples, and o_k the output of the same head before
the current task. With one head for all tasks (`class`, `domain`), the sum has one term: o are its
outputs before the current task, and h the present outputs for the same classes.

The loss is Avalanche's `LearningWithoutForgetting`. If all heads have one width, they are computed
together, from the features of the step's own forward pass. The loss has a term per past task, so
its cost grows with their number.

Differs from the paper in: no warm-up of the new head alone. Differs from Avalanche's plugin in: if
all heads have one width, the outputs of past heads come from the step's own forward pass, with its
dropout masks; the old network predicts without dropout, and is copied when the next task starts, so
a checkpoint needs no second network.
"""

import copy
from typing import Any

import torch
from avalanche.training.plugins import LwFPlugin as AvalancheLwF
from avalanche.training.regularization import LearningWithoutForgetting
from torch import Tensor
from torch.nn import functional as F

from clbench.declare import NonNegativeFloat, PositiveFloat
from clbench.memory import Memory, of_model
from clbench.method import Method
from clbench.networks import MultiHead, ordinary
from clbench.stream import Stream
from clbench.training import Strategy


class Distillation(LearningWithoutForgetting):
    """Avalanche's loss, with one product and one softmax for all past heads if they are alike."""

    def _lwf_penalty(self, out: Tensor, x: Tensor, curr_model: Any) -> Any:
        past, old = list(self.prev_classes_by_task), self.prev_model
        if isinstance(old, MultiHead) and old.one_head:
            with torch.no_grad():
                then = F.softmax(old(x, 0) / self.temperature, 1)
            now = F.log_softmax(out[:, : then.shape[1]] / self.temperature, 1)
            return F.kl_div(now, then, reduction="batchmean")
        if not (type(old) is MultiHead and old.alike) or any(
            len(self.prev_classes_by_task[k]) < old.heads[k].out_features for k in past
        ):
            return super()._lwf_penalty(out, x, curr_model)
        with torch.no_grad():
            then = F.softmax(old.outputs(old.trunk(x), past) / self.temperature, 1)
        made = curr_model.features
        same_pass = made is not None and made.x is x and made.out is out
        z = made.z if same_pass else curr_model.trunk(x)
        now = F.log_softmax(curr_model.outputs(z, past) / self.temperature, 1)
        return F.kl_div(now, then, reduction="sum") / len(x)


class LwFPlugin(AvalancheLwF):
    """Avalanche's plugin, resumable."""

    def __init__(self, alpha: float = 1.0, temperature: float = 2.0) -> None:
        super().__init__(alpha, temperature)
        self.lwf = Distillation(alpha, temperature)

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        if self.lwf.expcount:
            old = copy.deepcopy(strategy.model).eval()
            if isinstance(old, MultiHead) and old.seen is not None:
                old.width = old.seen[strategy.experience.current_experience - 1]
            self.lwf.prev_model = old

    def memory(self) -> Memory:
        teacher = self.lwf.prev_model
        return Memory(auxiliary=of_model(teacher) if teacher is not None else 0)

    def state_dict(self) -> dict[str, Any]:
        classes = {k: sorted(seen) for k, seen in self.lwf.prev_classes_by_task.items()}
        return {"tasks": self.lwf.expcount, "classes": classes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.lwf.expcount = state["tasks"]
        self.lwf.prev_classes_by_task.clear()
        self.lwf.prev_classes_by_task.update({k: set(v) for k, v in state["classes"].items()})


class LwF(Method):
    """The heads of past tasks keep their old outputs on new samples (distillation)."""

    title = "LwF"
    version = 3
    family = "regularization"
    paper = "Li and Hoiem, Learning without Forgetting, ECCV 2016"

    search = {"strength": "log 0.1..20", "temperature": "1..5"}

    strength: NonNegativeFloat = 1.0
    """weight of the distillation"""
    temperature: PositiveFloat = 2.0
    """T: softens both outputs"""

    def build(self, stream: Stream) -> Strategy:
        plugin = LwFPlugin(self.strength, self.temperature)
        return Strategy(model=ordinary(stream), stream=stream, plugins=[plugin])
