"""ER-ACE: its loss against Avalanche's; `test_one_head_replay.py` has a whole training."""

from types import SimpleNamespace
from typing import Any

import torch
from avalanche.training import ACECriterion

from clbench.methods.er_ace import ERACEPlugin


def test_the_loss_is_twice_avalanches_mean_of_the_two() -> None:
    torch.manual_seed(0)
    out = torch.randn(10, 7, requires_grad=True)
    y = torch.tensor([5, 6, 5, 6, 0, 1, 2, 5, 3, 4])
    plugin = ERACEPlugin(size=4)
    plugin._current = [torch.empty(4), y[:4], torch.zeros(4)]
    strategy: Any = SimpleNamespace(mb_output=out, mb_y=y, loss=None)
    plugin.before_backward(strategy)
    theirs = ACECriterion()(out[:4], y[:4], out[4:], y[4:])
    torch.testing.assert_close(strategy.loss, 2 * theirs)
    [mine] = torch.autograd.grad(strategy.loss, out, retain_graph=True)
    [other] = torch.autograd.grad(2 * theirs, out)
    torch.testing.assert_close(mine, other)
    assert not mine[:4, :5].any()  # new samples push no older class down


def test_without_kept_samples_only_new_ones_count() -> None:
    out, y = torch.tensor([[1.0, 2.0, 30.0], [0.0, 3.0, 30.0]]), torch.tensor([0, 1])
    plugin = ERACEPlugin(size=4)
    plugin._current = [torch.empty(2), y, torch.zeros(2)]
    strategy: Any = SimpleNamespace(mb_output=out, mb_y=y, loss=None)
    plugin.before_backward(strategy)
    torch.testing.assert_close(strategy.loss, torch.nn.functional.cross_entropy(out[:, :2], y))
