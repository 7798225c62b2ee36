"""SI: the path integral and the penalty against a few lines of their own."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from avalanche.models import MTSimpleMLP
from avalanche.training.plugins import SynapticIntelligencePlugin
from avalanche.training.supervised import Naive
from test_stock_avalanche import TASKS, benchmark
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD

from clbench.loader import TensorLoader
from clbench.memory import of_model
from clbench.methods.si import SI, SIPlugin
from clbench.seeding import generator
from clbench.stream import Stream


def by_hand(
    strategy: Any, tasks: int, epochs: int, c: float, xi: float, lr: float
) -> tuple[list[Tensor], list[Tensor]]:
    """Weights and Omega after some tasks, with no plugin: the loss written out with its penalty."""
    params = list(strategy.model.parameters())
    omegas = [torch.zeros_like(p) for p in params]
    anchors = [p.detach().clone() for p in params]
    for k in range(tasks):
        path = [torch.zeros_like(p) for p in params]
        shuffle = generator(strategy.stream.seed, "batches", k)
        loader = TensorLoader([strategy.stream.tasks[k].train], 16, shuffle)
        for _ in range(epochs):
            for x, y, t in loader:
                loss = F.cross_entropy(strategy.model(x, t), y)
                plain = torch.autograd.grad(loss, params, allow_unused=True, retain_graph=True)
                terms = zip(omegas, params, anchors, strict=True)
                total = loss + c * sum((o * (p - a).square()).sum() for o, p, a in terms)
                full = torch.autograd.grad(total, params)
                with torch.no_grad():
                    for p, g, step, w in zip(params, plain, full, path, strict=True):
                        p -= lr * step
                        if g is not None:
                            w += lr * g * step  # - g * (-lr * step)
        for i, p in enumerate(params):
            change = p.detach() - anchors[i]
            omegas[i] = (omegas[i] + path[i] / (change.square() + xi)).clamp(min=0)
            anchors[i] = p.detach().clone()
    return [p.detach() for p in params], omegas


def test_weights_and_importances_are_those_of_the_formula(
    make_stream: Callable[..., Stream],
) -> None:
    c, xi, lr = 5.0, 1e-2, 0.05
    made: Any = []
    for _ in range(2):
        torch.manual_seed(0)
        made.append(SI(strength=c, damping=xi).build(make_stream(epochs=1, lr=lr)))
    strategy, other = made
    for k in range(3):
        strategy.learn(k)
    weights, omegas = by_hand(other, 3, 1, c, xi, lr)
    plugin = strategy.plugins[1]
    named = list(strategy.model.named_parameters())
    for (name, p), weight, omega in zip(named, weights, omegas, strict=True):
        torch.testing.assert_close(p.detach(), weight, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(plugin.weight[name], omega, rtol=1e-3, atol=1e-5)
        assert torch.equal(plugin.centre[name], p)
        assert bool((omega >= 0).all())
    assert sum(float(o.sum()) for o in omegas) > 0


def test_each_head_is_important_to_its_own_task_alone(make_stream: Callable[..., Stream]) -> None:
    torch.manual_seed(0)
    strategy: Any = SI().build(make_stream(epochs=2))
    plugin = strategy.plugins[1]
    seen: list[list[bool]] = []
    for k in range(3):
        strategy.learn(k)
        seen.append([bool(plugin.weight[f"heads.{j}.weight"].any()) for j in range(3)])
    assert seen == [[j <= k for j in range(3)] for k in range(3)]


def test_the_path_ends_at_the_epoch_whose_weights_are_put_back(
    make_stream: Callable[..., Stream],
) -> None:
    """A first epoch that is the best, then a ruinous second one."""

    def learn(epochs: int, spoil: bool) -> dict[str, Tensor]:
        torch.manual_seed(0)
        strategy: Any = SI().build(make_stream(epochs=epochs))
        validate = strategy.validate

        def worse() -> tuple[float, float]:
            accuracy, loss = validate()
            return accuracy, loss + 100 * len(strategy.schedule.curve)

        if spoil:
            strategy.validate = worse
        strategy.learn(0)
        importance: dict[str, Tensor] = strategy.plugins[1].weight
        return importance

    one, three = learn(1, False), learn(3, True)
    for name in one:
        assert torch.equal(one[name], three[name])


def test_its_memory_is_two_numbers_a_parameter_at_every_task(
    make_stream: Callable[..., Stream],
) -> None:
    strategy: Any = SI().build(make_stream(epochs=1))
    for k in range(3):
        strategy.learn(k)
        assert strategy.memory().auxiliary == 2 * of_model(strategy.model)


def test_a_strong_penalty_keeps_what_mattered(make_stream: Callable[..., Stream]) -> None:
    def moved(strength: float) -> float:
        torch.manual_seed(0)
        strategy: Any = SI(strength=strength).build(make_stream(epochs=3, lr=0.02))
        strategy.learn(0)
        plugin = strategy.plugins[1]
        weight, anchor = dict(plugin.weight), dict(plugin.centre)
        strategy.learn(1)
        with torch.no_grad():
            named = strategy.model.named_parameters()
            return sum(float((weight[n] * (p - anchor[n]).square()).sum()) for n, p in named)

    assert moved(100.0) < 0.9 * moved(0.0)


def train(plugin: Any) -> Any:
    torch.manual_seed(0)
    model = MTSimpleMLP(input_size=16, hidden_size=32)
    model.classifier.masking = False  # Avalanche 0.6's masking fails on its own classes timeline
    strategy = Naive(
        model=model,
        optimizer=SGD(model.parameters(), lr=0.05),
        criterion=nn.CrossEntropyLoss(),
        train_mb_size=10,
        train_epochs=3,
        plugins=[plugin],
        evaluator=None,
    )
    made = benchmark()
    for experience in made.train_stream:
        strategy.train(experience)
    for task, experience in enumerate(made.test_stream):
        x = torch.stack([experience.dataset[i][0] for i in range(30)])
        right = model.eval()(x, task).argmax(1) == torch.arange(30) % 2
        assert right.float().mean() > 0.8
    return model


@pytest.mark.filterwarnings("ignore:No loggers specified")
def test_the_plugin_works_in_stock_naive() -> None:
    """There heads are added as tasks come."""
    plugin = SIPlugin(strength=1.0)
    model = train(plugin)
    assert plugin.weight.keys() == {name for name, _ in model.named_parameters()}
    for task in range(TASKS):
        head = f"classifier.classifiers.{task}.classifier.weight"
        assert float(plugin.weight[head].sum()) > 0


@pytest.mark.filterwarnings("ignore:No loggers specified", "ignore:__array_wrap__")
def test_avalanches_own_finds_nothing_important_on_a_cpu() -> None:
    """Why it is not used. If this fails, Avalanche may have mended it."""
    plugin = SynapticIntelligencePlugin(si_lambda=1.0)
    train(plugin)
    assert not any(bool(importance.data.any()) for importance in plugin.ewc_data[1].values())
