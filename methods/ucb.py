"""Uncertainty-guided Continual Bayesian neural networks (Ebrahimi et al., ICLR 2020).

Weights are independent Gaussians q = N(mu, sigma^2), learned by Bayes by backprop,

    loss = E_q[CE] + E_q[log q(w) - log p(w)] / N
    p(w) = pi N(w; 0, sigma1^2) + (1 - pi) N(w; 0, sigma2^2)

with N the number of training samples. What keeps past tasks is the learning rate: from the second
task on that of each mu is multiplied by its sigma, so that weights that are certain move little.
That of rho stays. In tests the means predict.

E_q of the CE is estimated by `samples` draws (local reparameterisation in linear layers, see
`clbench.networks.bayes`) and that of log p by one draw of all weights a step; E_q[log q] is the
negative entropy, known in closed form. All three have gradients to mu and rho.

Differs from the paper in: one draw a step by default, not ten; the rate of a mu follows its sigma
at every step, not that at the task's start; sigma2 is 0.3, not e^-6 to e^-8. Near 0 the second
Gaussian pulls a mu by mu / (sigma2^2 N), and SGD diverges where lr / (sigma2^2 N) is above 2, at
e^-6 for N below some thousands (the released code cannot notice, having no gradient there). A head
that is learned for the first time, having nothing to keep, learns at the full rate. The loss is
that of the mean sample, so that the learning rate means what it means for other methods; rho starts
as a constant; prior and entropy are over the trunk and the current head; the shared schedule
chooses the epoch by the validation CE. It does not follow the released code, where sigma is never
updated, the prior has no gradient and heads of later tasks stay random.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from clbench.declare import Fraction, PositiveFloat, PositiveInt
from clbench.method import Method
from clbench.networks import backbone
from clbench.networks.bayes import BayesNet
from clbench.stream import Stream
from clbench.training import Strategy
from clbench.training.bayes import BayesPlugin, refusal


def mixture_slope(w: Tensor, pi: float, sigma1: float, sigma2: float) -> Tensor:
    """Minus the derivative of log p(w): w / sigma^2, of both Gaussians by their shares at w."""
    tight1, tight2 = 1 / sigma1**2, 1 / sigma2**2
    if pi in (0.0, 1.0):
        return w * (tight1 if pi else tight2)
    odds = math.log(pi / (1 - pi)) + math.log(sigma2 / sigma1)  # of the first at 0, as a logarithm
    share = w.square().mul_((tight2 - tight1) / 2).add_(odds).sigmoid_()
    return share.mul_(tight1 - tight2).add_(tight2).mul_(w)


class UCBPlugin(BayesPlugin):
    """Trains a `BayesNet` by Bayes by backprop, certain weights more slowly."""

    def __init__(
        self,
        samples: int = 1,
        pi: float = 0.25,
        sigma1: float = 1.0,
        sigma2: float = 0.3,
    ) -> None:
        super().__init__(samples)
        self.mixture = (pi, sigma1, sigma2)
        self.tasks: list[int] = []
        """Labels of the tasks learned so far."""

    def slopes(self, name: str, mu: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        """Of E_q[log q(w)], which is -log sigma and a constant, minus log p(w) at one draw of w."""
        noise = torch.randn_like(mu)
        pull = mixture_slope(torch.addcmul(mu, sigma, noise), *self.mixture)
        return pull, noise.mul_(pull).sub_(sigma.reciprocal())

    @torch.no_grad()
    def before_update(self, strategy: Any, **kwargs: Any) -> None:
        for name, layer in strategy.model.bayes_layers(self.k).items():
            # a head that is learned for the first time has nothing to keep
            scaled = bool(self.tasks) if name.startswith("trunk.") else self.k in self.tasks
            if scaled:
                layer.weight_mu.grad *= F.softplus(layer.weight_rho)
                layer.bias_mu.grad *= F.softplus(layer.bias_rho)

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        self.tasks.append(self.k)

    @torch.no_grad()
    def diagnostics(self, strategy: Any) -> dict[str, Any]:
        """Of each layer of the trunk, the mean sigma, and how far sigmas differ: their standard
        deviation as a part of it. Where they are all alike, nothing is guided by uncertainty."""
        layers = strategy.model.bayes_layers().items()
        sigmas = [F.softplus(m.weight_rho) for name, m in layers if name.startswith("trunk.")]
        return {
            "mean_sigma": [float(sigma.mean()) for sigma in sigmas],
            "sigma_spread": [float(sigma.std() / sigma.mean()) for sigma in sigmas],
        }

    def state_dict(self) -> dict[str, Any]:
        return {"tasks": list(self.tasks)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.tasks = list(state["tasks"])


class UCB(Method):
    """Bayesian weights, whose learning rate is their uncertainty."""

    title = "UCB"
    version = 2
    family = "regularization"
    paper = "Ebrahimi et al., Uncertainty-guided CL with Bayesian Neural Networks, ICLR 2020"
    protocol = {"momentum": 0.0, "weight_decay": 0.0}
    lays_open = {
        "mean_sigma": {"title": "mean sigma of each layer", "kind": "layers"},
        "sigma_spread": {
            "title": "standard deviation of sigma in each layer, relative to its mean",
            "kind": "layers",
        },
    }

    samples: PositiveInt = 1
    """draws of the weights in a training step; a convolution makes one for all"""
    rho: float = -3.0
    """initial rho of every weight; sigma = log(1 + exp(rho))"""
    mu_std: PositiveFloat | None = 0.1
    """initial means are drawn from N(0, mu_std^2); none means as in an ordinary layer"""
    pi: Fraction = 0.25
    """weight of the prior's first Gaussian"""
    sigma1: PositiveFloat = 1.0
    """sigma of the prior's first Gaussian"""
    sigma2: PositiveFloat = 0.3
    """sigma of the prior's second Gaussian; much smaller ones need many samples, see above"""

    tuned = {  # in the AlexNet, with its wider layers, means and sigmas of an MLP are far too large
        "split-cifar100": {"mu_std": None, "rho": -6.0},
        "split-miniimagenet": {"mu_std": None, "rho": -6.0},
        "five-datasets": {"mu_std": None, "rho": -6.0},
    }

    def build(self, stream: Stream) -> Strategy:
        trunk = backbone(stream.backbone, stream.input_shape)
        model = BayesNet(trunk, stream.classes, rho=self.rho, mu_std=self.mu_std)
        plugin = UCBPlugin(self.samples, self.pi, self.sigma1, self.sigma2)
        return Strategy(model=model, stream=stream, plugins=[plugin])

    def refuses(self, stream: Stream) -> str:
        return refusal("UCB", stream)
