"""VCL and VCL-C: layers, KL and loss against closed forms; priors; what a test leaves alone."""

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from avalanche.training.supervised import Naive
from test_stock_avalanche import TASKS, benchmark
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F

from clbench.loader import TensorLoader
from clbench.memory import BYTES
from clbench.methods.vcl import VCL, VCLPlugin
from clbench.methods.vcl_c import VCLC, VCLCPlugin, k_center
from clbench.networks import MLP, AlexNet, ResNet18
from clbench.networks.bayes import BayesNet, add_gradient, kl_slopes
from clbench.seeding import generator, seed_everything
from clbench.stream import Stream


def learned(method: Any, stream: Stream, tasks: int) -> Any:
    torch.manual_seed(0)
    strategy = method.build(stream)
    for k in range(tasks):
        seed_everything(0, "task", k)
        strategy.learn(k)
    return strategy


# ---- the network ----


def test_outputs_of_a_linear_layer_are_those_of_drawn_weights() -> None:
    """Mean and variance against weights that are really drawn."""
    torch.manual_seed(0)
    layer = BayesNet(MLP((5,), width=4), [2], rho=-0.5).trunk.layers[1]
    x = torch.randn(3, 5)
    with torch.no_grad():
        layer.weight_rho += torch.randn(4, 5)
        outputs = torch.stack([layer(x) for _ in range(20_000)])
        weights = Normal(layer.weight_mu, F.softplus(layer.weight_rho)).sample((20_000,))
        biases = Normal(layer.bias_mu, F.softplus(layer.bias_rho)).sample((20_000,))
        drawn = torch.einsum("ni,soi->sno", x, weights) + biases[:, None]
    torch.testing.assert_close(outputs.mean(0), drawn.mean(0), rtol=0.05, atol=0.05)
    torch.testing.assert_close(outputs.var(0), drawn.var(0), rtol=0.06, atol=0.01)


def test_a_convolution_draws_from_its_gaussians() -> None:
    torch.manual_seed(0)
    conv = BayesNet(AlexNet((3, 32, 32)), [2], rho=-1.0).trunk.layers[0]
    images = torch.zeros(1, 3, 32, 32)
    images[0, 1, 2, 3] = 2.0  # the output at 0, 0 sees one weight of each channel, and the bias
    with torch.no_grad():
        seen = torch.stack([conv(images)[0, :, 0, 0] for _ in range(4000)])
    sigma = F.softplus(torch.tensor(-1.0))
    mean = 2 * conv.weight_mu[:, 1, 2, 3] + conv.bias_mu
    torch.testing.assert_close(seen.mean(0), mean.detach(), rtol=0, atol=0.06)
    torch.testing.assert_close(seen.var(0).mean(), 5 * sigma.square(), rtol=0.03, atol=0)


def test_the_means_are_an_ordinary_network_without_dropout() -> None:
    torch.manual_seed(0)
    trunk = AlexNet((3, 32, 32))
    net = BayesNet(copy.deepcopy(trunk), [2, 3]).eval()
    x = torch.randn(4, 3, 32, 32)
    with torch.no_grad():
        z = trunk.eval()(x)
        head = net.heads[1]
        torch.testing.assert_close(net(x, 1), F.linear(z, head.weight_mu, head.bias_mu))
    assert not any("Dropout" in type(m).__name__ for m in net.modules())
    plain = sum(p.numel() for p in trunk.parameters()) + 2049 * 5
    assert sum(p.numel() for p in net.parameters()) == 2 * plain
    with pytest.raises(TypeError, match="batch norm"):
        BayesNet(ResNet18((3, 32, 32)), [2])


def test_a_task_uses_the_trunk_and_its_own_head() -> None:
    net = BayesNet(MLP((6,), width=8), [2] * 12)
    used = ["trunk.layers.1", "trunk.layers.3", "heads.1"]  # not heads.10 and heads.11
    assert list(net.bayes_layers(1)) == used
    assert list(net.posterior(1)) == [f"{n}.{part}" for n in used for part in ("weight", "bias")]
    assert len(net.bayes_layers()) == 2 + 12


def test_predictions_average_probabilities_and_disturb_no_generator() -> None:
    torch.manual_seed(0)
    net = BayesNet(MLP((6,), width=8), [2, 3], rho=0.0, test_samples=7, seed=3).eval()
    x, tasks = torch.randn(5, 6), torch.tensor([0, 1, 1, 0, 1])
    before = torch.get_rng_state()
    out = net(x, tasks).detach()
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(out, net(x, tasks))
    torch.testing.assert_close(out.exp().sum(1), torch.ones(5))
    assert out[0, 2] == -torch.inf
    single = BayesNet(MLP((6,), width=8), [2, 3], rho=0.0).eval()
    single.load_state_dict(net.state_dict())
    with single.drawing(torch.Generator().manual_seed(3)):
        draws = [F.softmax(single(x, tasks), 1) for _ in range(7)]
    torch.testing.assert_close(out.exp(), torch.stack(draws).mean(0))
    assert bool(((draws[0] - draws[1]).abs() > 0.05).any())


def test_the_gradient_of_the_kl_is_that_of_torch() -> None:
    torch.manual_seed(0)
    net = BayesNet(MLP((6,), width=8), [2, 3])
    for p in net.parameters():
        p.data.normal_()
    prior = {
        n: (torch.randn_like(m), torch.rand_like(m) + 0.1) for n, (m, _) in net.posterior(1).items()
    }
    del prior["heads.1.weight"]  # not learned yet: N(0, 1)
    divergence = torch.zeros(())
    for name, q in net.posterior(1).items():
        right = prior.get(name, (torch.tensor(0.0), torch.tensor(1.0)))
        divergence = divergence + kl_divergence(Normal(*q), Normal(*right)).sum()
    parameters = [p for layer in net.bayes_layers(1).values() for p in layer.parameters()]
    expected = torch.autograd.grad(divergence, parameters)
    for p in parameters:
        p.grad = torch.ones_like(p)
    add_gradient(net, 1, lambda name, *q: kl_slopes(*q, prior.get(name)), 0.5)
    for p, right in zip(parameters, expected, strict=True):
        assert p.grad is not None
        torch.testing.assert_close(p.grad, 1 + right / 2)


# ---- learning ----


@pytest.mark.parametrize("samples", [1, 3])
def test_weights_are_those_of_the_formula(make_stream: Callable[..., Stream], samples: int) -> None:
    """Two tasks of one epoch, with no plugin: loss and prior written out by torch.distributions."""
    method = VCL(samples=samples)
    strategy = learned(method, make_stream(epochs=1, lr=0.5), 2)
    torch.manual_seed(0)
    stream = make_stream(epochs=1, lr=0.5)
    net: Any = method.build(stream).model
    start = copy.deepcopy(net.state_dict())
    prior: dict[str, Normal] = {}
    for k in range(2):
        seed_everything(0, "task", k)
        named = dict(net.named_parameters())
        used = [n for n in named if n.startswith(("trunk.", f"heads.{k}")) and n.endswith("_mu")]
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)

        def q(name: str, named: dict[str, Any] = named) -> Normal:
            return Normal(named[name], F.softplus(named[name.replace("_mu", "_rho")]))

        train = stream.tasks[k].train
        for x, y, _ in TensorLoader([train], 16, generator(stream.seed, "batches", k)):
            x, y = torch.cat(samples * [x]), torch.cat(samples * [y])
            loss = F.cross_entropy(net(x, k), y)
            for name in used:
                loss = loss + kl_divergence(q(name), prior.get(name, Normal(0.0, 1.0))).sum() / len(
                    train
                )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        prior |= {n: Normal(q(n).mean.detach().clone(), q(n).stddev.detach()) for n in used}
    for (name, p), mine in zip(strategy.model.named_parameters(), net.parameters(), strict=True):
        # by norm: where a gradient is near 0, Adam makes a step of its rounding error
        assert (p - mine).norm() <= 1e-3 * (mine - start[name]).norm(), name


def test_sigma_learns_and_other_heads_stay(make_stream: Callable[..., Stream]) -> None:
    torch.manual_seed(0)
    strategy: Any = VCL().build(make_stream(epochs=3, lr=0.5))
    start = copy.deepcopy(strategy.model.state_dict())
    strategy.learn(1)
    for name, value in strategy.model.state_dict().items():
        elsewhere = name.startswith(("heads.0", "heads.2"))
        assert torch.equal(value, start[name]) == elsewhere, name


def test_the_prior_is_the_last_posterior_and_is_counted(
    make_stream: Callable[..., Stream],
) -> None:
    strategy: Any = VCL().build(make_stream(epochs=1, lr=0.5))
    plugin = strategy.plugins[1]
    assert strategy.memory().auxiliary == 0
    for k in range(3):
        strategy.learn(k)
        own = strategy.model.posterior(k)
        for name, (mu, sigma) in own.items():
            assert torch.equal(plugin.prior[name][0], mu)
            assert torch.equal(plugin.prior[name][1], sigma)
        learned_heads = {n.split(".")[1] for n in plugin.prior if n.startswith("heads.")}
        assert learned_heads == {str(j) for j in range(k + 1)}
    numbers = sum(p.numel() for p in strategy.model.parameters())  # means and rhos
    assert strategy.memory().architecture == BYTES * numbers
    assert strategy.memory().auxiliary == BYTES * numbers  # means and sigmas of the prior


def test_adam_keeps_the_drops_of_the_schedule(make_stream: Callable[..., Stream]) -> None:
    strategy: Any = VCL(adam_rate=0.1).build(make_stream(lr=0.2, lr_min=0.01))
    strategy.make_optimizer()
    assert isinstance(strategy.optimizer, torch.optim.Adam)
    assert strategy.optimizer.param_groups[0]["lr"] == pytest.approx(0.02)
    assert strategy.schedule.protocol.lr_min == pytest.approx(0.001)


def test_it_refuses_what_has_no_sigma(make_stream: Callable[..., Stream]) -> None:
    assert VCL().refusal(make_stream()) == ""
    stream: Any = SimpleNamespace(
        backbone="resnet18", protocol=make_stream().protocol, scenario="task"
    )
    assert "resnet18" in VCL().refusal(stream)
    assert "weight_decay=0.01" in VCL().refusal(make_stream(weight_decay=0.01))
    assert "coreset=500" in VCLC(coreset=500).refusal(make_stream())
    assert VCLC(coreset=10).refusal(make_stream()) == ""


# ---- the coreset ----


def test_k_center_takes_the_farthest_sample_each_time() -> None:
    line = torch.tensor([[0.0], [1.0], [10.0], [5.0], [5.0], [10.0]])
    assert k_center(line, 3).tolist() == [0, 2, 3]
    assert sorted(k_center(line, 6).tolist()) == list(range(6))  # none twice
    torch.manual_seed(0)
    x = torch.randn(60, 1, 3, 3)
    chosen = [0]
    for _ in range(9):
        to_chosen = torch.cdist(x.flatten(1), x[chosen].flatten(1)).amin(1)
        chosen.append(int(to_chosen.argmax()))
    assert k_center(x, 10).tolist() == chosen


def test_the_coreset_is_held_back_from_training(make_stream: Callable[..., Stream]) -> None:
    torch.manual_seed(0)
    strategy: Any = VCLC(coreset=8).build(make_stream(epochs=2, lr=0.5))
    plugin, seen = strategy.plugins[1], []
    before = plugin.before_training_iteration
    plugin.before_training_iteration = lambda s, **kw: (seen.append(s.mb_x), before(s, **kw))
    strategy.learn(0)
    split = strategy.stream.tasks[0].train
    x = split.inputs()
    rows = k_center(x, 8)
    assert torch.equal(plugin.kept.columns["x"], x[rows])
    assert torch.equal(plugin.kept.columns["y"], split.labels[rows])
    assert plugin.n == len(x) - 8
    trained = torch.cat(seen[: len(seen) // 2])
    assert len(trained) == len(x) - 8
    assert float(torch.cdist(trained.flatten(1), plugin.kept.columns["x"].flatten(1)).min()) > 0.01
    assert strategy.memory().replay == BYTES * 8 * 36


def test_a_test_fits_a_copy_and_leaves_everything_alone(
    make_stream: Callable[..., Stream],
) -> None:
    strategy = learned(VCLC(coreset=8, coreset_steps=20), make_stream(epochs=1, lr=0.5), 2)
    plugin, model = strategy.plugins[1], strategy.model
    weights, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    tested: list[Any] = []
    after = plugin.after_eval_exp
    plugin.after_eval_exp = lambda s, **kw: (tested.append(s.model), after(s, **kw))
    first = [strategy.accuracy(i) for i in range(3)]
    assert [strategy.accuracy(i) for i in range(3)] == first
    assert strategy.model is model
    assert torch.equal(state, torch.get_rng_state())
    for name, value in model.state_dict().items():
        assert torch.equal(value, weights[name])
    assert tested[0] is not model
    assert tested[2] is model  # a task without a coreset yet
    x, y, _ = plugin.kept.of_task(0)
    assert len(y) == 8
    fitted, plain = tested[0], model.eval()
    with torch.no_grad():
        assert F.cross_entropy(fitted(x, 0), y) < F.cross_entropy(plain(x, 0), y)
    strategy.valid_accuracy(0)
    assert tested[-1] is not model
    plugin.learning = True
    strategy.valid_accuracy(0)
    assert tested[-1] is model  # the epoch is that of the network itself


# ---- in Avalanche's own strategy ----


@pytest.mark.filterwarnings("ignore:No loggers specified")
@pytest.mark.parametrize("plugin", [VCLPlugin(), VCLCPlugin(coreset=6, steps=5)], ids=["vcl", "c"])
def test_the_plugin_works_in_stock_naive(plugin: VCLPlugin) -> None:
    torch.manual_seed(0)
    model = BayesNet(MLP((16,), width=32), [2] * TASKS, mu_std=0.1)
    strategy = Naive(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=0.01),
        criterion=torch.nn.CrossEntropyLoss(),
        train_mb_size=10,
        train_epochs=15,
        plugins=[plugin],
        evaluator=None,
    )
    made = benchmark()
    for experience in made.train_stream:
        strategy.train(experience)
        assert plugin.n == (34 if isinstance(plugin, VCLCPlugin) else 40)
    strategy.eval(made.test_stream)
    assert strategy.model is model
    assert len(plugin.prior) == 4 + 2 * TASKS
    for task, experience in enumerate(made.test_stream):
        x = torch.stack([experience.dataset[i][0] for i in range(30)])
        right = model.eval()(x, task).argmax(1) == torch.arange(30) % 2
        assert right.float().mean() > 0.8
