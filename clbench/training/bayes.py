"""Training of networks with Gaussian weights: E_q[CE] plus a complexity of q, per sample."""

from typing import Any

from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor

from clbench.networks.bayes import add_gradient
from clbench.stream import Stream


class BayesPlugin(SupervisedPlugin):
    """Minimises E_q[CE] + complexity / N, with N the number of the task's samples.

    The complexity is a sum over the trunk and the current head. Only its gradient is computed.
    """

    def __init__(self, samples: int = 1) -> None:
        super().__init__()
        self.samples = samples
        """Draws of the weights per training step."""
        self.k = 0
        """Label of the current task."""
        self.n = 0
        """Number of its training samples."""

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


def refusal(method: str, stream: Stream) -> str:
    """Why a network of Gaussian weights cannot learn the stream; empty if it can."""
    if stream.backbone not in ("mlp", "alexnet"):
        return (
            f"{method} learns Gaussian weights of linear layers and convolutions, in an MLP or the "
            f"AlexNet; the batch norm of {stream.backbone} has none."
        )
    if stream.protocol.weight_decay > 0:
        return (
            f"weight decay ({stream.protocol.weight_decay:g}) would pull every rho to 0, which "
            "is a sigma of 0.69; the prior takes its place: leave it at 0."
        )
    return ""
