"""The adversary of ACL: the discriminator D, its optimizer, and its part of the loss of S."""

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ._acl_losses import ReverseGradient
from ._acl_net import Discriminator

if TYPE_CHECKING:
    from .acl import ACL


class Adversary:
    """D and its SGD. Prediction does not need D, and the optimizer of S must not get it."""

    def __init__(self, tasks: int, method: "ACL") -> None:
        self.method = method
        self._make(tasks + 1)

    def _make(self, labels: int) -> None:
        method = self.method
        self.network = Discriminator(method.latent, labels)
        self.optimizer = torch.optim.SGD(
            self.network.parameters(), lr=method.d_lr, weight_decay=method.d_weight_decay
        )

    def begin(self, k: int, device: torch.device, rate: float) -> None:
        """Get ready for task k, with `rate` times the usual learning rate."""
        if self.method.fresh_discriminator:
            self._make(k + 2)
        self.network.to(device)
        self._set_rate(rate * self.method.d_lr)
        self._best, self._bad_epochs = math.inf, 0

    def begin_epoch(self) -> None:
        self.losses: list[float] = []

    def end_epoch(self) -> None:
        """Divide the learning rate by 3 if L_adv has not fallen for `d_patience` epochs."""
        if self.method.d_patience is None:
            return
        loss = sum(self.losses) / len(self.losses)
        if loss < self._best:
            self._best, self._bad_epochs = loss, 0
            return
        self._bad_epochs += 1
        if self._bad_epochs >= self.method.d_patience:
            self._bad_epochs = 0
            self._set_rate(self.optimizer.param_groups[0]["lr"] / 3)

    def _set_rate(self, lr: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = lr

    def loss(self, z_s: Tensor, tasks: Tensor) -> Tensor:
        """L_adv for S, whose gradient is reversed as the method says; D gets no gradient."""
        method = self.method
        reverse = method.reversal == "always" or (method.reversal == "with-diff" and method.diff)
        self.network.requires_grad_(False)
        logits = self.network(ReverseGradient.apply(z_s) if reverse else z_s)
        self.network.requires_grad_(True)
        return F.cross_entropy(logits, tasks + 1)

    def step(self, z_s: Tensor, tasks: Tensor) -> None:
        """D learns to give each z_S the label of its task, and noise the label 0."""
        noise = torch.randn_like(z_s)
        self.optimizer.zero_grad()
        real = F.cross_entropy(self.network(z_s), tasks + 1)
        fake = F.cross_entropy(self.network(noise), torch.zeros_like(tasks))
        (real + fake).backward()
        self.optimizer.step()
        if self.method.d_patience is not None:
            self.losses.append(float(real.detach()))

    def state_dict(self) -> dict[str, Any]:
        return {"network": self.network.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._make(labels=len(state["network"]["layers.3.bias"]))
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
