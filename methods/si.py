"""Synaptic Intelligence (Zenke et al., ICML 2017).

    loss = CE + strength * sum_i Omega_i (theta_i - theta*_i)^2

theta* holds the weights after the last task. During a task, each parameter sums up its contribution
to lowering the loss, with g the gradient of CE alone and d the step,

    omega_i = - sum_steps g_i d_i,      Omega_i += omega_i / (D_i^2 + damping)

where D is the change over the whole task. Only Omega and theta* are kept, so a step costs the same
at every task.

Avalanche's own plugin is not used: on a CPU it does not copy the weights, so every d is 0 and there
is never a penalty; its gradients include that of the penalty; and it caps Omega at 0.001.

Differs from the paper in: a negative Omega is set to 0, as it would drive its parameter away
without bound; where a penalty is so steep that descent would diverge, each step goes to the centre
(`followable`). The shared schedule restores the weights of the best epoch after a task, so the sum
omega ends at that epoch too.
"""

import math
from typing import Any

import torch
from torch import Tensor

from clbench.declare import NonNegativeFloat, PositiveFloat
from clbench.method import Method
from clbench.networks import ordinary
from clbench.stream import Stream
from clbench.training import Strategy

from .ewc import EWCPlugin


class SIPlugin(EWCPlugin):
    """EWC's penalty with Omega as weights and theta* (at first, the initial weights) as centre."""

    def __init__(self, strength: float, damping: float = 1e-3) -> None:
        super().__init__(2 * strength)  # EWC's has a factor of 1/2
        self.damping = damping
        self._path: dict[str, Tensor] = {}  # omega of the task so far
        self._best: dict[str, Tensor] = {}  # omega at the end of its best epoch
        self._before: dict[str, tuple[Tensor, Tensor, Tensor]] = {}  # theta; it and g before a step

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        parameters = list(strategy.model.named_parameters())
        for name, p in parameters:  # some may be new, like a head that Avalanche has just added
            self.centre.setdefault(name, p.detach().clone())
        self._path = {name: torch.zeros_like(p) for name, p in parameters}
        self._best = {}

    def after_backward(self, strategy: Any, **kwargs: Any) -> None:
        self._before = {
            name: (p, p.detach().clone(), p.grad.clone())
            for name, p in strategy.model.named_parameters()
            if p.grad is not None  # else a past head, still at its centre
        }
        super().after_backward(strategy, **kwargs)

    @torch.no_grad()
    def after_update(self, strategy: Any, **kwargs: Any) -> None:
        for name, (p, theta, gradient) in self._before.items():
            self._path[name] -= gradient.mul_(p - theta)

    def after_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
        schedule = getattr(strategy, "schedule", None)
        curve = getattr(schedule, "curve", [])
        losses = [epoch["valid_loss"] for epoch in curve if "valid_loss" in epoch]
        if losses and losses[-1] < min(losses[:-1], default=math.inf):
            self._best = {name: path.clone() for name, path in self._path.items()}

    @torch.no_grad()
    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        path = self._best or self._path
        for name, p in strategy.model.named_parameters():
            change = p - self.centre[name]
            gained = path[name] / (change.square() + self.damping)
            total = self.weight.get(name, torch.zeros_like(p)) + gained
            self.weight[name] = total.clamp_min_(0)
            self.centre[name] = p.detach().clone()
        self._path, self._best, self._before = {}, {}, {}


class SI(Method):
    """A quadratic penalty keeps weights that lowered past losses near their values."""

    title = "SI"
    family = "regularization"
    paper = "Zenke et al., Continual Learning Through Synaptic Intelligence, ICML 2017"

    strength: NonNegativeFloat = 1.0
    """c: weight of the quadratic penalty"""
    damping: PositiveFloat = 1e-3
    """xi: keeps the importance finite for parameters that hardly move"""

    search = {"strength": "log 1e-3..100", "damping": "log 1e-4..0.1"}
    tuned = {
        "split-mnist-5k": {"strength": 10.0, "lr": 0.01},
        "permuted-mnist": {"strength": 0.01},  # by validation data
    }

    def build(self, stream: Stream) -> Strategy:
        plugin = SIPlugin(self.strength, self.damping)
        return Strategy(model=ordinary(stream), stream=stream, plugins=[plugin])
