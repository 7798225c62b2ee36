"""Elastic Weight Consolidation (Kirkpatrick et al., PNAS 2017).

    loss = CE + strength/2 * sum_k sum_i F_ki (theta_i - theta*_ki)^2

with k over past tasks, and F the diagonal empirical Fisher of per-sample gradients. Up to a
constant, the sum of quadratics is one quadratic, with weight A = sum_k F_k and centre M = sum_k F_k
theta*_k / A. So only A and M are kept, and a step costs the same at every task.

Differs from the paper in: the Fisher uses the true labels ("empirical"), as is usual; where a
penalty is so steep that descent would diverge, each step goes to the centre (`followable`).
"""

from typing import Any

import torch
from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor

from clbench.declare import NonNegativeFloat
from clbench.loader import batches
from clbench.memory import Memory, of_tensors
from clbench.method import Method
from clbench.networks import ordinary
from clbench.stream import Stream
from clbench.training import Strategy
from clbench.training.importance import empirical_fisher, followable


class EWCPlugin(SupervisedPlugin):
    """Adds the gradient of the penalty after each backward pass; updates it after each task."""

    derived = ("_held",)

    def __init__(self, strength: float) -> None:
        super().__init__()
        self.strength = strength
        self.weight: dict[str, Tensor] = {}
        """A: the Fisher information summed over past tasks."""
        self.centre: dict[str, Tensor] = {}
        """M: where the summed penalty is least."""
        self._held: list[tuple[Tensor, Tensor, Tensor]] = []  # theta, M, A of each

    def before_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
        parameters = dict(strategy.model.named_parameters())
        self._held = []
        for name, weight in self.weight.items():
            weight = followable(weight, self.strength, strategy.optimizer)
            self._held.append((parameters[name], self.centre[name], weight))

    @torch.no_grad()
    def after_backward(self, strategy: Any, **kwargs: Any) -> None:
        for parameter, centre, weight in self._held:
            if parameter.grad is not None:  # else it is frozen, or a past head at its centre
                parameter.grad += (parameter - centre).mul_(weight).mul_(self.strength)

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        data = batches(strategy.experience.dataset, 256)
        parameters = dict(strategy.model.named_parameters())
        for name, fisher in empirical_fisher(strategy.model, data).items():
            theta = parameters[name].detach()
            old = self.weight.get(name, torch.zeros_like(fisher))
            total = old + fisher
            # where total is 0 there is no penalty, and the centre does not matter
            share = torch.where(total > 0, fisher / total.clamp_min(1e-30), 0.0)
            centre = self.centre.get(name, torch.zeros_like(theta))
            self.weight[name], self.centre[name] = total, centre + share * (theta - centre)

    def memory(self) -> Memory:
        return Memory(auxiliary=of_tensors([*self.weight.values(), *self.centre.values()]))

    def state_dict(self) -> dict[str, Any]:
        return {"weight": self.weight, "centre": self.centre}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.weight, self.centre = state["weight"], state["centre"]


class EWC(Method):
    """A quadratic penalty keeps weights that matter for past tasks near their values."""

    title = "EWC"
    family = "regularization"
    paper = "Kirkpatrick et al., Overcoming catastrophic forgetting in neural networks, PNAS 2017"

    strength: NonNegativeFloat = 5000.0
    """weight of the quadratic penalty"""

    search = {"strength": "log 1..1e6"}
    tuned = {"permuted-mnist": {"strength": 20.0}}  # by validation data

    def build(self, stream: Stream) -> Strategy:
        return Strategy(model=ordinary(stream), stream=stream, plugins=[EWCPlugin(self.strength)])
