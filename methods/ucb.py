"""Uncertainty-guided Continual Bayesian neural networks (Ebrahimi et al., ICLR 2020).

Weights are independent Gaussians q = N(mu, sigma^2), learned by Bayes by backprop,

    loss = E_q[CE] + E_q[log q(w) - log p(w)] / N
    p(w) = pi N(w; 0, sigma1^2) + (1 - pi) N(w; 0, sigma2^2)

with N the number of training samples. The learning rate protects past tasks: from the second task
on, the rate of each mu is multiplied by its sigma, so certain weights move little. The rate of rho
stays the same. In tests the means predict.

E_q[CE] is estimated by `samples` draws (local reparameterisation in linear layers, see
`clbench.networks.bayes`), and E_q[log p] by one draw of all weights per step. E_q[log q] is the
negative entropy, in closed form. All three have gradients to mu and rho.

Differs from the paper in: one draw per step by default, not ten; the rate of a mu follows its
current sigma, not its sigma at the start of the task; sigma2 is 0.3, not e^-6 to e^-8. Near 0 the
second Gaussian pulls a mu by mu / (sigma2^2 N), so SGD diverges if lr / (sigma2^2 N) is above 2,
which at e^-6 happens for N below some thousands (the released code has no gradient there). A head
that is learned for the first time, or the output of a new class, has nothing to protect and learns
at the full rate. The loss is a
mean over samples, as in the other methods, so learning rates are comparable; rho starts as a
constant; prior and entropy cover the trunk and the current head; the shared schedule chooses the
epoch by the validation CE. The released code is not followed: there sigma is never updated, the
prior has no gradient and the heads of later tasks stay random.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from clbench.declare import Fraction, PositiveFloat, PositiveInt
from clbench.method import Method
from clbench.networks import MLP, backbone, heads
from clbench.networks.bayes import BayesNet
from clbench.stream import Stream
from clbench.training import Strategy
from clbench.training.bayes import BayesPlugin


def mixture_slope(w: Tensor, pi: float, sigma1: float, sigma2: float) -> Tensor:
    """Minus the derivative of log p(w): w / sigma^2, averaged by each Gaussian's share of p(w)."""
    tight1, tight2 = 1 / sigma1**2, 1 / sigma2**2
    if pi in (0.0, 1.0):
        return w * (tight1 if pi else tight2)
    odds = math.log(pi / (1 - pi)) + math.log(sigma2 / sigma1)  # log odds of the first at 0
    share = w.square().mul_((tight2 - tight1) / 2).add_(odds).sigmoid_()
    return share.mul_(tight1 - tight2).add_(tight2).mul_(w)


class UCBPlugin(BayesPlugin):
    """Trains a `BayesNet` by Bayes by backprop, and certain weights more slowly."""

    def __init__(self, samples: int, pi: float, sigma1: float, sigma2: float) -> None:
        super().__init__(samples)
        self.mixture = (pi, sigma1, sigma2)
        self.tasks: list[int] = []
        """Labels of the tasks learned so far."""
        self.rows: int | None = None
        """Outputs of the one head that are learned; None for all."""

    def slopes(self, name: str, mu: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        """Of E_q[log q(w)], which is -log sigma plus a constant, minus log p(w) at a draw of w."""
        noise = torch.randn_like(mu)
        pull = mixture_slope(torch.addcmul(mu, sigma, noise), *self.mixture)
        return pull, noise.mul_(pull).sub_(sigma.reciprocal())

    @torch.no_grad()
    def before_update(self, strategy: Any, **kwargs: Any) -> None:
        for name, layer in strategy.model.bayes_layers(self.k).items():
            # a head that is learned for the first time has nothing to protect
            of_trunk = name.startswith("trunk.")
            if self.tasks if of_trunk else self.k in self.tasks:
                learned = slice(None if of_trunk else self.rows)
                layer.weight_mu.grad[learned] *= F.softplus(layer.weight_rho[learned])
                layer.bias_mu.grad[learned] *= F.softplus(layer.bias_rho[learned])

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        self.tasks.append(self.k)
        self.rows = strategy.model.width or None

    @torch.no_grad()
    def diagnostics(self, strategy: Any) -> dict[str, Any]:
        """Mean and relative deviation of sigma per layer: if all are alike, they guide nothing."""
        layers = strategy.model.bayes_layers().items()
        sigmas = [F.softplus(m.weight_rho) for name, m in layers if name.startswith("trunk.")]
        return {
            "mean_sigma": [float(sigma.mean()) for sigma in sigmas],
            "sigma_spread": [float(sigma.std() / sigma.mean()) for sigma in sigmas],
        }

    def state_dict(self) -> dict[str, Any]:
        return {"tasks": list(self.tasks), "rows": self.rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.tasks = list(state["tasks"])
        self.rows = state.get("rows")  # not in older checkpoints


class UCB(Method):
    """Bayesian weights with learning rates proportional to their uncertainty."""

    title = "UCB"
    version = 2
    family = "regularization"
    paper = "Ebrahimi et al., Uncertainty-guided CL with Bayesian Neural Networks, ICLR 2020"
    lays_open = {
        "mean_sigma": {"title": "Mean sigma", "kind": "layers"},
        "sigma_spread": {"title": "Standard deviation of sigma / mean sigma", "kind": "layers"},
    }
    protocol = {"momentum": 0.0, "weight_decay": 0.0, "optimizer": "sgd"}
    fixed = {
        "weight_decay": "it would pull every rho to 0, a sigma of 0.69; use the prior instead",
        "optimizer": "its learning rates follow sigma by scaled gradients, and Adam takes steps of "
        "one size for gradients of any size",
    }
    backbones = ("mlp", "alexnet")  # batch norm has no Gaussian weights

    hidden: PositiveInt | None = None
    """units of the only hidden layer, 1200 in the public code; none: the stream's network"""
    samples: PositiveInt = 1
    """draws of the weights per training step; convolutions draw once"""
    rho: float = -3.0
    """initial rho of every weight; sigma = log(1 + exp(rho))"""
    mu_std: PositiveFloat | None = 0.1
    """initial means are drawn from N(0, mu_std^2); none: as in an ordinary layer"""
    pi: Fraction = 0.25
    """weight of the prior's first Gaussian"""
    sigma1: PositiveFloat = 1.0
    """sigma of the prior's first Gaussian"""
    sigma2: PositiveFloat = 0.3
    """sigma of the prior's second Gaussian; much smaller values need many training samples"""

    search = {"rho": "-7..-2", "mu_std": "none, 0.05, 0.1"}
    tuned = {  # the means and sigmas of an MLP are far too large for the wider AlexNet
        "split-cifar100": {"mu_std": None, "rho": -6.0},
        "split-miniimagenet": {"mu_std": None, "rho": -6.0},
        "five-datasets": {"mu_std": None, "rho": -6.0},
    }

    def refuses(self, stream: Stream) -> str:
        if self.hidden is not None and stream.backbone != "mlp":
            return f"hidden is the width of an mlp, and the network is {stream.backbone}."
        return ""

    def build(self, stream: Stream) -> Strategy:
        trunk = backbone(stream.backbone, stream.input_shape)
        if self.hidden is not None:
            trunk = MLP(stream.input_shape, self.hidden, depth=1)
        model = BayesNet(trunk, *heads(stream), rho=self.rho, mu_std=self.mu_std)
        plugin = UCBPlugin(self.samples, self.pi, self.sigma1, self.sigma2)
        return Strategy(model=model, stream=stream, plugins=[plugin])
