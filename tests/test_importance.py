"""Importances against a loop over samples that takes the size of each one's own gradient."""

from collections.abc import Callable

import pytest
import torch
from avalanche.models import MTSimpleMLP
from torch import Tensor, nn
from torch.nn import functional as F

from clbench.networks import MultiHead
from clbench.networks.backbones import Backbone
from clbench.training import importance
from clbench.training.importance import empirical_fisher, followable, mean_size


class Trunk(Backbone):
    def __init__(self, *layers: nn.Module, features: int = 6) -> None:
        super().__init__()
        self.layers, self.features = nn.Sequential(*layers), features

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out


def linear() -> Trunk:
    return Trunk(nn.Flatten(), nn.Linear(32, 6), nn.ReLU())


def inplace() -> Trunk:
    layers = (nn.Flatten(), nn.Linear(32, 5), nn.ReLU(inplace=True), nn.Linear(5, 6))
    return Trunk(*layers, nn.ReLU(inplace=True))


def convolution() -> Trunk:
    first = nn.Conv2d(2, 3, 3, stride=2, padding=1, dilation=1)
    return Trunk(first, nn.ReLU(), nn.Conv2d(3, 6, 2, bias=False), nn.Flatten())


def without_bias() -> Trunk:
    return Trunk(nn.Flatten(), nn.Linear(32, 6, bias=False), nn.Tanh())


class Twice(Trunk):
    """Uses its one layer two times, so that its gradients add up before they are squared."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(super().forward(x).tanh())


def twice() -> Trunk:
    return Twice(nn.Flatten(), nn.Linear(32, 32), features=32)


def batch_norm() -> Trunk:
    norm = nn.BatchNorm2d(3)
    norm.running_mean.uniform_()  # type: ignore[union-attr]
    return Trunk(nn.Conv2d(2, 3, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(12, 6))


def layer_norm() -> Trunk:
    return Trunk(nn.Flatten(), nn.LayerNorm(32), nn.Linear(32, 6))


def grouped() -> Trunk:
    return Trunk(nn.Conv2d(2, 6, 4, groups=2), nn.Flatten())


def same_padding() -> Trunk:
    return Trunk(nn.Conv2d(2, 3, 3, padding="same"), nn.Flatten(), nn.Linear(48, 6))


def circular() -> Trunk:
    layer = nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular")
    return Trunk(layer, nn.Flatten(), nn.Linear(48, 6))


def sequence() -> Trunk:
    """A linear layer on (N, T, C)."""
    return Trunk(nn.Flatten(1, 2), nn.Linear(4, 3), nn.Flatten(), nn.Linear(24, 6))


def dropout() -> Trunk:
    return Trunk(nn.Flatten(), nn.Linear(32, 6), nn.Dropout(0.9))


def naive(model: nn.Module, batches: list[list[Tensor]]) -> dict[str, Tensor]:
    total = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    count = 0
    for x, y, t in batches:
        for i in range(len(y)):
            model.zero_grad()
            out = model(x[i : i + 1], t[i : i + 1])
            F.log_softmax(out, 1)[0, y[i]].backward()
            count += 1
            for name, p in model.named_parameters():
                if p.grad is not None:
                    total[name] += p.grad**2
    return {name: value / count for name, value in total.items()}


def data() -> list[list[Tensor]]:
    g = torch.Generator().manual_seed(0)
    sizes = (9, 4)  # unequal batches, both tasks in each
    return [
        [
            torch.randn(n, 2, 4, 4, generator=g),
            torch.randint(0, 2, (n,), generator=g),
            torch.arange(n) % 2,
        ]
        for n in sizes
    ]


def check(model: nn.Module) -> None:
    got = empirical_fisher(model, data())
    assert model.training  # as it was before
    model.eval()
    expected = naive(model, data())
    assert got.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(got[name], expected[name], rtol=1e-4, atol=1e-8)
    assert any(value.abs().sum() > 0 for value in expected.values())


@pytest.mark.parametrize("trunk", [linear, inplace, convolution, without_bias, dropout])
def test_layerwise_equals_a_loop_over_samples(
    trunk: Callable[[], Trunk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importance, "_by_vmap", None)  # the fast way is the one taken
    torch.manual_seed(1)
    check(MultiHead(trunk(), [2, 3, 2]))


@pytest.mark.parametrize(
    "trunk", [twice, batch_norm, layer_norm, grouped, same_padding, circular, sequence]
)
def test_all_other_layers_equal_a_loop_over_samples(trunk: Callable[[], Trunk]) -> None:
    torch.manual_seed(1)
    check(MultiHead(trunk(), [2, 3, 2]))


def test_an_untouched_head_has_zeros() -> None:
    torch.manual_seed(1)
    got = empirical_fisher(MultiHead(linear(), [2, 2, 2]), data())
    assert got["heads.2.weight"].abs().sum() == 0
    assert got["heads.1.weight"].abs().sum() > 0


def test_frozen_layers_are_no_hindrance() -> None:
    torch.manual_seed(1)
    model = MultiHead(linear(), [2, 2])
    full = empirical_fisher(model, data())
    model.trunk.requires_grad_(False)
    part = empirical_fisher(model, data())
    assert torch.equal(part["heads.0.weight"], full["heads.0.weight"])


def test_a_model_of_avalanches_own() -> None:
    torch.manual_seed(1)
    model = MTSimpleMLP(input_size=32, hidden_size=8)
    model.classifier.classifiers["1"] = nn.Linear(8, 2)
    model.classifier.masking = False
    got = empirical_fisher(model, data())
    model.eval()
    for name, value in naive(model, data()).items():
        torch.testing.assert_close(got[name], value, rtol=1e-4, atol=1e-8)


def test_it_is_not_the_square_of_the_mean_gradient() -> None:
    torch.manual_seed(1)
    model = MultiHead(linear(), [2, 2]).eval()
    [(x, y, t), *_] = data()
    mean = torch.autograd.grad(F.cross_entropy(model(x, t), y), [model.trunk.layers[1].weight])[0]  # type: ignore[index]
    got = empirical_fisher(model, data()[:1])["trunk.layers.1.weight"]
    assert not torch.allclose(got, mean**2, rtol=0.1)


@pytest.mark.parametrize("trunk", [linear, convolution, twice, dropout])
def test_absolute_gradients_of_another_loss_equal_a_loop_over_samples(
    trunk: Callable[[], Trunk],
) -> None:
    torch.manual_seed(1)
    model = MultiHead(trunk(), [2, 3, 2])
    got = mean_size(model, data(), lambda out, y: out.square().sum(), torch.abs)
    model.eval()
    samples = [(x[i : i + 1], t[i : i + 1]) for x, _, t in data() for i in range(len(t))]
    expected = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for x, t in samples:
        model.zero_grad()
        model(x, t).square().sum().backward()
        for name, p in model.named_parameters():
            if p.grad is not None:
                expected[name] += p.grad.abs() / len(samples)
    for name in expected:
        torch.testing.assert_close(got[name], expected[name], rtol=1e-4, atol=1e-7)
    assert any(value.sum() > 0 for value in expected.values())


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_penalty_that_descent_cannot_follow_is_lowered_and_no_other(momentum: float) -> None:
    """Strength 2, rate 0.1: descent follows weights up to 10 (1 + m)."""
    d = torch.full((4,), 1.0, requires_grad=True)
    optimizer = torch.optim.SGD([d], lr=0.1, momentum=momentum)
    edge = 10 * (1 + momentum)
    weight = torch.tensor([0.0, 0.99 * edge, 1.01 * edge, 1e9])
    found = followable(weight, 2.0, optimizer)
    assert found.tolist()[:2] == weight.tolist()[:2]
    assert found.tolist()[2:] == [5.0, 5.0], "2 * 5 * 0.1 is one step to the centre"
    sizes = {}
    for name, used in {"given": weight, "lowered": found}.items():
        d.data.fill_(1.0)
        optimizer.state.clear()
        for _ in range(2000):
            d.grad = 2.0 * used * d.detach()
            optimizer.step()
        sizes[name] = d.detach().abs()
    assert sizes["lowered"][0] == 1.0
    assert bool((sizes["lowered"][1:] < 1e-3).all())
    assert bool((sizes["given"][1] < 1e-3) & ~(sizes["given"][2:] < 1e3).any())
    assert followable(weight, 0.0, optimizer) is weight
