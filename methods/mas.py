"""Memory Aware Synapses (Aljundi et al., ECCV 2018).

    loss = CE + strength * sum_i Omega_i (theta_i - theta*_i)^2

theta* holds the weights after the last task. Omega sums, over past tasks, the mean absolute
gradient of the squared output norm over the task's samples x_n:

    Omega_i = 1/N sum_n |d ||f(x_n)||^2 / d theta_i|

No label is used. Only Omega and theta* are kept, so a step costs the same at every task.

Avalanche's own plugin is not used: it takes the absolute value of a batch's mean gradient, in which
samples of opposite signs cancel; it leaves dropout on; and it averages over tasks.

Differs from the paper in: only `followable`, as in ewc.py.
"""

from typing import Any

import torch
from torch import Tensor

from clbench.declare import NonNegativeFloat
from clbench.loader import batches
from clbench.method import Method
from clbench.networks import ordinary
from clbench.stream import Stream
from clbench.training import Strategy
from clbench.training.importance import mean_size

from .ewc import EWCPlugin


def squared_norm(out: Tensor, y: Tensor) -> Tensor:
    """||f(x)||^2, summed over samples."""
    return out.square().sum()


class MASPlugin(EWCPlugin):
    """EWC's penalty with other weights, centred on the parameters after the last task."""

    def __init__(self, strength: float) -> None:
        super().__init__(2 * strength)  # EWC's has a factor of 1/2

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        data = batches(strategy.experience.dataset, 256)
        gained = mean_size(strategy.model, data, squared_norm, torch.abs)
        for name, theta in strategy.model.named_parameters():
            old = self.weight.get(name, torch.zeros_like(theta))
            self.weight[name] = old + gained[name]
            self.centre[name] = theta.detach().clone()


class MAS(Method):
    """A quadratic penalty keeps weights that past outputs are sensitive to near their values."""

    title = "MAS"
    family = "regularization"
    paper = "Aljundi et al., Memory Aware Synapses: Learning what (not) to forget, ECCV 2018"

    strength: NonNegativeFloat = 0.1
    """weight of the quadratic penalty"""

    search = {"strength": "log 1e-4..10"}
    tuned = {"permuted-mnist": {"strength": 0.003}}  # by validation data

    def build(self, stream: Stream) -> Strategy:
        return Strategy(model=ordinary(stream), stream=stream, plugins=[MASPlugin(self.strength)])
