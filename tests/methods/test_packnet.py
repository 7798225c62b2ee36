"""PackNet: who owns which weight, and that owned weights stay."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from clbench.memory import of_model
from clbench.methods.packnet import PackNet
from clbench.stream import Stream


def learned(stream: Stream, tasks: int, **params: Any) -> Any:
    torch.manual_seed(0)
    strategy: Any = PackNet(**params).build(stream)
    for k in range(tasks):
        strategy.learn(k)
    return strategy


def owned(strategy: Any, task: int) -> list[int]:
    return [int((layer.task_index == task).sum()) for layer in strategy.model.packed]


def test_tasks_get_equal_shares(make_stream: Callable[..., Stream]) -> None:
    strategy = learned(make_stream(epochs=1), 3)
    sizes = [layer.wrappee.weight.numel() for layer in strategy.model.packed]
    assert sizes == [36 * 256, 256 * 256]
    for task in range(3):
        for count, size in zip(owned(strategy, task), sizes, strict=True):
            assert abs(count - size / 3) <= 1
    assert strategy.diagnostics()["used_capacity"] == [100.0, 100.0]
    assert strategy.memory().architecture == of_model(strategy.model) + sum(sizes)


def test_a_given_share_is_of_what_is_free(make_stream: Callable[..., Stream]) -> None:
    strategy = learned(make_stream(epochs=1), 2, keep=0.25)
    assert owned(strategy, 0) == [36 * 256 // 4, 256 * 256 // 4]
    assert owned(strategy, 1) == [36 * 256 * 3 // 16, 256 * 256 * 3 // 16]
    assert strategy.diagnostics()["used_capacity"] == [43.75, 43.75]


def test_a_task_keeps_its_largest_weights_and_the_rest_start_from_zero(
    make_stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    strategy: Any = PackNet(keep=0.25).build(make_stream(epochs=1))
    layers = strategy.model.packed
    before: list[torch.Tensor] = []
    prune = strategy._prune

    def look(keep: float) -> None:
        before[:] = [layer.wrappee.weight.detach().abs().clone() for layer in layers]
        prune(keep)

    monkeypatch.setattr(strategy, "_prune", look)
    strategy.learn(0)
    for layer, size in zip(layers, before, strict=True):
        mine = layer.task_index == 0
        assert float(size[mine].min()) >= float(size[~mine].max())
        assert not layer.wrappee.weight[~mine].any()


def test_owned_weights_and_biases_never_move_again(make_stream: Callable[..., Stream]) -> None:
    strategy = learned(make_stream(epochs=2, momentum=0.9), 1)
    layers = strategy.model.packed
    kept = [(layer.task_index == 0).clone() for layer in layers]
    weights = [layer.wrappee.weight.detach().clone() for layer in layers]
    biases = [layer.wrappee.bias.detach().clone() for layer in layers]
    assert any(bool(bias.any()) for bias in biases)
    strategy.learn(1)
    strategy.learn(2)
    for layer, mine, weight, bias in zip(layers, kept, weights, biases, strict=True):
        assert torch.equal(layer.wrappee.weight[mine], weight[mine])
        assert torch.equal(layer.wrappee.bias, bias)
        assert not torch.equal(layer.wrappee.weight[~mine], weight[~mine])


def test_a_task_is_tested_with_weights_of_tasks_up_to_its_own(
    make_stream: Callable[..., Stream],
) -> None:
    strategy = learned(make_stream(epochs=1), 3)
    model, x = strategy.model.eval(), strategy.stream.tasks[1].test.inputs()
    with torch.no_grad():
        said = model(x, 1)
        z = x.flatten(1)
        for layer in model.packed:
            weight = layer.wrappee.weight * (layer.task_index <= 1)
            z = (z @ weight.T + layer.wrappee.bias).relu()
        torch.testing.assert_close(said, model.heads[1](z))


def test_the_curve_counts_both_phases(make_stream: Callable[..., Stream]) -> None:
    strategy: Any = PackNet(retrain=1).build(make_stream(epochs=2))
    assert [epoch["epoch"] for epoch in strategy.learn(0)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"weight_decay": 0.1}, "weight_decay=0.1"), ({"tasks": 255}, "at most 254 tasks")],
)
def test_what_it_cannot_learn_is_refused(
    make_stream: Callable[..., Stream], changes: dict[str, Any], words: str
) -> None:
    assert words in PackNet().refusal(make_stream(**changes))
