"""The networks of Adversarial Continual Learning: shared S, private P^k, heads p^k, adversary D.

The sizes give the paper's parameter counts, with latent widths of 64, 128, 256 and 130. (The sizes
in the paper's text give other counts.)
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from clbench.loader import Known
from clbench.networks.dropout import Dropout
from clbench.networks.heads import TaskNet, by_task
from clbench.networks.pooling import ReLUMaxPool2d

if TYPE_CHECKING:
    from .acl import ACL

HIDDEN = 175
"""Hidden width of the shared MLP and of the discriminator."""


class ACLNet(TaskNet):
    """f^k(x) = p^k(P^k(x) + S(x)), the plus being a concatenation, with the sizes of a `method`.

    A layer norm at the end of z keeps either branch from dying or drowning the other. From torch's
    default initialisation the seven layers of a convolutional S pass on almost no signal.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        classes: Sequence[int],
        method: "ACL",
        scale: tuple[float, float] = (1.0, 0.0),
    ) -> None:
        """The network first turns its inputs x into scale[0] * x + scale[1]."""
        super().__init__()
        if not (method.shared or method.private):
            raise ValueError("ACL needs S or P, but both shared and private are false")
        self.branch_drop, self.scale = method.branch_drop, scale
        flat = len(input_shape) < 3 or min(input_shape[1:]) < 32
        shared, private = (_shared_mlp, _private_mlp) if flat else (_shared_conv, _private_conv)
        self.shared = shared(input_shape, method) if method.shared else None
        branches = (private(input_shape, method) for _ in classes if method.private)
        self.private = nn.ModuleList(branches)
        width = method.latent * (method.shared + method.private)
        self.heads = nn.ModuleList(_head(width, method, c) for c in classes)
        self.current_private: int | None = None
        """If set, all samples go through this P, as in the public code."""
        self.last: tuple[Tensor, Tensor] | None = None
        """z_S and z_P of the last forward pass in training mode, before a branch is dropped."""
        self.known: Known | None = None
        """The z_S of a batch, if they were computed before."""

    @property
    def frozen(self) -> bool:
        """Whether there is an S that does not learn."""
        return self.shared is not None and not next(self.shared.parameters()).requires_grad

    def train(self, mode: bool = True) -> "ACLNet":
        """As usual, but a frozen S stays in evaluation mode: it has no dropout."""
        super().train(mode)
        if self.shared is not None and self.frozen:
            self.shared.eval()
        return self

    def latents(self, x: Tensor, tasks: Tensor | int) -> tuple[Tensor, Tensor]:
        """z_S, and z_P by the P of the sample's task; of width 0 where a branch is off."""
        z_s = self.shared_space(x)
        if not len(self.private):
            return z_s, x.new_zeros(len(x), 0)
        if self.current_private is not None:
            tasks = self.current_private
        return z_s, by_task(self.scaled(x), tasks, lambda part, k: self.private[k](part))

    def shared_space(self, x: Tensor) -> Tensor:
        """z_S of each sample. S does not run if `known` has them and x needs no gradient."""
        if self.shared is None:
            return x.new_zeros(len(x), 0)
        if self.known is not None and self.known.x is x and not x.requires_grad:
            return self.known.values
        z_s: Tensor = self.shared(self.scaled(x))
        return z_s

    def spaces(self, x: Tensor, task: int) -> dict[str, Tensor]:
        """The latent spaces by name, (n, width) each; the width is 0 where a branch is off."""
        return dict(zip("SP", self.latents(x, task), strict=True))

    def scaled(self, x: Tensor) -> Tensor:
        """The inputs of the branches."""
        scale, shift = self.scale
        return x if (scale, shift) == (1.0, 0.0) else x * scale + shift

    def classify(self, z_s: Tensor, z_p: Tensor, tasks: Tensor | int) -> Tensor:
        """The logits of the heads."""
        return by_task(torch.cat([z_p, z_s], 1), tasks, lambda z, k: self.heads[k](z))

    def forward(self, x: Tensor, task_labels: Tensor | int) -> Tensor:
        z_s, z_p = self.latents(x, task_labels)
        if self.training:
            self.last = (z_s.float(), z_p.float())
            if self.branch_drop > 0 and z_s.numel() and z_p.numel():
                z_s, z_p = self._drop_branches(z_s, z_p)
        return self.classify(z_s, z_p, task_labels)

    def _drop_branches(self, z_s: Tensor, z_p: Tensor) -> tuple[Tensor, Tensor]:
        """Zero one branch for some samples, and scale up the others, as dropout does."""
        rate = self.branch_drop
        draw = torch.rand(len(z_s), 1, device=z_s.device)
        scale = 1 / (1 - rate)
        return z_s * ((draw >= rate) * scale), z_p * (((draw < rate) | (draw >= 2 * rate)) * scale)


class Discriminator(nn.Module):
    """Predicts which task a z_S comes from; label 0 is noise."""

    def __init__(self, latent: int, labels: int) -> None:
        super().__init__()
        hidden = nn.Linear(latent, HIDDEN), nn.LeakyReLU(), nn.Linear(HIDDEN, HIDDEN)
        self.layers = nn.Sequential(*hidden, nn.Linear(HIDDEN, labels))

    def forward(self, z: Tensor) -> Tensor:
        out: Tensor = self.layers(z)
        return out


def _end(method: "ACL", dropout: float = 0.0) -> list[nn.Module]:
    norm = nn.LayerNorm(method.latent, elementwise_affine=False)
    if method.features != "relu":
        return [norm] if method.features == "norm" else [nn.ReLU(), norm]
    return [nn.ReLU(), Dropout(dropout)] if dropout else [nn.ReLU()]


def _finish(layers: list[nn.Module], method: "ACL") -> nn.Sequential:
    if method.he_init:
        for layer in layers:
            if isinstance(layer, nn.Linear | nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                assert layer.bias is not None
                nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


def _shared_mlp(input_shape: Sequence[int], method: "ACL") -> nn.Sequential:
    dropout = 0.2 if method.shared_dropout == "layers" else 0.3
    layers = [
        nn.Flatten(),
        nn.Linear(math.prod(input_shape), HIDDEN),
        nn.ReLU(),
        Dropout(dropout),
        nn.Linear(HIDDEN, method.latent),
        *_end(method, 0.2),
    ]
    return _finish(layers, method)


def _private_mlp(input_shape: Sequence[int], method: "ACL") -> nn.Sequential:
    linear = nn.Linear(math.prod(input_shape), method.latent)
    return nn.Sequential(nn.Flatten(), linear, *_end(method))


def _kernels(size: int) -> tuple[int, int, int]:
    return size // 8, size // 10, 2


def _shared_conv(input_shape: Sequence[int], method: "ACL") -> nn.Sequential:
    channels, size = input_shape[0], input_shape[1]
    everywhere = method.shared_dropout == "layers"
    layers: list[nn.Module] = []
    for width, kernel, dropout in zip((64, 128, 256), _kernels(size), (0.2, 0.2, 0.5), strict=True):
        layers.append(nn.Conv2d(channels, width, kernel))
        layers += [Dropout(dropout)] if everywhere else []
        layers.append(ReLUMaxPool2d())
        channels, size = width, (size - kernel + 1) // 2
    layers.append(nn.Flatten())
    inputs = channels * size * size
    for width in (1024, 1024, 512) if input_shape[1] < 64 else (512, 512, 512):
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        layers += [Dropout(0.5)] if everywhere else []
        inputs = width
    layers += [] if everywhere else [Dropout(0.3)]
    layers += [nn.Linear(inputs, method.latent), *_end(method, 0.5)]
    return _finish(layers, method)


def _private_conv(input_shape: Sequence[int], method: "ACL") -> nn.Sequential:
    channels, size = input_shape[0], input_shape[1]
    width = 32 if size < 64 else 16
    layers: list[nn.Module] = []
    for kernel, dropout in zip(_kernels(size)[:2], (0.2, 0.5), strict=True):
        layers += [nn.Conv2d(channels, width, kernel), Dropout(dropout), ReLUMaxPool2d()]
        channels, size = width, (size - kernel + 1) // 2
    layers += [nn.Flatten(), nn.Linear(width * size * size, method.latent), *_end(method)]
    return nn.Sequential(*layers)


def _head(inputs: int, method: "ACL", classes: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, method.head1),
        nn.ReLU(),
        Dropout(method.head_dropout),
        nn.Linear(method.head1, method.head2),
        nn.ReLU(),
        nn.Linear(method.head2, classes),
    )
