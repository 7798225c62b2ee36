"""A-GEM: the projection, the memory, and any number of tasks."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clbench.methods.agem import AGEM, AGEMPlugin, project, squared_length
from clbench.networks import MLP, MultiHead
from clbench.stream import Stream


def parameters(*gradients: list[float] | None) -> list[Tensor]:
    made: list[Tensor] = []
    for g in gradients:
        p = nn.Parameter(torch.zeros(2))
        p.grad = None if g is None else torch.tensor(g)
        made.append(p)
    return made


def test_an_opposed_gradient_becomes_orthogonal() -> None:
    params = parameters([1.0, 0.0])
    project(params, [torch.tensor([-1.0, 1.0])])
    assert params[0].grad is not None
    assert params[0].grad.tolist() == [0.5, 0.5]  # g - (g.r / r.r) r = (1, 0) + 1/2 (-1, 1)


def test_an_agreeing_or_orthogonal_gradient_is_left_alone() -> None:
    for reference in ([1.0, 5.0], [0.0, 3.0]):
        params = parameters([1.0, 0.0])
        project(params, [torch.tensor(reference)])
        assert params[0].grad is not None
        assert params[0].grad.tolist() == [1.0, 0.0]


def test_the_products_run_over_all_parameters_together() -> None:
    """The second layer alone opposes; taken together they agree, so nothing changes."""
    params = parameters([3.0, 0.0], [0.0, 1.0])
    project(params, [torch.tensor([1.0, 0.0]), torch.tensor([0.0, -1.0])])
    assert [p.grad.tolist() for p in params if p.grad is not None] == [[3.0, 0.0], [0.0, 1.0]]
    params = parameters([1.0, 0.0], [0.0, 3.0])  # g.r = 1 - 3 = -2, r.r = 2: g + r
    project(params, [torch.tensor([1.0, 0.0]), torch.tensor([0.0, -1.0])])
    assert [p.grad.tolist() for p in params if p.grad is not None] == [[2.0, 0.0], [0.0, 2.0]]


def test_a_missing_gradient_is_zero_and_gets_its_part() -> None:
    """A head that the batch did not use has a reference; one without reference is untouched."""
    params = parameters([-2.0, 0.0], None, [5.0, 5.0], None)
    project(params, [torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0]), None, None])
    # g.r = -2, r.r = 3
    assert params[0].grad is not None
    assert params[1].grad is not None
    torch.testing.assert_close(params[0].grad, torch.tensor([-2 + 2 / 3, 0.0]))
    torch.testing.assert_close(params[1].grad, torch.tensor([2 / 3, 2 / 3]))
    assert params[2].grad is not None
    assert params[2].grad.tolist() == [5.0, 5.0]
    assert params[3].grad is None


def one_by_one(parts: list[Tensor]) -> float:
    return float(sum((part * part).sum() for part in parts))


def test_the_squared_length_is_added_up_as_if_one_by_one() -> None:
    """To the bit, though heads of one shape are summed together."""
    torch.manual_seed(0)
    heads = [part for _ in range(30) for part in (torch.randn(10, 256), torch.randn(10))]
    parts = [torch.randn(300, 200), torch.randn(64), torch.tensor(1.5), torch.empty(0), *heads]
    assert squared_length(parts) == one_by_one(parts)
    double = [part.double() for part in parts]
    assert squared_length(double) == one_by_one(double)
    short = [part.bfloat16() for part in parts]
    assert squared_length(short) == pytest.approx(one_by_one(parts), rel=0.01)
    assert squared_length([torch.tensor([0.0, 2.0]).to_sparse()]) == 4


def test_the_squared_length_is_the_same_with_threads_that_divide_long_sums() -> None:
    torch.manual_seed(0)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for _ in range(20):
            layers = list(torch.randn(2, 160, 1440))
            assert squared_length(layers) == one_by_one(layers)
    finally:
        torch.set_num_threads(before)


def test_the_squared_length_keeps_the_order_of_parts() -> None:
    """A one is lost beside 2^24 in single precision, and three are not."""
    large, ones = torch.full((1, 1), 2.0**12), [torch.ones(1)] * 3
    assert squared_length([large, *ones]) == 2**24
    assert squared_length([*ones, large]) == 2**24 + 4


def test_no_reference_at_all_changes_nothing() -> None:
    params = parameters([1.0, 1.0])
    project(params, [None])
    assert params[0].grad is not None
    assert params[0].grad.tolist() == [1.0, 1.0]


def test_a_reference_too_small_to_be_squared_changes_nothing() -> None:
    params = parameters([1.0, 1.0])
    project(params, [torch.tensor([-1e-30, 0.0])])
    assert params[0].grad is not None
    assert params[0].grad.tolist() == [1.0, 1.0]
    project(params, [torch.tensor([-torch.inf, 0.0])])
    assert params[0].grad.isnan().any()  # what has gone wrong stays to be seen


def test_the_parameters_of_all_groups_are_projected() -> None:
    """A gradient that is the opposite of the memory's has nothing left."""
    torch.manual_seed(0)
    net = MultiHead(MLP((4,), width=8), [2, 2])
    plugin = AGEMPlugin(per_class=3, reference_batch=6)
    y = torch.arange(6) % 2
    plugin.buffer.keep(torch.randn(6, 4), y, torch.zeros_like(y))
    trunk, head = list(net.trunk.parameters()), list(net.heads[0].parameters())
    groups = [{"params": trunk}, {"params": [*head, *net.heads[1].parameters()]}]
    strategy: Any = SimpleNamespace(
        model=net, device="cpu", _criterion=nn.CrossEntropyLoss(),
        optimizer=torch.optim.SGD(groups, lr=0.1),
    )  # fmt: skip
    for p, r in zip([*trunk, *head], plugin._reference(strategy, [*trunk, *head]), strict=True):
        assert r is not None
        assert r.abs().max() > 1e-3
        p.grad = -r
    plugin.after_backward(strategy)
    for p in (*trunk, *head):
        assert p.grad is not None
        torch.testing.assert_close(p.grad, torch.zeros_like(p))


def test_the_step_does_not_raise_the_loss_on_the_memory(make_stream: Callable[..., Stream]) -> None:
    """After the projection, g.r >= 0 for the whole memory as the reference batch."""
    torch.manual_seed(0)
    strategy: Any = AGEM(per_class=4).build(make_stream(epochs=2))
    strategy.learn(0)
    plugin = strategy.plugins[1]
    products = []

    def after(strategy: Any, inner: Any = plugin.after_backward, **kwargs: Any) -> None:
        inner(strategy)
        trainable = list(strategy.model.parameters())
        reference = plugin._reference(strategy, trainable)
        products.append(
            sum(
                float((p.grad * r).sum())
                for p, r in zip(trainable, reference, strict=True)
                if p.grad is not None and r is not None
            )
        )

    plugin.after_backward = after
    strategy.learn(1)
    assert len(products) > 5
    assert min(products) > -1e-5
    assert any(abs(product) < 1e-5 for product in products)  # some were projected


def test_the_memory_holds_so_many_of_each_class_for_any_number_of_tasks(
    make_stream: Callable[..., Stream],
) -> None:
    """More tasks than samples in a reference batch, where Avalanche's own fails."""
    torch.manual_seed(0)
    strategy: Any = AGEM(per_class=2, reference_batch=3).build(make_stream(tasks=6, epochs=1))
    for k in range(6):
        strategy.learn(k)
        buffer = strategy.plugins[1].buffer
        pairs = list(zip(buffer.columns["t"].tolist(), buffer.columns["y"].tolist(), strict=True))
        assert sorted(pairs) == sorted(2 * [(t, y) for t in range(k + 1) for y in range(2)])
    for x, y, t in zip(buffer.columns["x"], buffer.columns["y"], buffer.columns["t"], strict=True):
        split = strategy.stream.tasks[int(t)].train
        same = (split.inputs() == x).flatten(1).all(1)
        assert split.labels[same].tolist() == [int(y)]
    assert strategy.memory().replay == 24 * 36 * 4
