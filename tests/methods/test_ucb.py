"""UCB: prior, loss and the rate of each mean against formulas; what trains and what stays."""

import copy
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from avalanche.training.supervised import Naive
from test_stock_avalanche import TASKS, benchmark
from torch.distributions import Categorical, MixtureSameFamily, Normal, kl_divergence
from torch.nn import functional as F

from clbench.conformance import small_stream
from clbench.errors import UserError
from clbench.loader import TensorLoader
from clbench.memory import BYTES
from clbench.methods.ucb import UCB, UCBPlugin, mixture_slope
from clbench.networks import MLP
from clbench.networks.bayes import BayesNet, add_gradient
from clbench.seeding import generator, seed_everything
from clbench.stream import Stream


def mixture(pi: float, sigma1: float, sigma2: float) -> MixtureSameFamily:
    scales = torch.tensor([sigma1, sigma2])
    return MixtureSameFamily(
        Categorical(torch.tensor([pi, 1 - pi])), Normal(torch.zeros(2), scales)
    )


def test_the_prior_is_a_mixture_of_two_gaussians() -> None:
    w = torch.linspace(-3, 3, 101, dtype=torch.float64, requires_grad=True)
    for numbers in ((0.25, 1.0, math.exp(-6)), (0.5, 2.0, 0.3), (0.5, 0.3, 2.0)):
        (slope,) = torch.autograd.grad(-mixture(*numbers).log_prob(w).sum(), w)
        torch.testing.assert_close(mixture_slope(w.detach(), *numbers), slope)
    for alone in ((1.0, 2.0, 0.3), (0.0, 0.3, 2.0)):
        torch.testing.assert_close(mixture_slope(w.detach(), *alone), w.detach() / 4)


def test_the_slopes_are_those_of_the_kl_and_reach_means_and_sigmas() -> None:
    """With both Gaussians alike the KL is known; many draws come near its gradients."""
    torch.manual_seed(0)
    net = BayesNet(MLP((3,), width=4), [2, 2], rho=0.0)
    plugin = UCBPlugin(samples=1, pi=0.5, sigma1=0.7, sigma2=0.7)
    used = list(net.posterior(1).values())
    exact = sum(kl_divergence(Normal(m, s), Normal(0.0, 0.7)).sum() for m, s in used)
    assert isinstance(exact, torch.Tensor)
    layers = list(net.bayes_layers(1).values())
    parameters = [p for layer in layers for p in layer.parameters()]
    expected = torch.autograd.grad(exact, parameters)
    for p in parameters:
        p.grad = torch.zeros_like(p)
    draws = 800
    for _ in range(draws):
        add_gradient(net, 1, plugin.slopes, 1 / draws)
    for p, right in zip(parameters, expected, strict=True):
        assert p.grad is not None
        torch.testing.assert_close(p.grad, right, rtol=0.1, atol=0.2)
    assert all(p.grad is None for p in net.heads[0].parameters())


@pytest.mark.parametrize("samples", [1, 2])
def test_weights_are_those_of_the_formula(make_stream: Callable[..., Stream], samples: int) -> None:
    """Three tasks of one epoch, with no plugin: the rate of each mean times its sigma."""
    lr, numbers = 0.1, (0.3, 1.5, 0.4)
    method = UCB(samples=samples, pi=numbers[0], sigma1=numbers[1], sigma2=numbers[2])
    torch.manual_seed(0)
    stream = make_stream(epochs=1, lr=lr)
    strategy: Any = method.build(stream)
    net, prior = copy.deepcopy(strategy.model), mixture(*numbers)
    for k in range(3):
        seed_everything(0, "task", k)
        strategy.learn(k)
    for k in range(3):
        seed_everything(0, "task", k)
        train = stream.tasks[k].train
        layers = [*(net.trunk.layers[i] for i in (1, 3)), net.heads[k]]
        for x, y, _ in TensorLoader([train], 16, generator(stream.seed, "batches", k)):
            x, y = torch.cat(samples * [x]), torch.cat(samples * [y])
            loss = F.cross_entropy(net(x, k), y)
            for layer in layers:
                for part in ("weight", "bias"):
                    mu, rho = getattr(layer, f"{part}_mu"), getattr(layer, f"{part}_rho")
                    q = Normal(mu, torch.log1p(rho.exp()))
                    w = q.mean + q.stddev * torch.randn_like(mu)
                    loss = loss + (q.log_prob(w) - prior.log_prob(w)).sum() / len(train)
            net.zero_grad()
            loss.backward()
            with torch.no_grad():
                for layer in layers:
                    for part in ("weight", "bias"):
                        mu, rho = getattr(layer, f"{part}_mu"), getattr(layer, f"{part}_rho")
                        slow = k > 0 and layer is not net.heads[k]
                        mu -= lr * mu.grad * (torch.log1p(rho.exp()) if slow else 1.0)
                        rho -= lr * rho.grad
    for (name, p), mine in zip(strategy.model.named_parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(p, mine, rtol=1e-3, atol=1e-5, msg=name)


def test_means_sigmas_and_the_head_of_every_task_train(
    make_stream: Callable[..., Stream],
) -> None:
    """None of the released code's defects: frozen sigma, heads that stay as they were."""
    torch.manual_seed(0)
    strategy: Any = UCB().build(make_stream(epochs=2))
    for k in range(3):
        before = copy.deepcopy(strategy.model.state_dict())
        strategy.learn(k)
        for name, value in strategy.model.state_dict().items():
            used = name.startswith(("trunk.", f"heads.{k}"))
            assert torch.equal(value, before[name]) != used, name
    assert strategy.diagnostics()["mean_sigma"] == pytest.approx([0.05, 0.05], abs=0.02)


def test_the_spread_of_sigma_tells_whether_weights_differ(
    make_stream: Callable[..., Stream],
) -> None:
    strategy: Any = UCB().build(make_stream())
    assert strategy.diagnostics()["sigma_spread"] == pytest.approx([0.0, 0.0], abs=1e-6)
    layer = next(iter(strategy.model.bayes_layers().values()))
    sigma = torch.ones_like(layer.weight_rho)
    sigma.flatten()[: sigma.numel() // 2] = 3.0  # mean 2, standard deviation 1
    layer.weight_rho.data = sigma.expm1().log()
    assert strategy.diagnostics()["mean_sigma"][0] == pytest.approx(2.0)
    assert strategy.diagnostics()["sigma_spread"][0] == pytest.approx(0.5, rel=0.1)


def test_a_head_that_comes_back_moves_by_its_sigma(make_stream: Callable[..., Stream]) -> None:
    plugin = UCBPlugin(1, 0.25, 1.0, 0.3)
    net = BayesNet(MLP((4,), width=3), [2, 2], rho=-2.0)
    plugin.tasks, plugin.k = [0], 0
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    strategy: Any = SimpleNamespace(model=net)
    plugin.before_update(strategy)
    sigma = math.log1p(math.exp(-2.0))
    for name, p in net.named_parameters():
        slow = name.endswith("_mu") and not name.startswith("heads.1")
        assert p.grad is not None
        torch.testing.assert_close(p.grad, torch.full_like(p, sigma if slow else 1.0))


def test_its_memory_is_a_mean_and_a_sigma_for_each_weight(
    make_stream: Callable[..., Stream],
) -> None:
    strategy: Any = UCB().build(make_stream(epochs=1))
    strategy.learn(0)
    plain = 36 * 256 + 256 + 256 * 256 + 256 + 3 * (256 * 2 + 2)
    memory = strategy.memory()
    assert (memory.architecture, memory.auxiliary, memory.replay) == (BYTES * 2 * plain, 0, 0)


def test_the_network_of_the_public_code_has_one_hidden_layer() -> None:
    stream = small_stream()  # three tasks of 2, 3 and 2 classes
    strategy = UCB(hidden=1200).build(stream)
    weights = 785 * 1200 + 1201 * (2 + 3 + 2)
    assert strategy.memory().architecture == 4 * 2 * weights
    net = Stream(stream._sources, name="x", backbone="alexnet", protocol=stream.protocol, seed=0)
    with pytest.raises(UserError, match="hidden is the width of an mlp"):
        UCB(hidden=1200).build(net)


def test_it_refuses_what_has_no_sigma(make_stream: Callable[..., Stream]) -> None:
    assert UCB().refusal(make_stream()) == ""
    stream: Any = SimpleNamespace(
        backbone="resnet18", protocol=make_stream().protocol, scenario="task"
    )
    assert "resnet18" in UCB().refusal(stream)
    assert "weight_decay=0.01" in UCB().refusal(make_stream(weight_decay=0.01))


@pytest.mark.filterwarnings("ignore:No loggers specified")
def test_the_plugin_works_in_stock_naive() -> None:
    torch.manual_seed(0)
    model, plugin = BayesNet(MLP((16,), width=32), [2] * TASKS), UCBPlugin(1, 0.25, 1.0, 0.3)
    strategy = Naive(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.2),
        criterion=torch.nn.CrossEntropyLoss(),
        train_mb_size=10,
        train_epochs=15,
        plugins=[plugin],
        evaluator=None,
    )
    made = benchmark()
    for experience in made.train_stream:
        strategy.train(experience)
    assert plugin.tasks == [0, 1, 2]
    for task, experience in enumerate(made.test_stream):
        x = torch.stack([experience.dataset[i][0] for i in range(30)])
        right = model.eval()(x, task).argmax(1) == torch.arange(30) % 2
        assert right.float().mean() > 0.8
