"""HAT: gates, regulariser and compensation by hand; what is claimed does not move; counts."""

import math
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from avalanche.training.plugins import EvaluationPlugin, SupervisedPlugin
from avalanche.training.supervised import Naive
from test_stock_avalanche import TASKS, benchmark
from torch import Tensor
from torch.optim import SGD

from clbench.memory import of_model
from clbench.methods.hat import HAT, HATPlugin, compensation, free, regulariser, slope
from clbench.networks import MLP, AlexNet, ResNet18
from clbench.networks.hat import HATNet
from clbench.seeding import seed_everything
from clbench.stream import Stream


def test_parameters_are_those_of_the_paper() -> None:
    mlp = HATNet(MLP((1, 28, 28)), [2] * 5)
    assert sum(p.numel() for p in mlp.parameters()) == 271_882
    wide = HATNet(MLP((1, 28, 28), 500), [10] * 10)
    assert sum(p.numel() for p in wide.parameters()) == 703_100
    cifar = HATNet(AlexNet((3, 32, 32)), [5] * 20)
    assert sum(p.numel() for p in cifar.parameters()) == 6_799_652
    assert round(of_model(cifar) / 1e6, 1) == 27.2


def test_counts_at_84_pixels() -> None:
    with torch.device("meta"):
        mini = HATNet(AlexNet((3, 84, 84)), [5] * 20)
    assert sum(p.numel() for p in mini.parameters()) == 30_859_300


# ---- the formulas ----


def test_the_slope_rises_from_one_over_smax_to_smax_in_each_epoch(
    make_stream: Callable[..., Stream],
) -> None:
    assert [slope(b, 5, 400.0) for b in (0, 4)] == [1 / 400, 400.0]
    assert slope(2, 5, 400.0) == pytest.approx((400 + 1 / 400) / 2)
    assert slope(0, 1, 400.0) == 400.0

    class Look(SupervisedPlugin):
        seen: list[float] = []

        def after_forward(self, strategy: Any, **kwargs: Any) -> None:
            self.seen.append(strategy.model.s)

    strategy: Any = HAT(smax=50.0).build(make_stream(epochs=2))
    look = Look()
    strategy.plugins.append(look)
    strategy.learn(0)
    batches = math.ceil(len(strategy.stream.tasks[0].train) / 16)
    assert look.seen == 2 * [slope(b, batches, 50.0) for b in range(batches)]


def test_the_regulariser_by_hand() -> None:
    gates = [torch.tensor([1.0, 0.5]), torch.tensor([0.25, 0.0, 1.0])]
    all_free = [torch.ones(2), torch.ones(3)]
    assert float(regulariser(gates, all_free, 5.0)) == pytest.approx(2.75 / 5)
    some = [torch.tensor([0.0, 1.0]), torch.tensor([0.5, 1.0, 1.0])]
    # 0 + 0.5 + 0.125 + 0 + 1 over 0 + 1 + 0.5 + 1 + 1
    assert float(regulariser(gates, some, 3.5)) == pytest.approx(1.625 / 3.5)
    assert float(regulariser(gates, [torch.zeros(2), torch.zeros(3)], 0.0)) == 0.0


def test_the_compensation_by_hand() -> None:
    e = torch.tensor([0.0, 1.0, -2.0, 6.0])
    expected = [
        400 / 2 * (math.cosh(min(2 * value, 50)) + 1) / (math.cosh(value) + 1)
        for value in e.tolist()
    ]
    torch.testing.assert_close(compensation(e, 2.0, 400.0), torch.tensor(expected))
    # s e = 600 is cut at 50, and stays finite
    steep = 400 / 100 * (math.cosh(50) + 1) / (math.cosh(6) + 1)
    assert float(compensation(e, 100.0, 400.0)[3]) == pytest.approx(steep, rel=1e-5)


def test_the_compensation_makes_the_step_that_of_a_slope_of_one() -> None:
    """The gradient of sigmoid(s e) times the factor is smax times that of sigmoid(e), at any s."""
    for s in (0.01, 1.0, 5.0):
        e = torch.tensor([0.3, -1.2], requires_grad=True)
        torch.sigmoid(s * e).sum().backward()
        assert e.grad is not None
        plain = torch.sigmoid(e) * (1 - torch.sigmoid(e))
        torch.testing.assert_close(e.grad * compensation(e, s, 400.0), 400 * plain)


def test_gates_multiply_channels_behind_the_pooling_and_are_steepest_in_evaluation() -> None:
    torch.manual_seed(0)
    trunk = AlexNet((3, 32, 32))
    net = HATNet(trunk, [5] * 3).eval()
    net.s = 0.0  # of training; without meaning here
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        for of_layer in net.embeddings:
            of_layer[1].fill_(6.0)  # open
        torch.testing.assert_close(net(x, 1), net.heads[1](trunk.eval()(x)))
        net.embedding(1)[0].fill_(-6.0)  # the first layer is shut: the image does not matter
        assert torch.equal(net(x, 1)[0], net(x, 1)[1])
        mixed = net(x, torch.tensor([0, 2]))
        torch.testing.assert_close(mixed, torch.cat([net(x[:1], 0), net(x[1:], 2)]))


# ---- what is claimed stays ----


def test_factors_are_one_minus_the_lesser_of_both_units() -> None:
    net = HATNet(MLP((3,), width=2), [2])
    claimed = [torch.tensor([1.0, 0.25]), torch.tensor([0.5, 1.0])]
    (w1, b1), (w2, b2) = free(net, claimed)
    assert w1.tolist() == [[0.0] * 3, [0.75] * 3]  # below are the inputs, which nobody claims
    assert b1.tolist() == [0.0, 0.75]
    # rows: the units above, 0.5 and 1; columns: those below, 1 and 0.25
    assert w2.tolist() == [[0.5, 0.75], [0.0, 0.75]]
    assert b2.tolist() == [0.5, 0.0]


def test_from_channels_to_units_a_channel_counts_at_all_its_positions() -> None:
    with torch.device("meta"):
        net = HATNet(AlexNet((3, 32, 32)), [5])
    assert net.repeats == [1, 1, 1, 4, 1]
    claimed = [torch.zeros(n) for n in net.units]
    claimed[2][7] = 1.0
    claimed[3][:] = 1.0
    factors = free(net, claimed)
    assert factors[1][0].shape == (128, 64, 3, 3)
    weight = factors[3][0]  # (2048, 256 * 2 * 2)
    shut = (weight == 0).all(0).nonzero().flatten().tolist()
    assert shut == [28, 29, 30, 31]
    # the very inputs that channel 7 becomes when it is flattened
    image = torch.zeros(1, 256, 2, 2)
    image[0, 7] = 1.0
    assert image.flatten().nonzero().flatten().tolist() == shut


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_weight_between_claimed_units_does_not_move_at_all(
    make_stream: Callable[..., Stream], momentum: float
) -> None:
    seed_everything(0, "init")
    strategy: Any = HAT(width=20).build(make_stream(epochs=3, momentum=momentum))
    strategy.learn(0)
    plugin, net = strategy.plugins[1], strategy.model
    with torch.no_grad():
        plugin._claim([(torch.arange(20) < 10).float() for _ in net.units])
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    strategy.learn(1)
    moved = {name: (p != before[name]) for name, p in net.named_parameters()}
    for layer in (0, 1):
        assert not moved[f"layers.{layer}.bias"][:10].any()
        assert moved[f"layers.{layer}.weight"][10:].any()
    assert not moved["layers.0.weight"][:10].any()
    assert not moved["layers.1.weight"][:10, :10].any()
    assert moved["layers.1.weight"][:10, 10:].any()  # a claimed unit may listen to a free one
    # other tasks' heads and embeddings have no part in it
    for task in (0, 2):
        assert not any(m.any() for n, m in moved.items() if n.startswith(f"heads.{task}."))
        assert not any(moved[f"embeddings.{layer}.{task}"].any() for layer in (0, 1))
    assert moved["embeddings.0.1"].any()
    assert all(float(e.detach().abs().max()) <= 6.0 for e in net.embedding(1))


def test_after_a_task_the_gates_at_smax_are_claimed_and_recorded(
    make_stream: Callable[..., Stream],
) -> None:
    seed_everything(0, "init")
    strategy: Any = HAT(width=20).build(make_stream(epochs=2))
    plugin = strategy.plugins[1]
    expected = [torch.zeros(20), torch.zeros(20)]
    for k in range(3):
        strategy.learn(k)
        gates = [torch.sigmoid(400 * e.detach()) for e in strategy.model.embedding(k)]
        expected = [torch.maximum(*pair) for pair in zip(expected, gates, strict=True)]
        for mine, wanted in zip(plugin.claimed, expected, strict=True):
            assert torch.equal(mine, wanted)
        capacity = strategy.diagnostics()["used_capacity"]
        assert capacity == [100 * float(c.mean()) for c in expected]
    assert 0 < capacity[0] <= 100
    assert strategy.memory().auxiliary == 4 * 40
    assert strategy.memory().architecture == of_model(strategy.model)


def test_the_validation_loss_includes_the_regulariser_and_the_test_loss_does_not(
    make_stream: Callable[..., Stream],
) -> None:
    seed_everything(0, "init")
    strategy: Any = HAT(width=20).build(make_stream(epochs=2))
    strategy.learn(0)
    plugin, streams = strategy.plugins[1], strategy.stream.avalanche
    plugin._claim([torch.zeros(20), torch.zeros(20)])
    losses = []
    for plugin.strength in (0.0, 3.0):
        losses.append(
            [
                strategy._measure([s[0]]).mean_loss
                for s in (streams.valid_stream, streams.test_stream)
            ]
        )
    gates = torch.cat(strategy.model.eval().gates(0)).detach()
    assert losses[1][0] - losses[0][0] == pytest.approx(3.0 * float(gates.mean()), rel=1e-4)
    assert losses[1][1] == losses[0][1]


def test_embeddings_learn_by_plain_sgd_whatever_the_protocol(
    make_stream: Callable[..., Stream],
) -> None:
    stream = make_stream(momentum=0.9)
    strategy: Any = HAT().build(stream)
    strategy.make_optimizer()
    weights, embeddings = strategy.optimizer.param_groups
    assert (weights["momentum"], embeddings["momentum"]) == (0.9, 0.0)
    assert embeddings["lr"] == weights["lr"]
    assert len(embeddings["params"]) == 2 * 3
    both = [*weights["params"], *embeddings["params"]]
    assert {id(p) for p in both} == {id(p) for p in strategy.model.parameters()}


def test_it_refuses_what_it_cannot_gate_or_protect(make_stream: Callable[..., Stream]) -> None:
    assert HAT().refusal(make_stream()) == ""
    stream: Any = SimpleNamespace(
        backbone="resnet18", protocol=make_stream().protocol, scenario="task"
    )
    assert "resnet18" in HAT().refusal(stream)
    assert "weight_decay=0.01" in HAT().refusal(make_stream(weight_decay=0.01))
    assert "dropout" in HAT(dropout=1.0).refusal(make_stream())
    with pytest.raises(TypeError, match="BatchNorm2d"):
        HATNet(ResNet18((3, 32, 32)), [2])


# ---- in Avalanche's own strategy ----


def test_the_plugin_works_in_stock_naive() -> None:
    torch.manual_seed(0)
    model, plugin = HATNet(MLP((16,), width=32), [2] * TASKS), HATPlugin()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "No loggers specified")
        evaluator = EvaluationPlugin()
    strategy = Naive(
        model=model,
        optimizer=SGD(model.parameters(), lr=0.1),
        criterion=torch.nn.CrossEntropyLoss(),
        train_mb_size=10,
        train_epochs=8,
        plugins=[plugin],
        evaluator=evaluator,
    )
    made = benchmark()
    outputs: list[Tensor] = []
    x = torch.stack([made.test_stream[0].dataset[i][0] for i in range(30)])
    for experience in made.train_stream:
        strategy.train(experience)
        outputs.append(model.eval()(x, 0).detach())
    torch.testing.assert_close(outputs[-1], outputs[0], rtol=1e-2, atol=1e-2)  # gates are soft
    assert all(0 < float(c.mean()) < 1 for c in plugin.claimed)
    for task, experience in enumerate(made.test_stream):
        x = torch.stack([experience.dataset[i][0] for i in range(30)])
        right = model(x, task).argmax(1) == torch.arange(30) % 2
        assert right.float().mean() > 0.8
