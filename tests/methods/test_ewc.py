"""EWC: the accumulated quadratic is the explicit sum over past tasks."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from clbench.memory import of_model
from clbench.methods.ewc import EWC, EWCPlugin
from clbench.stream import Stream
from clbench.training import Strategy
from clbench.training.importance import empirical_fisher


def test_the_penalty_is_that_of_all_past_tasks_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    plugin = EWCPlugin(strength=7.0)
    past: list[tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]] = []
    strategy = SimpleNamespace(model=model, experience=SimpleNamespace(dataset=None))
    monkeypatch.setattr("clbench.methods.ewc.batches", lambda *args: None)
    for _ in range(4):
        with torch.no_grad():
            for p in model.parameters():
                p.normal_()
        importance = {n: torch.rand_like(p) for n, p in model.named_parameters()}
        importance["weight"][0, 0] = 0.0  # never important: no penalty, whatever the centre
        theta = {n: p.detach().clone() for n, p in model.named_parameters()}
        past.append((importance, theta))
        monkeypatch.setattr("clbench.methods.ewc.empirical_fisher", lambda *args, f=importance: f)
        plugin.after_training_exp(strategy)
    with torch.no_grad():
        for p in model.parameters():
            p.normal_()

    penalty = sum(
        (f[n] * (p - theta[n]) ** 2).sum() for f, theta in past for n, p in model.named_parameters()
    )
    explicit = torch.autograd.grad(7.0 / 2 * penalty, list(model.parameters()))

    model.zero_grad()
    strategy.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    plugin.before_training_epoch(strategy)
    plugin.after_backward(strategy)
    assert model.bias.grad is None  # as of a past task's head, which a step does not move
    for p in model.parameters():
        p.grad = torch.ones_like(p)  # that of the loss
    plugin.after_backward(strategy)
    for p, gradient in zip(model.parameters(), explicit, strict=True):
        torch.testing.assert_close(p.grad, gradient + 1)
    assert model.weight.grad[0, 0] == 1.0
    assert {n: v.shape for n, v in plugin.weight.items()} == {
        n: p.shape for n, p in model.named_parameters()
    }


@pytest.fixture
def strategy(make_stream: Callable[..., Stream]) -> Strategy:
    torch.manual_seed(0)
    return EWC(strength=100.0).build(make_stream(epochs=2))


def test_after_a_task_the_fisher_of_its_training_data_is_kept(strategy: Strategy) -> None:
    strategy.learn(0)
    plugin: Any = strategy.plugins[1]
    split = strategy.stream.tasks[0].train
    batch = [split.inputs(), split.labels, torch.zeros(len(split)).long()]
    expected = empirical_fisher(strategy.model, [batch])
    for name, parameter in strategy.model.named_parameters():
        torch.testing.assert_close(plugin.weight[name], expected[name], rtol=1e-4, atol=1e-9)
        used = plugin.weight[name] > 1e-20
        torch.testing.assert_close(plugin.centre[name][used], parameter.detach()[used])


def test_its_memory_is_two_numbers_a_parameter_at_every_task(strategy: Strategy) -> None:
    sizes = []
    for k in range(2):
        strategy.learn(k)
        sizes.append(strategy.memory())
    assert sizes[0] == sizes[1]
    assert sizes[0].auxiliary == 2 * of_model(strategy.model)
    assert sizes[0].replay == 0


def test_a_strong_penalty_keeps_what_mattered(
    make_stream: Callable[..., Stream],
) -> None:
    def moved(strength: float) -> float:
        torch.manual_seed(0)
        made = EWC(strength=strength).build(make_stream(epochs=10, lr=0.1))
        made.learn(0)
        plugin: Any = made.plugins[1]
        weight, centre = dict(plugin.weight), dict(plugin.centre)
        made.learn(1)
        with torch.no_grad():
            parameters = made.model.named_parameters()
            return sum(float((weight[n] * (p - centre[n]) ** 2).sum()) for n, p in parameters)

    assert moved(1000.0) < 0.5 * moved(0.0)
