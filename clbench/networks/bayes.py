"""Networks whose weights are independent Gaussians: the ones that VCL and UCB train.

Every number w of a layer has q(w) = N(mu, sigma^2), sigma = softplus(rho) (Blundell et al., 2015).
In training mode a pass draws: a linear layer draws its outputs, which are Gaussian for each sample,

    y ~ N(mu x + mu_b, sigma^2 x^2 + sigma_b^2)

(the local reparameterisation of Kingma et al., 2015: the same expected loss as drawing weights
anew for each sample, with less noise). A convolution draws one set of weights for the batch, as
its outputs at different places share weights and are not independent. In evaluation mode the means
predict, or the mean of the probabilities of some draws from a generator of the network's own.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clbench.networks.backbones import Backbone
from clbench.networks.dropout import Dropout
from clbench.networks.heads import MultiHead

Gaussian = tuple[Tensor, Tensor]
"""Mean and sigma, elementwise."""

Slopes = Callable[[str, Tensor, Tensor], tuple[Tensor, Tensor]]
"""Of a name, mu and sigma: the derivatives of a function of q by mu and by sigma."""


class BayesLayer(nn.Module):
    """mu and rho of the weights and biases of a layer."""

    def __init__(self, layer: nn.Linear | nn.Conv2d, rho: float, mu_std: float | None) -> None:
        """Means start as the layer's own values, or from N(0, mu_std^2)."""
        super().__init__()
        if layer.bias is None:
            raise TypeError("a layer without bias stands before a batch norm, which has no sigma")
        self.weight_mu = nn.Parameter(layer.weight.detach().clone())
        self.bias_mu = nn.Parameter(layer.bias.detach().clone())
        self.weight_rho = nn.Parameter(torch.full_like(layer.weight, rho))
        self.bias_rho = nn.Parameter(torch.full_like(layer.bias, rho))
        if mu_std is not None:
            nn.init.normal_(self.weight_mu, 0.0, mu_std)
            nn.init.normal_(self.bias_mu, 0.0, mu_std)
        self.generator: torch.Generator | None = None
        """If set, draws come from it, in evaluation mode too; else from the global one."""

    @property
    def draws(self) -> bool:
        return self.training or self.generator is not None

    def noise(self, like: Tensor) -> Tensor:
        """Standard normal numbers."""
        if self.generator is None:
            return torch.randn_like(like)
        return torch.randn(like.shape, generator=self.generator).to(like)


class BayesLinear(BayesLayer):
    """A linear layer that draws its outputs."""

    def forward(self, x: Tensor) -> Tensor:
        mean = F.linear(x, self.weight_mu, self.bias_mu)
        if not self.draws:
            return mean
        variances = F.softplus(self.weight_rho).square(), F.softplus(self.bias_rho).square()
        variance = F.linear(x.square(), *variances)
        # not 0, where the root has no slope
        return mean + variance.clamp_min(1e-16).sqrt() * self.noise(mean)


class BayesConv2d(BayesLayer):
    """A convolution that draws its weights, once for the whole batch."""

    def __init__(self, layer: nn.Conv2d, rho: float, mu_std: float | None) -> None:
        super().__init__(layer, rho, mu_std)
        if layer.padding_mode != "zeros":
            raise TypeError(f"padding by {layer.padding_mode} is not there, only by zeros")
        self.how: tuple[Any, ...] = (layer.stride, layer.padding, layer.dilation, layer.groups)

    def forward(self, x: Tensor) -> Tensor:
        weight: Tensor = self.weight_mu
        bias: Tensor = self.bias_mu
        if self.draws:
            weight = weight + F.softplus(self.weight_rho) * self.noise(weight)
            bias = bias + F.softplus(self.bias_rho) * self.noise(bias)
        return F.conv2d(x, weight, bias, *self.how)


class BayesNet(MultiHead):
    """A backbone and one head per task, all of Gaussian weights.

    The backbone's dropout is left out: the noise of the weights takes its place.
    """

    def __init__(
        self,
        trunk: Backbone,
        classes: Sequence[int],
        *,
        rho: float = -3.0,
        mu_std: float | None = None,
        test_samples: int = 0,
        seed: int = 0,
    ) -> None:
        """With `test_samples` of 0 the means predict; `seed` is that of the draws in tests."""
        super().__init__(trunk, classes)
        self.test_samples, self.seed = test_samples, seed
        for name, module in list(self.named_modules()):
            new: nn.Module
            if isinstance(module, nn.Linear):
                new = BayesLinear(module, rho, mu_std)
            elif isinstance(module, nn.Conv2d):
                new = BayesConv2d(module, rho, mu_std)
            elif isinstance(module, Dropout | nn.Dropout):
                new = nn.Identity()
            elif any(True for _ in module.parameters(recurse=False)):
                raise TypeError(f"{type(module).__name__} is neither nn.Linear nor nn.Conv2d")
            else:
                continue
            parent, _, last = name.rpartition(".")
            setattr(self.get_submodule(parent), last, new)

    def bayes_layers(self, task: int | None = None) -> dict[str, BayesLayer]:
        """Layers by name: all of them, or those that a task uses, the trunk and its head."""
        found = {n: m for n, m in self.named_modules() if isinstance(m, BayesLayer)}
        if task is None:
            return found
        return {n: m for n, m in found.items() if n.startswith("trunk.") or n == f"heads.{task}"}

    def posterior(self, task: int) -> dict[str, Gaussian]:
        """q of all weights that a task uses, as functions of mu and rho."""
        q: dict[str, Gaussian] = {}
        for name, layer in self.bayes_layers(task).items():
            q[f"{name}.weight"] = (layer.weight_mu, F.softplus(layer.weight_rho))
            q[f"{name}.bias"] = (layer.bias_mu, F.softplus(layer.bias_rho))
        return q

    @contextmanager
    def drawing(self, generator: torch.Generator) -> Iterator[None]:
        """Meanwhile all draws come from the generator, and are made in evaluation mode too."""
        layers = list(self.bayes_layers().values())
        for layer in layers:
            layer.generator = generator
        try:
            yield
        finally:
            for layer in layers:
                layer.generator = None

    def forward(self, x: Tensor, task_labels: Tensor | int | None) -> Any:
        """Logits; of several draws in a test, the logarithm of the mean probabilities."""
        if self.training or not self.test_samples:
            return super().forward(x, task_labels)
        with self.drawing(torch.Generator().manual_seed(self.seed)):
            draws = [
                F.log_softmax(super(BayesNet, self).forward(x, task_labels), 1)
                for _ in range(self.test_samples)
            ]
        return torch.stack(draws).logsumexp(0) - math.log(self.test_samples)

    def forward_single_task(self, x: Tensor, task_label: int) -> Tensor:
        return self.forward(x, task_label)


def add_gradient(model: BayesNet, task: int, slopes: Slopes, scale: float) -> None:
    """Add `scale` times the gradients of a function of q to those that mu and rho have.

    By hand: with autograd a training step would take about twice the time.
    """
    with torch.no_grad():
        for name, layer in model.bayes_layers(task).items():
            for part in ("weight", "bias"):
                mu, rho = getattr(layer, f"{part}_mu"), getattr(layer, f"{part}_rho")
                sigma = F.softplus(rho)
                by_mu, by_sigma = slopes(f"{name}.{part}", mu, sigma)
                mu.grad.add_(by_mu, alpha=scale)
                rho.grad.addcmul_(by_sigma, -torch.expm1(-sigma), value=scale)  # d sigma / d rho


def kl_slopes(mu: Tensor, sigma: Tensor, prior: Gaussian | None) -> Gaussian:
    """The slopes of KL(q || prior) by mu and sigma; what has no prior yet has N(0, 1).

    Of each number the KL is  log(s0 / s) + (s^2 + (m - m0)^2) / (2 s0^2) - 1/2
    """
    if prior is None:
        return mu, sigma - sigma.reciprocal()
    m0, s0 = prior
    # at the prior itself both are exactly 0: Adam would make whole steps of a rounding error
    return (mu - m0).div_(s0).div_(s0), (sigma / s0).div_(s0).sub_(sigma.reciprocal())
