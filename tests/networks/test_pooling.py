"""The fast max-pooling against torch's own, bit for bit."""

import pytest
import torch
from torch import nn

from clbench.networks.pooling import MaxPool2d


@pytest.mark.parametrize("shape", [(3, 5, 6, 6), (2, 4, 7, 5), (1, 1, 2, 3), (4, 33, 12, 12)])
def test_it_is_torchs_forward_and_backward(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    # rounded and cut off, so that many windows have equal maxima
    first = (2 * torch.randn(shape)).round().relu().requires_grad_()
    second = first.detach().clone().requires_grad_()
    ours, theirs = MaxPool2d()(first), nn.MaxPool2d(2)(second)
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
    x = torch.arange(16.0).view(1, 1, 4, 4)
    with torch.inference_mode():
        assert MaxPool2d()(x).flatten().tolist() == [5.0, 7.0, 13.0, 15.0]
