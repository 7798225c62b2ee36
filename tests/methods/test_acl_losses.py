"""ACL's losses between latent spaces against values computed by hand."""

import pytest
import torch

from clbench.methods._acl_losses import (
    DIFFERENCE,
    ReverseGradient,
    correlation_loss,
    cosine_loss,
    dsn_loss,
    frobenius_loss,
)


def test_reversal_turns_the_gradient_of_s_and_leaves_the_output():
    z = torch.randn(4, 3, requires_grad=True)
    (ReverseGradient.apply(z) * 2).sum().backward()
    assert torch.equal(z.grad, torch.full((4, 3), -2.0))
    assert torch.equal(ReverseGradient.apply(z), z)


def test_difference_loss_by_hand():
    a = torch.tensor([1.0, -1.0, 1.0, -1.0])
    b = torch.tensor([1.0, 1.0, -1.0, -1.0])
    # units (a, b) against (a, -a): correlations 1, -1, 0, 0, so the mean square is 1/2
    z_s, z_p = torch.stack([a, b], 1), torch.stack([a, -a], 1)
    torch.testing.assert_close(correlation_loss(z_s, z_p), torch.tensor(0.5))
    # scale, shift, batch size and width do not matter
    torch.testing.assert_close(correlation_loss(5 * z_s + 3, z_p - 7), torch.tensor(0.5))
    torch.testing.assert_close(
        correlation_loss(z_s.repeat(9, 1), z_p.repeat(9, 1)), torch.tensor(0.5)
    )
    torch.testing.assert_close(correlation_loss(z_s.repeat(1, 3), z_p), torch.tensor(0.5))


def test_difference_loss_is_zero_for_orthogonal_and_for_constant_features():
    a = torch.tensor([[1.0], [-1.0], [1.0], [-1.0]])
    b = torch.tensor([[1.0], [1.0], [-1.0], [-1.0]])
    assert correlation_loss(a, b) == 0
    constant = torch.ones(4, 1, requires_grad=True)
    loss = correlation_loss(constant, b)
    assert loss == 0
    loss.backward()
    assert torch.isfinite(constant.grad).all()


def test_cosine_loss_by_hand():
    z_s = torch.tensor([[3.0, 0.0], [0.0, 2.0]])
    z_p = torch.tensor([[1.0, 0.0], [4.0, 0.0]])
    # cosines: 1, 1 for the first sample, 0, 0 for the second
    torch.testing.assert_close(cosine_loss(z_s, z_p), torch.tensor(0.5), rtol=1e-5, atol=0)


def test_literal_loss_by_hand():
    z_s = torch.tensor([[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]], requires_grad=True)
    z_p = torch.tensor([[1.0], [2.0], [-1.0]])
    # S^T P = (1 + 6 + 0, 2 + 8 - 1) = (7, 9), so the squared norm is 49 + 81
    loss = frobenius_loss(z_s, z_p)
    torch.testing.assert_close(loss, torch.tensor(130.0))
    loss.backward()  # 2 P (S^T P)^T
    torch.testing.assert_close(z_s.grad, 2 * torch.tensor([[7.0, 9.0], [14.0, 18.0], [-7.0, -9.0]]))


def test_literal_loss_grows_with_the_batch_and_the_widths():
    z_s, z_p = torch.rand(4, 2), torch.rand(4, 3)
    once = frobenius_loss(z_s, z_p)
    torch.testing.assert_close(frobenius_loss(z_s.repeat(5, 1), z_p.repeat(5, 1)), 25 * once)
    torch.testing.assert_close(frobenius_loss(z_s.repeat(1, 5), z_p), 5 * once)


def test_dsn_loss_by_hand():
    z_s = torch.tensor([[3.0, 4.0], [-3.0, -4.0]]) + 7  # centred, rows of length 5
    z_p = torch.tensor([[2.0], [-2.0]]) - 1
    # rows of unit length: (0.6, 0.8), (-0.6, -0.8) against 1, -1: S^T P = (1.2, 1.6)
    torch.testing.assert_close(dsn_loss(z_s, z_p), torch.tensor((1.2**2 + 1.6**2) / 2))


@pytest.mark.parametrize("kind", DIFFERENCE)
def test_every_difference_loss_has_a_gradient_for_both_spaces_and_none_for_dead_ones(kind):
    torch.manual_seed(0)
    z_s, z_p = (torch.rand(6, 4, requires_grad=True) for _ in range(2))
    DIFFERENCE[kind](z_s, z_p).backward()
    assert z_s.grad.abs().sum() > 0
    assert z_p.grad.abs().sum() > 0
    dead = torch.zeros(6, 4, requires_grad=True)
    loss = DIFFERENCE[kind](dead, z_p)
    loss.backward()
    assert loss == 0
    assert torch.isfinite(dead.grad).all()
