"""GEM: the dual program against its conditions, A-GEM's formula and an independent solver."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from avalanche.models import MTSimpleMLP
from avalanche.training.supervised import Naive
from scipy.optimize import nnls
from test_stock_avalanche import TASKS, benchmark
from torch import Tensor, nn
from torch.optim import SGD

from clbench.methods import agem
from clbench.methods.gem import GEM, GEMPlugin, dual, project
from clbench.stream import Stream


def parameters(*gradients: list[float] | None) -> list[Tensor]:
    made: list[Tensor] = []
    for g in gradients:
        p = nn.Parameter(torch.zeros(2))
        p.grad = None if g is None else torch.tensor(g)
        made.append(p)
    return made


def projected(g: Tensor, references: Tensor, margin: float = 0.0) -> Tensor:
    p = nn.Parameter(torch.zeros_like(g))
    p.grad = g.clone()
    project([p], references, margin)
    assert p.grad is not None
    return p.grad


def test_a_gradient_that_opposes_no_task_is_left_alone() -> None:
    g = torch.tensor([1.0, 0.0, 0.0])
    references = torch.tensor([[1.0, 5.0, 0.0], [0.0, -3.0, 1.0]])
    assert torch.equal(projected(g, references), g)
    assert torch.equal(projected(g, references, margin=0.5), g)
    assert torch.equal(projected(g, torch.zeros(2, 3)), g)


@pytest.mark.parametrize("margin", [0.0, 0.5])
@pytest.mark.parametrize("tasks", [1, 2, 5, 19])
def test_the_projected_gradient_opposes_no_task(tasks: int, margin: float) -> None:
    generator = torch.Generator().manual_seed(tasks)
    for _ in range(20):
        g = torch.randn(30, generator=generator)
        references = torch.randn(tasks, 30, generator=generator)
        # some memories are remembered so well that their gradients are tiny
        references *= 10.0 ** torch.randint(-6, 2, (tasks, 1), generator=generator)
        new = projected(g, references, margin)
        products = references.double() @ new.double()
        assert bool((products >= -1e-5 * references.norm(dim=1) * new.norm()).all())


def test_it_is_the_nearest_such_gradient() -> None:
    """Among all g + G^T v with v >= 0: the least squares solution with v >= 0, by scipy."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        g, references = (torch.randn(*s, generator=generator) for s in ((30,), (6, 30)))
        v, _ = nnls(references.double().T.numpy(), -g.double().numpy())
        torch.testing.assert_close(
            dual(references, g, 0.0).double(), torch.from_numpy(v), rtol=1e-4, atol=1e-5
        )


def test_with_a_margin_no_memory_weighs_less() -> None:
    generator = torch.Generator().manual_seed(0)
    g, references = (torch.randn(*s, generator=generator) for s in ((30,), (6, 30)))
    v = dual(references, g, 0.5)
    assert float(v.min()) >= 0.5 - 1e-6
    gram, products = (references @ references.T).double().numpy(), (references @ g).double().numpy()
    slack = gram @ v.double().numpy() + products  # what the conditions of Karush, Kuhn, Tucker say
    assert slack.min() > -1e-4
    assert np.abs(slack * (v.double().numpy() - 0.5)).max() < 1e-4


def test_for_one_task_it_is_the_projection_of_agem() -> None:
    generator = torch.Generator().manual_seed(1)
    for _ in range(20):
        g, r = torch.randn(2, 10, generator=generator)
        p = nn.Parameter(torch.zeros(10))
        p.grad = g.clone()
        agem.project([p], [r])
        torch.testing.assert_close(projected(g, r[None]), p.grad, rtol=1e-5, atol=1e-6)


def test_two_equal_tasks_and_a_task_without_gradient_are_no_obstacle() -> None:
    r = torch.tensor([-1.0, 1.0])
    references = torch.stack([r, r, torch.zeros(2)])
    new = projected(torch.tensor([1.0, 0.0]), references)
    torch.testing.assert_close(new, torch.tensor([0.5, 0.5]), rtol=1e-5, atol=1e-5)


def test_a_missing_gradient_is_zero_and_gets_its_part() -> None:
    params = parameters([-2.0, 0.0], None, [5.0, 5.0], None)
    project(params, torch.tensor([[1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]]))
    # g.r = -2, r.r = 3
    assert params[0].grad is not None
    assert params[1].grad is not None
    torch.testing.assert_close(params[0].grad, torch.tensor([-2 + 2 / 3, 0.0]))
    torch.testing.assert_close(params[1].grad, torch.tensor([2 / 3, 2 / 3]))
    assert params[2].grad is not None
    assert params[2].grad.tolist() == [5.0, 5.0]
    assert params[3].grad is None


def test_a_gradient_that_is_not_finite_is_said_to_be() -> None:
    with pytest.raises(FloatingPointError, match="--lr"):
        projected(torch.tensor([float("nan"), 0.0]), torch.ones(1, 2))


def test_no_step_raises_the_loss_on_any_memory(make_stream: Callable[..., Stream]) -> None:
    torch.manual_seed(0)
    strategy: Any = GEM(per_class=4, margin=0.0).build(make_stream(epochs=2))
    plugin = strategy.plugins[1]
    products: list[Tensor] = []

    def after(strategy: Any, inner: Any = plugin.after_backward, **kwargs: Any) -> None:
        inner(strategy)
        if len(plugin.buffer):
            trainable = list(strategy.model.parameters())
            g = torch.cat(
                [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in trainable]
            )
            references = plugin._references(strategy, trainable)
            products.append(references @ g / (references.norm(dim=1) * g.norm()))

    plugin.after_backward = after
    for k in range(3):
        strategy.learn(k)
    assert {len(p) for p in products} == {1, 2}  # one constraint per past task
    assert min(float(p.min()) for p in products) > -1e-5
    assert any(float(p.abs().min()) < 1e-5 for p in products)  # some were projected
    assert strategy.memory().replay == 3 * 2 * 4 * 36 * 4


@pytest.mark.filterwarnings("ignore:No loggers specified")
def test_the_plugin_works_in_stock_naive() -> None:
    torch.manual_seed(0)
    made, plugin = benchmark(), GEMPlugin(per_class=4, margin=0.5)
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
    for experience in made.train_stream:
        strategy.train(experience)
    pairs = list(
        zip(plugin.buffer.columns["t"].tolist(), plugin.buffer.columns["y"].tolist(), strict=True)
    )
    assert sorted(pairs) == sorted(4 * [(t, y) for t in range(TASKS) for y in range(2)])
    for task, experience in enumerate(made.test_stream):
        x = torch.stack([experience.dataset[i][0] for i in range(30)])
        right = model.eval()(x, task).argmax(1) == torch.arange(30) % 2
        assert right.float().mean() > 0.8
