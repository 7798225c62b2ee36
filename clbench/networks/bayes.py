"""Networks whose weights are independent Gaussians, for VCL and UCB.

Every number w of a layer has q(w) = N(mu, sigma^2), sigma = softplus(rho) (Blundell et al., 2015).
In training mode a linear layer draws its outputs, which are Gaussian for each sample,

    y ~ N(mu x + mu_b, sigma^2 x^2 + sigma_b^2)

(the local reparameterisation of Kingma et al., 2015: the expected loss is that of new weights for
each sample, with less noise). A convolution draws one set of weights for the batch, because its
outputs at different places share weights and are not independent. In evaluation mode the means
predict, or the network averages the probabilities of some draws from its own generator.
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
"""(name, mu, sigma) -> the derivatives of a function of q by mu and by sigma."""


class BayesLayer(nn.Module):
    """mu and rho of the weights and biases of a layer."""

    def __init__(self, layer: nn.Linear | nn.Conv2d, rho: float, mu_std: float | None) -> None:
        """Means start as the layer's own values, or from N(0, mu_std^2)."""
        super().__init__()
        if layer.bias is None:
            raise TypeError("a layer without a bias precedes a batch norm, which has no sigma")
        self.weight_mu = nn.Parameter(layer.weight.detach().clone())
        self.bias_mu = nn.Parameter(layer.bias.detach().clone())
        self.weight_rho = nn.Parameter(torch.full_like(layer.weight, rho))
        self.bias_rho = nn.Parameter(torch.full_like(layer.bias, rho))
        if mu_std is not None:
            nn.init.normal_(self.weight_mu, 0.0, mu_std)
            nn.init.normal_(self.bias_mu, 0.0, mu_std)
        self.generator: torch.Generator | None = None
        """If set, the source of all draws, in evaluation mode too; else the global one is."""

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
        # at 0 the square root has no slope
        return mean + variance.clamp_min(1e-16).sqrt() * self.noise(mean)


class BayesConv2d(BayesLayer):
    """A convolution that draws its weights, once for the whole batch."""

    def __init__(self, layer: nn.Conv2d, rho: float, mu_std: float | None) -> None:
        super().__init__(layer, rho, mu_std)
        if layer.padding_mode != "zeros":
            raise TypeError(f"padding mode {layer.padding_mode} is not supported, only zeros")
        self.how: tuple[Any, ...] = (layer.stride, layer.padding, layer.dilation, layer.groups)

    def forward(self, x: Tensor) -> Tensor:
        weight: Tensor = self.weight_mu
        bias: Tensor = self.bias_mu
        if self.draws:
            weight = weight + F.softplus(self.weight_rho) * self.noise(weight)
            bias = bias + F.softplus(self.bias_rho) * self.noise(bias)
        return F.conv2d(x, weight, bias, *self.how)


class BayesNet(MultiHead):
    """A backbone and heads with Gaussian weights, whose noise replaces dropout."""

    def __init__(
        self,
        trunk: Backbone,
        heads: Sequence[int],
        seen: Sequence[int] | None = None,
        *,
        rho: float = -3.0,
        mu_std: float | None = None,
        test_samples: int = 0,
        seed: int = 0,
    ) -> None:
        """With `test_samples` 0 the means predict; `seed` seeds the draws in tests."""
        super().__init__(trunk, heads, seen)
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
        """Layers by name: all, or those that a task uses, which are the trunk and its head."""
        found = {n: m for n, m in self.named_modules() if isinstance(m, BayesLayer)}
        if task is None:
            return found
        return {n: m for n, m in found.items() if n.startswith("trunk.") or n == f"heads.{task}"}

    def rows(self, name: str) -> slice:
        """The outputs of a layer that are in use: of the one head, those of classes seen so far."""
        return slice(self.width if self.one_head and name.startswith("heads.") else None)

    def posterior(self, task: int) -> dict[str, Gaussian]:
        """q of all weights that a task uses, as functions of mu and rho."""
        q: dict[str, Gaussian] = {}
        for name, layer in self.bayes_layers(task).items():
            used = self.rows(name)
            q[f"{name}.weight"] = (layer.weight_mu[used], F.softplus(layer.weight_rho[used]))
            q[f"{name}.bias"] = (layer.bias_mu[used], F.softplus(layer.bias_rho[used]))
        return q

    @contextmanager
    def drawing(self, generator: torch.Generator) -> Iterator[None]:
        """Inside, all draws come from the generator, and evaluation mode draws too."""
        layers = list(self.bayes_layers().values())
        for layer in layers:
            layer.generator = generator
        try:
            yield
        finally:
            for layer in layers:
                layer.generator = None

    def by_means(self, x: Tensor, task_labels: Tensor | int) -> Any:
        """The logits that the means give, in evaluation mode."""
        return super().forward(x, task_labels)

    def forward(self, x: Tensor, task_labels: Tensor | int | None) -> Any:
        """Logits; in a test with several draws, the logarithms of the mean probabilities."""
        if self.training or not self.test_samples:
            return super().forward(x, task_labels)
        with self.drawing(torch.Generator().manual_seed(self.seed)):
            draws = [
                F.log_softmax(super(BayesNet, self).forward(x, task_labels), 1)
                for _ in range(self.test_samples)
            ]
        return torch.stack(draws).logsumexp(0) - math.log(self.test_samples)


def add_gradient(model: BayesNet, task: int, slopes: Slopes, scale: float) -> None:
    """Add `scale` times the gradients of a function of q to those of mu and rho, by hand: with
    autograd a training step would take about twice the time."""
    with torch.no_grad():
        for name, layer in model.bayes_layers(task).items():
            used = model.rows(name)
            for part in ("weight", "bias"):
                mu, rho = getattr(layer, f"{part}_mu"), getattr(layer, f"{part}_rho")
                sigma = F.softplus(rho[used])
                by_mu, by_sigma = slopes(f"{name}.{part}", mu[used], sigma)
                mu.grad[used].add_(by_mu, alpha=scale)
                by_rho = -torch.expm1(-sigma)  # d sigma / d rho
                rho.grad[used].addcmul_(by_sigma, by_rho, value=scale)


def kl_slopes(mu: Tensor, sigma: Tensor, prior: Gaussian | None) -> Gaussian:
    """The slopes of KL(q || prior) by mu and sigma; no prior means N(0, 1). Per number the KL is
    log(s0 / s) + (s^2 + (m - m0)^2) / (2 s0^2) - 1/2."""
    if prior is None:
        return mu, sigma - sigma.reciprocal()
    m0, s0 = prior
    # both are exactly 0 at the prior: Adam would turn a rounding error into a full step
    return (mu - m0).div_(s0).div_(s0), (sigma / s0).div_(s0).sub_(sigma.reciprocal())
