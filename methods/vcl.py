"""Variational Continual Learning (Nguyen et al., ICLR 2018).

Weights are independent Gaussians q = N(mu, sigma^2). The loss on task k is

    loss = E_q[CE] + KL(q || prior) / N

with N the number of the task's training samples. The prior is the posterior q after task k-1, and
N(0, 1) at first. The KL is in closed form, over the trunk and the task's own head; the prior of a
head is N(0, 1) until the head is learned; with one head for all classes, that of an output until
its class is learned. E_q is estimated by `samples` draws (local
reparameterisation in linear layers, see `clbench.networks.bayes`). Tests average the probabilities
of `test_samples` draws. These draws have their own generator, so a test does not change the
training and gives the same numbers again.

The optimizer is Adam, as in the paper: the gradients of rho are orders of magnitude smaller than
those of mu, and plain SGD hardly moves sigma. Its learning rate is a multiple of the protocol's, so
the schedule and `--lr` work as usual. The protocol's momentum is not used.

Differs from the paper in: one draw per step by default and ten in tests, where the paper's code has
10 and 100; means start at random by default, not from a maximum-likelihood fit to the first task
(`fit`); the KL
leaves out the heads of other tasks, whose gradients are zero or would pull heads that are not
learned yet; the shared schedule chooses the epoch by the validation CE, where the paper trains for
a fixed number of epochs.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from clbench.declare import NonNegativeInt, PositiveFloat, PositiveInt
from clbench.memory import Memory, of_tensors
from clbench.method import Method
from clbench.networks import backbone, heads
from clbench.networks.bayes import BayesNet, Gaussian, kl_slopes
from clbench.seeding import derive
from clbench.stream import Stream
from clbench.training import Strategy
from clbench.training.bayes import BayesPlugin


class VCLPlugin(BayesPlugin):
    """Trains a `BayesNet`, with the posterior after the last task as prior."""

    def __init__(self, samples: int = 1, fit: int = 0) -> None:
        super().__init__(samples)
        self.fit = fit
        """Epochs of the maximum-likelihood fit before the first task."""
        self.prior: dict[str, Gaussian] = {}
        """q after the last task, of the trunk and of each learned head."""

    def before_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
        if self.fit and not self.prior and strategy.clock.train_exp_epochs == 0:
            self.fit_means(strategy)

    def fit_means(self, strategy: Any) -> None:
        """Let the means learn the first task by cross-entropy alone, as an ordinary network."""
        model = strategy.model
        means = [p for name, p in model.named_parameters() if name.endswith("_mu")]
        optimizer = torch.optim.Adam(means, lr=strategy.optimizer.param_groups[0]["lr"])
        model.eval()  # no draws
        for _ in range(self.fit):
            for batch in strategy.dataloader:
                x, y, t = (batch[i].to(strategy.device) for i in (0, 1, -1))
                optimizer.zero_grad()
                nn.functional.cross_entropy(model.by_means(x, t), y).backward()
                optimizer.step()
        optimizer.zero_grad()
        model.train()

    def slopes(self, name: str, mu: Tensor, sigma: Tensor) -> Gaussian:
        prior = self.prior.get(name)
        if prior is not None and (new := len(mu) - len(prior[0])):  # outputs of new classes
            m0, s0 = prior
            prior = (
                torch.cat([m0, torch.zeros_like(mu[-new:])]),
                torch.cat([s0, torch.ones_like(mu[-new:])]),
            )
        return kl_slopes(mu, sigma, prior)

    @torch.no_grad()
    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        for name, (mu, sigma) in strategy.model.posterior(self.k).items():
            self.prior[name] = (mu.detach().clone(), sigma)

    def memory(self) -> Memory:
        return Memory(auxiliary=of_tensors(part for q in self.prior.values() for part in q))

    def state_dict(self) -> dict[str, Any]:
        return {"prior": {name: list(q) for name, q in self.prior.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.prior = {name: (mu, sigma) for name, (mu, sigma) in state["prior"].items()}


class AdamStrategy(Strategy):
    """The shared protocol with Adam instead of SGD, at `rate` times its learning rates."""

    HARNESS = Strategy.HARNESS | {"rate"}

    def __init__(self, *, rate: float, **kwargs: Any) -> None:
        self.rate = rate
        super().__init__(**kwargs)
        lowest = self.stream.protocol.lr_min * rate
        self.schedule.protocol = replace(self.stream.protocol, lr_min=lowest)

    def _sgd(self, model: nn.Module) -> Any:
        trainable = [p for p in model.parameters() if p.requires_grad]
        return torch.optim.Adam(trainable, lr=self.rate * self.stream.protocol.lr)


class VCL(Method):
    """The posterior over weights after one task is the prior of the next task."""

    title = "VCL"
    version = 2
    family = "regularization"
    paper = "Nguyen et al., Variational Continual Learning, ICLR 2018"
    added = ("fit",)
    protocol = {"momentum": 0.0, "weight_decay": 0.0, "optimizer": "sgd"}
    fixed = {
        "weight_decay": "it would pull every rho to 0, a sigma of 0.69; use the prior instead",
        "optimizer": "it always learns by an Adam of its own, at adam_rate times the learning rate",
    }
    backbones = ("mlp", "alexnet")  # batch norm has no Gaussian weights

    samples: PositiveInt = 1
    """draws of the weights per training step; convolutions draw once"""
    test_samples: NonNegativeInt = 10
    """draws of the weights per test, whose probabilities are averaged; 0: the means predict"""
    rho: float = -3.0
    """initial rho of every weight; sigma = log(1 + exp(rho))"""
    mu_std: PositiveFloat | None = 0.1
    """initial means are drawn from N(0, mu_std^2); none: as in an ordinary layer"""
    adam_rate: PositiveFloat = 0.02
    """learning rate of Adam relative to the protocol's: 0.02 turns 0.05 into 0.001"""
    fit: NonNegativeInt = 0
    """epochs in which the means learn the first task by maximum likelihood, before VCL begins"""

    search = {"momentum": "usual", "rho": "-7..-2", "mu_std": "none, 0.05, 0.1"}
    tuned = {
        "permuted-mnist": {"adam_rate": 0.01},
        # the means and sigmas of an MLP are far too large for the wider layers of the AlexNet
        "split-cifar100": {"mu_std": None, "rho": -5.0},
        "split-miniimagenet": {"mu_std": None, "rho": -5.0},
        "five-datasets": {"mu_std": None, "rho": -5.0},
    }

    def build(self, stream: Stream) -> Strategy:
        return self.strategy(stream, VCLPlugin(self.samples, self.fit))

    def strategy(self, stream: Stream, plugin: VCLPlugin) -> Strategy:
        """The benchmark's backbone and heads with Gaussian weights, trained by the plugin."""
        model = BayesNet(
            backbone(stream.backbone, stream.input_shape),
            *heads(stream),
            rho=self.rho,
            mu_std=self.mu_std,
            test_samples=self.test_samples,
            seed=derive(stream.seed, "weights in tests"),
        )
        return AdamStrategy(rate=self.adam_rate, model=model, stream=stream, plugins=[plugin])
