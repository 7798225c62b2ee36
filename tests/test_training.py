"""The shared protocol: the plateau schedule, the optimizer of a task, and what a strategy keeps."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from avalanche.training.plugins import SupervisedPlugin

from clbench.networks import MultiHead, ordinary
from clbench.networks.backbones import MLP
from clbench.networks.heads import by_task
from clbench.seeding import derive, generator, seed_everything
from clbench.stream import Split, Stream
from clbench.training import Strategy


class Scripted(Strategy):
    """Real training whose validation losses are told to it."""

    losses: list[float]

    def validate(self) -> tuple[float, float]:
        self.weights.append({k: v.clone() for k, v in self.model.state_dict().items()})
        return 50.0, self.losses.pop(0)


@pytest.fixture
def scripted(make_stream: Callable[..., Stream]) -> Callable[..., Scripted]:
    def make(losses: list[float], **protocol: Any) -> Scripted:
        values = {"epochs": 100, "lr": 0.9, "patience": 2, "lr_factor": 3.0, "lr_min": 0.05}
        stream = make_stream(tasks=2, **values | protocol)
        torch.manual_seed(0)
        strategy = Scripted(model=ordinary(stream), stream=stream)
        strategy.losses, strategy.weights = losses, []
        return strategy

    return make


def rates(curve: list[dict[str, float]] | None) -> list[float]:
    assert curve is not None
    return [round(epoch["lr"], 6) for epoch in curve]


def test_the_rate_drops_after_patience_epochs_without_a_better_loss(
    scripted: Callable[..., Scripted],
) -> None:
    #        best  bad  best  bad  bad: /3  bad  equal is bad: /3  bad  bad: 0.0333 < 0.05
    losses = [5.0, 6.0, 4.0, 4.5, 4.1, 4.2, 4.0, 4.3, 4.4]
    curve = scripted(losses).learn(0)
    assert rates(curve) == [0.9] * 5 + [0.3] * 2 + [0.1] * 2
    assert losses == []  # and it has stopped by itself


def test_a_better_loss_after_a_drop_keeps_the_rate(scripted: Callable[..., Scripted]) -> None:
    curve = scripted([5.0, 6.0, 6.0, 4.0, 5.0, 3.0, 9.0, 9.0, 9.0, 9.0]).learn(0)
    assert rates(curve) == [0.9] * 3 + [0.3] * 5 + [0.1] * 2


def test_the_cap_on_epochs_ends_a_task(scripted: Callable[..., Scripted]) -> None:
    curve = scripted([9.0 - i for i in range(4)], epochs=4).learn(0)
    assert [epoch["epoch"] for epoch in curve or ()] == [1, 2, 3, 4]


def test_the_best_weights_are_put_back(scripted: Callable[..., Scripted]) -> None:
    strategy = scripted([5.0, 3.0, 4.0, 4.0, 9.0, 9.0, 9.0, 9.0])
    strategy.learn(0)
    best, last = strategy.weights[1], strategy.weights[-1]
    now = strategy.model.state_dict()
    assert all(torch.equal(now[k], best[k]) for k in now)
    assert not torch.equal(now["heads.0.weight"], last["heads.0.weight"])


def test_the_rate_is_reset_for_every_task(scripted: Callable[..., Scripted]) -> None:
    strategy = scripted([5.0, 6.0, 6.0, 6.0, 6.0, 6.0, 6.0])
    strategy.learn(0)
    strategy.losses[:] = [7.0] * 7  # worse than the first task's, yet the best of this one
    assert rates(strategy.learn(1)) == [0.9] * 3 + [0.3] * 2 + [0.1] * 2


def test_a_methods_plugin_sees_the_restored_weights(
    make_stream: Callable[..., Stream],
) -> None:
    class Look(SupervisedPlugin):
        def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
            self.seen = {k: v.clone() for k, v in strategy.model.state_dict().items()}

    look, stream = Look(), make_stream(epochs=3)
    strategy = Scripted(model=ordinary(stream), stream=stream, plugins=[look])
    strategy.losses, strategy.weights = [1.0, 2.0, 3.0], []
    strategy.learn(0)
    assert all(torch.equal(look.seen[k], strategy.weights[0][k]) for k in look.seen)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_validation_loss_that_is_no_number_is_a_failure(
    scripted: Callable[..., Scripted], value: float
) -> None:
    with pytest.raises(FloatingPointError, match=r"the validation loss is .* in epoch 2 of task 1"):
        scripted([1.0, value]).learn(0)


def test_validation_leaves_the_model_in_training_mode(make_stream: Callable[..., Stream]) -> None:
    class Look(SupervisedPlugin):
        modes: list[bool] = []

        def before_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
            self.modes.append(strategy.model.training)

    stream = make_stream(epochs=2)
    Strategy(model=ordinary(stream), stream=stream, plugins=[Look()]).learn(0)
    assert len(Look.modes) > 2
    assert all(Look.modes)


def test_the_validation_loss_is_the_mean_over_samples(make_stream: Callable[..., Stream]) -> None:
    stream = make_stream(epochs=1)
    strategy = Strategy(model=ordinary(stream), stream=stream)
    curve = strategy.learn(0)
    valid = stream.tasks[0].valid
    out = strategy.model(valid.inputs(), 0)
    by_hand = torch.nn.functional.cross_entropy(out, valid.labels).item()
    assert curve is not None
    assert curve[0]["valid_loss"] == pytest.approx(by_hand, rel=1e-5)
    right = (out.argmax(1) == valid.labels).float().mean().item()
    assert curve[0]["valid_accuracy"] == pytest.approx(100 * right)


def test_validation_data_become_inputs_once_a_task(
    make_stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = make_stream(tasks=2, epochs=3)
    strategy = Strategy(model=ordinary(stream), stream=stream)
    made, inputs = [], Split.inputs

    def spy(split: Split, which: Any = None) -> torch.Tensor:
        if which is None:
            made.append(split)
        return inputs(split, which)

    monkeypatch.setattr(Split, "inputs", spy)
    strategy.learn(0)
    strategy.learn(1)
    strategy.accuracy(0)
    first, second = stream.tasks
    wanted = [first.train, first.valid, second.train, second.valid, first.test]
    assert [id(split) for split in made] == [id(split) for split in wanted]


def test_a_task_starts_with_a_fresh_sgd_over_what_can_learn(
    make_stream: Callable[..., Stream],
) -> None:
    stream = make_stream(momentum=0.9, weight_decay=0.01, lr=0.1)
    strategy = Strategy(model=ordinary(stream), stream=stream)
    strategy.learn(0)
    first = strategy.optimizer
    strategy.model.heads[0].requires_grad_(False)
    frozen = strategy.model.heads[0].weight.clone()
    strategy.learn(1)
    assert strategy.optimizer is not first
    [group] = strategy.optimizer.param_groups
    assert (group["momentum"], group["weight_decay"]) == (0.9, 0.01)
    ids = {id(p) for p in group["params"]}
    assert ids == {id(p) for p in strategy.model.parameters() if p.requires_grad}
    assert torch.equal(strategy.model.heads[0].weight, frozen)


def test_accuracy_is_in_percent_of_the_test_images(make_stream: Callable[..., Stream]) -> None:
    stream = make_stream()
    strategy = Strategy(model=ordinary(stream), stream=stream)
    test = stream.tasks[1].test
    right = (strategy.model(test.inputs(), 1).argmax(1) == test.labels).sum().item()
    assert strategy.accuracy(1) == 100 * right / len(test)


# ---- heads ----


def test_mixed_tasks_come_back_in_order_and_narrow_heads_are_padded() -> None:
    torch.manual_seed(0)
    model = MultiHead(MLP((1, 2, 2), width=8), [2, 3])
    x, tasks = torch.randn(5, 1, 2, 2), torch.tensor([1, 0, 1, 0, 0])
    mixed = model(x, tasks)
    assert mixed.shape == (5, 3)
    for i, task in enumerate(tasks.tolist()):
        alone = model(x[i : i + 1], task)[0]
        torch.testing.assert_close(mixed[i, : len(alone)], alone)
        assert torch.isneginf(mixed[i, len(alone) :]).all()
    loss = torch.nn.functional.cross_entropy(mixed, torch.tensor([2, 1, 0, 0, 1]))
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_heads_of_one_width_give_what_autograd_gives() -> None:
    """Some heads with equally many samples, one alone with its number, one without any."""
    torch.manual_seed(0)
    net = MultiHead(MLP((1, 4, 4), 16), [3] * 8).double()
    counts = torch.tensor([6, 1, 0, 6, 20, 1, 6, 2])
    tasks = torch.arange(8).repeat_interleave(counts)[torch.randperm(42)]
    x = torch.randn(42, 1, 4, 4, dtype=torch.double)
    slow = by_task(net.trunk(x), tasks, lambda z, k: net.heads[k](z))
    fast = net(x, tasks)
    assert "_Linears" in str(fast.grad_fn)
    torch.testing.assert_close(fast, slow, rtol=1e-12, atol=1e-12)
    weight = torch.randn_like(slow)
    parameters = [p for n, p in net.named_parameters() if not n.startswith("heads.2.")]
    wanted = torch.autograd.grad((slow * weight).sum(), parameters)
    found = torch.autograd.grad((fast * weight).sum(), parameters)
    for a, b in zip(wanted, found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    assert torch.equal(net(x, tasks.to(torch.uint8)), fast)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(fast.sum(), parameters, create_graph=True)


def test_heads_of_one_width_give_autocasts_numbers_too() -> None:
    net, x = MultiHead(MLP((1, 4, 4), 16), [3] * 8), torch.randn(42, 1, 4, 4)
    tasks = torch.arange(42) % 8
    with torch.autocast("cpu", dtype=torch.bfloat16):  # the trunk's precision is not the heads'
        assert net(x, tasks).dtype == torch.bfloat16


def test_heads_without_a_bias_are_not_taken_for_plain_ones() -> None:
    net = MultiHead(MLP((1, 2, 2), 4), [2, 2])
    assert net.alike
    net.heads[1] = torch.nn.Linear(4, 2, bias=False)
    assert not net.alike
    x, tasks = torch.randn(3, 1, 2, 2), torch.tensor([0, 1, 1])
    torch.testing.assert_close(net(x, tasks)[1:], net(x[1:], 1))


def test_only_heads_without_a_mode_are_passed_over_when_it_is_set() -> None:
    net = MultiHead(MLP((1, 2, 2), 4), [2, 2])
    net.norm = torch.nn.Dropout()
    net.eval()
    assert not any(m.training for m in (net, *net.trunk.modules(), net.norm))
    net.train()
    assert all(m.training for m in net.modules())
    net.heads[1] = torch.nn.Sequential(torch.nn.Dropout(), net.heads[1])
    net.eval()
    assert not any(m.training for m in net.modules())


def test_by_task_with_one_task_calls_once() -> None:
    calls = []
    by_task(torch.ones(3, 1), torch.tensor([2, 2, 2]), lambda x, k: calls.append(k) or x)
    assert calls == [2]


# ---- random draws ----


def test_draws_depend_on_the_seed_and_the_name_alone() -> None:
    one = torch.rand(3, generator=generator(1, "valid", 0))
    torch.rand(7)
    assert torch.equal(one, torch.rand(3, generator=generator(1, "valid", 0)))
    others = {derive(1, "valid", 1), derive(2, "valid", 0), derive(1, "batches", 0), derive(1)}
    assert derive(1, "valid", 0) not in others
    assert len(others) == 4
    assert derive(0, "init") == 1519069808562059438


def test_seed_everything_covers_torch_numpy_and_python() -> None:
    import random

    import numpy as np

    def draws() -> tuple[float, float, float]:
        return torch.rand(1).item(), float(np.random.rand()), random.random()

    seed_everything(3, "task", 1)
    one = draws()
    seed_everything(3, "task", 2)
    two = draws()
    seed_everything(3, "task", 1)
    assert draws() == one
    assert all(a != b for a, b in zip(one, two, strict=True))
