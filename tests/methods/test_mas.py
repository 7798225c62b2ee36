"""MAS: importances, their sum over tasks, and the penalty."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from avalanche.training.plugins import MASPlugin as AvalancheMAS

from clbench.memory import of_model
from clbench.methods.mas import MAS, squared_norm
from clbench.stream import Stream
from clbench.training.importance import mean_size


class Sum(torch.nn.Module):
    """w . x, whatever the task."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(1, 2))

    def forward(self, x: torch.Tensor, task_labels: Any = None) -> torch.Tensor:
        return x @ self.w.T


X = torch.tensor([[1.0, 1.0], [1.0, -3.0]])  # outputs 2 and -2: gradients (4, 4) and (-4, 12)
BATCH = [X, torch.zeros(2, dtype=torch.long), torch.zeros(2, dtype=torch.long)]


def test_importance_is_the_mean_of_absolute_gradients() -> None:
    found = mean_size(Sum(), [BATCH], squared_norm, torch.abs)
    assert found["w"].tolist() == [[4.0, 8.0]]


def test_avalanches_own_lets_samples_cancel() -> None:
    """Why it is not used. If this fails, Avalanche may have mended it."""
    model = Sum()
    experience = SimpleNamespace(dataset=[tuple(part[i] for part in BATCH) for i in range(2)])
    strategy = SimpleNamespace(
        model=model,
        experience=experience,
        train_mb_size=2,
        device="cpu",
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    )
    found = AvalancheMAS()._get_importance(strategy)
    assert found["w"].data.tolist() == [[0.0, 8.0]]


def test_importances_add_up_and_pull_to_the_last_weights(
    make_stream: Callable[..., Stream],
) -> None:
    torch.manual_seed(0)
    strategy: Any = MAS(strength=3.0).build(make_stream(epochs=1))
    plugin, model = strategy.plugins[1], strategy.model
    sums: dict[str, torch.Tensor] = {}
    for k in range(2):
        strategy.learn(k)
        task = strategy.stream.tasks[k].train
        batch = [task.inputs(), task.labels, torch.full_like(task.labels, k)]
        found = mean_size(model, [batch], squared_norm, torch.abs)
        sums = {name: sums.get(name, 0) + value for name, value in found.items()}
    anchor = {name: p.detach().clone() for name, p in model.named_parameters()}
    for name, p in model.named_parameters():
        torch.testing.assert_close(plugin.weight[name], sums[name], rtol=1e-4, atol=1e-6)
        p.data += 0.1 * torch.randn_like(p)
        p.grad = torch.zeros_like(p)
    plugin.before_training_epoch(strategy)
    plugin.after_backward(strategy)
    penalty = 3.0 * sum(
        (sums[name] * (p - anchor[name]).square()).sum() for name, p in model.named_parameters()
    )
    assert isinstance(penalty, torch.Tensor)
    expected = torch.autograd.grad(penalty, list(model.parameters()))
    for p, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, gradient, rtol=1e-3, atol=1e-5)
    assert strategy.memory().auxiliary == 2 * of_model(model)
