"""The fast ReLU and max-pooling against torch's own, bit for bit."""

import pytest
import torch
from torch import nn

from clbench.networks.dropout import Dropout
from clbench.networks.pooling import ReLUMaxPool2d


@pytest.mark.parametrize("shape", [(3, 5, 6, 6), (2, 4, 7, 5), (1, 1, 2, 3), (4, 33, 12, 12)])
def test_it_is_torchs_forward_and_backward(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    # rounded, so that many windows have equal maxima, some of them 0
    first = (2 * torch.randn(shape)).round().requires_grad_()
    second = first.detach().clone().requires_grad_()
    ours, theirs = ReLUMaxPool2d()(first), nn.MaxPool2d(2)(second.relu())
    assert torch.equal(ours, theirs)
    assert ours.is_contiguous()
    gradient = torch.randn_like(theirs)
    ours.backward(gradient)
    theirs.backward(gradient)
    assert first.grad is not None
    assert second.grad is not None
    assert torch.equal(first.grad, second.grad)
    assert first.grad.is_contiguous()


def test_it_works_without_gradients_and_in_inference_mode() -> None:
    x = torch.arange(-8.0, 8.0).view(1, 1, 4, 4)
    with torch.inference_mode():
        assert ReLUMaxPool2d()(x).flatten().tolist() == [0.0, 0.0, 5.0, 7.0]


def test_dropout_may_stand_before_it() -> None:
    ends = []
    for chain in (
        [Dropout(0.3), ReLUMaxPool2d()],
        [nn.ReLU(), Dropout(0.3), nn.MaxPool2d(2)],
    ):
        torch.manual_seed(0)
        x = torch.randn(5, 7, 9, 9, requires_grad=True)
        out = nn.Sequential(*chain)(x)
        out.backward(torch.randn_like(out))
        ends.append((out, x.grad))
    (out, gradient), (other, other_gradient) = ends
    assert torch.equal(out, other)
    assert torch.equal(gradient, other_gradient)
