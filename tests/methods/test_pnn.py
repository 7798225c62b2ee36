"""PNN: columns, laterals, sizes, and that old columns cannot change."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from avalanche.training.supervised import Naive
from test_stock_avalanche import TASKS, benchmark
from torch import nn
from torch.optim import SGD

from clbench.memory import of_model
from clbench.methods.pnn import PNN
from clbench.networks import MLP, AlexNet
from clbench.networks.pnn import PNNNet
from clbench.protocol import Protocol
from clbench.seeding import seed_everything
from clbench.stream import Stream


def test_a_forward_pass_is_the_formula() -> None:
    """Three columns of an MLP, written out."""
    torch.manual_seed(0)
    net = PNNNet(MLP((6,), width=8), [2, 3, 4], width=0.5)
    x = torch.randn(5, 6)

    def lateral(of: Any, before: list[torch.Tensor]) -> torch.Tensor:
        joined = torch.cat([a * h for a, h in zip(of.alpha, before, strict=True)], 1)
        return torch.relu(joined @ of.v.weight.T + of.v.bias) @ of.u.weight.T

    first, second = [], []
    for k, column in enumerate(net.columns):
        one, two = column.layers
        h1 = torch.relu(one(x))
        z2 = two(h1) + (lateral(column.laterals[0], first) if k else 0)
        h2 = torch.relu(z2)
        out = column.head(h2) + (lateral(column.laterals[1], second) if k else 0)
        torch.testing.assert_close(net(x, k), out)
        first.append(h1)
        second.append(h2)
        assert h1.shape == h2.shape == (5, 4)
    mixed = net(x, torch.tensor([2, 0, 1, 1, 2]))
    assert mixed.shape == (5, 4)
    torch.testing.assert_close(mixed[1, :2], net(x, 0)[1])
    torch.testing.assert_close(mixed[3, :3], net(x, 1)[3])


def test_the_head_of_the_current_task_has_its_lateral_too() -> None:
    net = PNNNet(MLP((6,), width=8), [2, 2], width=1.0)
    net(torch.randn(3, 6), 1).sum().backward()
    assert all(p.grad is not None for p in net.columns[1].parameters())
    assert all(p.grad is None for p in net.columns[0].parameters())


def widths(column: Any) -> list[int]:
    return [layer.weight.shape[0] for layer in column.layers]


@pytest.mark.parametrize(("tasks", "count"), [(5, 7_159_000), (20, 5_801_207)])
def test_columns_of_the_alexnet_are_as_wide_as_in_hats_comparison(tasks: int, count: int) -> None:
    """An ordinary AlexNet with 20 heads of 5 has 6,708,772 parameters."""
    n = [int(1.117 * w / tasks) for w in (64, 128, 256, 2048, 2048)]
    with torch.device("meta"):
        net = PNNNet(AlexNet((3, 32, 32)), [5] * tasks, 1.117 / tasks)
    assert all(widths(column) == n for column in net.columns)
    last = net.columns[-1].laterals[2]  # from the last images to the first full layer
    assert last.v.weight.shape == (n[2], (tasks - 1) * n[2], 1, 1)
    assert last.u.weight.shape == (n[3], 4 * n[2])
    total = sum(p.numel() for p in net.parameters())
    assert total == expected(n, tasks) == count


def test_its_size_differs_from_hats_comparison_by_two_choices() -> None:
    """There U has a bias too, and V takes flattened channels to as many, 4 a channel."""
    n, earlier = [3, 7, 14, 114, 114], range(1, 20)
    biases = 19 * (sum(n[1:]) + 5)
    flattened = sum(k * (56 * 56 - 14 * 14) + (56 - 14) for k in earlier)
    assert expected(n, 20) + biases + flattened == 6_365_431


def expected(n: list[int], tasks: int) -> int:
    """The count from the formula: W with bias; alpha, V with bias and U for each lateral."""
    kernels = [4 * 4, 3 * 3, 2 * 2, 4, 1]  # the 4 of the first full layer: 2 x 2 positions
    below = [3, *n[:-1]]
    own = sum(i * k * o + o for i, k, o in zip(below, kernels, n, strict=True)) + n[-1] * 5 + 5
    total = 0
    for earlier in range(tasks):
        total += own
        if earlier:
            ups = [*zip(n[:-1], kernels[1:], n[1:], strict=True), (n[-1], 1, 5)]
            total += sum(earlier + earlier * i * i + i + i * k * o for i, k, o in ups)
    return total


def test_the_width_of_a_column_is_a_parameter(make_stream: Callable[..., Stream]) -> None:
    stream = make_stream()
    for width, units in ((None, 64), (0.5, 128), (0.001, 1)):
        strategy: Any = PNN(width=width).build(stream)
        assert all(widths(column) == [units, units] for column in strategy.model.columns)
        assert strategy.memory().architecture == of_model(strategy.model)


def test_old_columns_stay_bit_identical_and_out_of_the_optimizer(
    make_stream: Callable[..., Stream],
) -> None:
    """With momentum and weight decay, which move whatever has a gradient of zero."""
    seed_everything(0, "init")
    strategy: Any = PNN().build(make_stream(epochs=2, momentum=0.9, weight_decay=0.1))
    tests = [task.test for task in strategy.stream.tasks]
    kept: list[tuple[list[torch.Tensor], torch.Tensor]] = []
    for k in range(3):
        fresh = [p.detach().clone() for p in strategy.model.columns[k].parameters()]
        strategy.learn(k)
        optimized = {id(p) for group in strategy.optimizer.param_groups for p in group["params"]}
        columns: Any = strategy.model.columns
        for j, column in enumerate(columns):
            assert all((id(p) in optimized) == (j >= k) for p in column.parameters())
        now = [p.detach().clone() for p in columns[k].parameters()]
        assert all(not torch.equal(a, b) for a, b in zip(now, fresh, strict=True))
        kept.append((now, strategy.model.eval()(tests[k].inputs(), k).detach()))
        for j, (column, output) in enumerate(kept):
            strategy.accuracy(j)
            for a, b in zip(columns[j].parameters(), column, strict=True):
                assert torch.equal(a, b)
            assert torch.equal(strategy.model.eval()(tests[j].inputs(), j), output)


def test_earlier_columns_have_no_dropout() -> None:
    torch.manual_seed(0)
    net = PNNNet(AlexNet((3, 32, 32)), [2, 2], width=0.05).train()
    x = torch.randn(4, 3, 32, 32)
    for module in net.columns[1].modules():
        if isinstance(module, nn.Module) and hasattr(module, "p"):
            module.p = 0.0
    assert torch.equal(net(x, 1), net(x, 1))
    assert not torch.equal(net(x, 0), net(x, 0))


def test_it_refuses_a_residual_network() -> None:
    stream: Any = SimpleNamespace(backbone="resnet18", protocol=Protocol(), scenario="task")
    assert "resnet18" in PNN().refusal(stream)
    stream.backbone = "alexnet"
    assert PNN().refusal(stream) == ""


@pytest.mark.filterwarnings("ignore:No loggers specified")
def test_the_network_works_in_stock_naive() -> None:
    """Without any plugin, with evaluations of other tasks in between."""
    torch.manual_seed(0)
    model, made = PNNNet(MLP((16,), width=32), [2] * TASKS, width=0.5), benchmark()
    optimizer = SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    strategy = Naive(
        model=model,
        optimizer=optimizer,
        criterion=nn.CrossEntropyLoss(),
        train_mb_size=10,
        train_epochs=3,
        eval_every=1,
        evaluator=None,
    )
    first: list[torch.Tensor] = []
    for experience in made.train_stream:
        strategy.train(experience, eval_streams=[made.test_stream])
        first = first or [p.detach().clone() for p in model.columns[0].parameters()]
    assert all(torch.equal(a, b) for a, b in zip(model.columns[0].parameters(), first, strict=True))
    for task, experience in enumerate(made.test_stream):
        x = torch.stack([experience.dataset[i][0] for i in range(30)])
        right = model.eval()(x, task).argmax(1) == torch.arange(30) % 2
        assert right.float().mean() > 0.8
