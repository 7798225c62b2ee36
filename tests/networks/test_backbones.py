"""Parameter counts of the ordinary networks, and dropout with cheap masks."""

import pytest
import torch

from clbench.networks import MLP, AlexNet, MultiHead, ResNet18, backbone
from clbench.networks.dropout import Dropout


def parameters(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("trunk", "classes", "count"),
    [
        (MLP((1, 28, 28)), [2] * 5, 269_322),
        (AlexNet((3, 32, 32)), [5] * 20, 6_708_772),
        # conv 3*64*100+64, 64*128*64+128, 128*256*4+256; 12544 -> 2048 -> 2048; 20 heads of 5
        (
            AlexNet((3, 84, 84)),
            [5] * 20,
            19_264 + 524_416 + 131_328 + 25_692_160 + 4_196_352 + 204_900,
        ),
        # stem; per stage two blocks of 3x3 convolutions with norms and a 1x1 shortcut; heads
        (ResNet18((3, 32, 32)), [5] * 20, 580 + 14_560 + 51_600 + 205_600 + 820_800 + 16_100),
    ],
)
def test_counts_are_those_of_the_paper(trunk, classes, count):
    assert parameters(MultiHead(trunk, classes)) == count


def test_the_small_mlp_has_xaviers_weights_and_no_biases():
    trunk = backbone("mlp-100", (1, 28, 28))
    assert trunk.features == 100
    # what Buzzega et al. (2020) give as size * 100 + 100 + 100 * 100 + 100
    assert parameters(trunk) == 784 * 100 + 100 + 100 * 100 + 100
    linear = [layer for layer in trunk.layers if isinstance(layer, torch.nn.Linear)]
    for layer, bound in zip(linear, (6 / 884, 6 / 200), strict=True):
        assert float(layer.weight.detach().abs().max()) <= bound**0.5
        assert float(layer.weight.detach().abs().max()) > 0.95 * bound**0.5
        assert not layer.bias.any()
    black, white = ((value - 0.1307) / 0.3081 for value in (0.0, 1.0))  # as MNIST is standardized
    first = torch.nn.Sequential(*trunk.layers[:3])
    torch.testing.assert_close(
        first(torch.full((1, 1, 28, 28), black)), torch.zeros(1, 100), atol=1e-5, rtol=0
    )
    torch.testing.assert_close(
        first(torch.full((1, 1, 28, 28), white)), linear[0].weight.sum(1)[None]
    )


@pytest.mark.parametrize("p", [0.2, 0.5])
def test_dropout_drops_and_scales_like_a_bernoulli_mask(p):
    torch.manual_seed(0)
    x = torch.ones(1000, 1000, requires_grad=True)
    out = Dropout(p)(x)
    kept = out != 0
    n = x.numel()
    # five standard deviations of a binomial share
    assert abs(float(kept.float().mean()) - (1 - p)) < 5 * (p * (1 - p) / n) ** 0.5
    torch.testing.assert_close(
        out[kept], torch.full((int(kept.sum()),), 1 / (1 - p)), rtol=1e-4, atol=0
    )
    # neighbours, rows and columns are independent of each other
    centred = kept.float() - (1 - p)
    for a, b in [(centred[:, 1:], centred[:, :-1]), (centred[1:], centred[:-1])]:
        correlation = float((a * b).mean()) / (p * (1 - p))
        assert abs(correlation) < 5 / n**0.5
    out.sum().backward()
    torch.testing.assert_close(x.grad, out.detach())


def test_dropout_is_seeded_and_off_in_evaluation():
    layer, x = Dropout(0.5), torch.ones(64)
    torch.manual_seed(3)
    first, second = layer(x), layer(x)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first)
    assert not torch.equal(first, second)
    assert torch.equal(layer.eval()(x), x)
    assert torch.equal(Dropout(1.0)(x), torch.zeros(64))
