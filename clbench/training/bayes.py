"""Training of networks with Gaussian weights: E_q[CE] plus a complexity of q, per sample."""

from typing import Any

from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor

from clbench.memory import Memory
from clbench.networks.bayes import add_gradient


class BayesPlugin(SupervisedPlugin):
    """Minimises E_q[CE] + complexity / N, the latter a sum over the trunk and the current head."""

    def __init__(self, samples: int = 1) -> None:
        super().__init__()
        self.samples = samples
        """Draws of the weights per training step."""
        self.k = 0
        """Label of the current task."""
        self.n = 0
        """Number of its training samples."""

    def memory(self) -> Memory:
        """Nothing besides the network."""
        return Memory()

    def slopes(self, name: str, mu: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        """Derivatives of the complexity of one part of the network by its mu and sigma."""
        raise NotImplementedError

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        self.k = int(strategy.experience.task_labels[0])
        self.n = len(strategy.experience.dataset)

    def before_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
        # a mean over repeated rows is a mean over draws of outputs; a convolution draws weights
        if self.samples > 1:
            strategy.mbatch = [
                part.repeat(self.samples, *[1] * (part.dim() - 1)) for part in strategy.mbatch
            ]

    def after_backward(self, strategy: Any, **kwargs: Any) -> None:
        add_gradient(strategy.model, self.k, self.slopes, 1 / self.n)
