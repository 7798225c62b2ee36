"""The losses of ACL between its latent spaces: gradient reversal, and four forms of L_diff."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


class ReverseGradient(torch.autograd.Function):
    """The identity, whose backward pass flips the sign of the gradient."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        return z.view_as(z)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return -gradient


def correlation_loss(z_s: Tensor, z_p: Tensor, eps: float = 1e-5) -> Tensor:
    """Mean squared correlation between a unit of z_S and a unit of z_P over the batch.

        L = 1 / (d_S d_P) || C ||_F^2,   C = correlation matrix of the columns (d_S x d_P)

    This is eq. 3 with standardised columns, divided by the number of entries; it lies in [0, 1].
    """

    def standard(z: Tensor) -> Tensor:
        z = z - z.mean(0)
        return z / (z.square().mean(0) + eps**2).sqrt()

    c = standard(z_s).T @ standard(z_p) / len(z_s)  # (d_S, d_P)
    return c.square().mean()


def frobenius_loss(z_s: Tensor, z_p: Tensor) -> Tensor:
    """Eq. 3 as written: || z_S^T z_P ||_F^2, which grows with the batch and with both widths."""
    return (z_s.T @ z_p).square().sum()


def dsn_loss(z_s: Tensor, z_p: Tensor) -> Tensor:
    """The loss of Domain Separation Networks' code, which the paper cites for eq. 3.

    Columns are centred, then rows scaled to unit length: L = 1 / (d_S d_P) || Z_S^T Z_P ||_F^2.
    """
    s = F.normalize(z_s - z_s.mean(0), dim=1, eps=1e-6)
    p = F.normalize(z_p - z_p.mean(0), dim=1, eps=1e-6)
    return (s.T @ p).square().mean()


def cosine_loss(z_s: Tensor, z_p: Tensor) -> Tensor:
    """The loss of the public code: mean squared cosine over all pairs of samples in the batch."""
    s = z_s / (z_s.detach().norm(dim=1, keepdim=True) + 1e-6)
    p = z_p / (z_p.detach().norm(dim=1, keepdim=True) + 1e-6)
    return (s @ p.T).square().mean()


DIFFERENCE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "correlation": correlation_loss,
    "frobenius": frobenius_loss,
    "dsn": dsn_loss,
    "cosine": cosine_loss,
}
"""L_diff by the value of `diff_kind`."""
