"""ACL's discriminator: what it learns, from which features, at which rate, and that the best epoch
brings it back."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from clbench.conformance import small_stream
from clbench.methods._acl_adversary import Adversary
from clbench.methods.acl import ACL
from clbench.seeding import seed_everything

CPU = torch.device("cpu")


def strategy_of(epochs: int = 2, **params: Any) -> Any:
    stream = small_stream(epochs=epochs)
    seed_everything(0, "init")
    strategy = ACL(**params).build(stream)
    seed_everything(0, "task", 0)
    return strategy


def test_d_learns_tasks_from_one_and_noise_as_zero() -> None:
    adversary = Adversary(3, ACL(d_lr=1.0, latent=2))
    last = adversary.network.layers[3]
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    adversary.step(torch.randn(4, 2), torch.tensor([0, 2, 2, 2]))
    # softmax of zeros is 1/4 each; real: label 1 once, label 3 three times; noise: label 0
    real = torch.tensor([0.25, 0.25 - 0.25, 0.25, 0.25 - 0.75])
    noise = torch.tensor([0.25 - 1, 0.25, 0.25, 0.25])
    torch.testing.assert_close(last.bias, -(real + noise))


def test_d_learns_from_the_features_of_s_after_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = strategy_of(epochs=1, shared_dropout="layers", features="relu")
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def step(adversary: Adversary, z_s: torch.Tensor, tasks: torch.Tensor) -> None:
        model = strategy.model.eval()  # no dropout, so that passes can be compared
        with torch.no_grad():
            seen.append((z_s, model.shared(strategy.mb_x)))
        model.train()

    monkeypatch.setattr(Adversary, "step", step)
    for layer in strategy.model.shared:
        if hasattr(layer, "p"):
            layer.p = 0.0
    strategy.learn(0)
    assert seen
    assert all(torch.equal(given, now) for given, now in seen)
    assert not torch.equal(seen[0][0], seen[1][0])


def test_the_best_epoch_brings_back_d_with_s() -> None:
    strategy = strategy_of(epochs=4, d_lr=0.1)
    network = strategy.plugins[1].adversary.network
    by_epoch: list[list[torch.Tensor]] = []
    strategy.schedule.on_epoch = lambda epoch: by_epoch.append(
        [p.detach().clone() for p in network.parameters()]
    )
    losses = iter([2.0, 1.0, 3.0, 4.0])
    strategy.validate = lambda: (50.0, next(losses))
    strategy.learn(0)
    for p, best, last in zip(network.parameters(), by_epoch[1], by_epoch[3], strict=True):
        assert torch.equal(p, best)
        assert not torch.equal(p, last)


def test_the_rate_of_d_drops_after_epochs_without_a_lower_loss() -> None:
    adversary = Adversary(2, ACL(d_lr=0.9, d_patience=2))
    adversary.begin(0, CPU, rate=0.1)
    rates = []
    for loss in (1.0, 2.0, 0.9, 1.0, 0.9, 1.0, 1.0):
        adversary.begin_epoch()
        adversary.losses.append(loss)
        adversary.end_epoch()
        rates.append(adversary.optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([0.09, 0.09, 0.09, 0.09, 0.03, 0.03, 0.01])
    adversary.begin(1, CPU, rate=1.0)  # each task starts with the whole rate
    assert adversary.optimizer.param_groups[0]["lr"] == 0.9


def test_d_keeps_its_rate_unless_asked() -> None:
    strategy = strategy_of(epochs=3)
    strategy.learn(0)
    assert strategy.plugins[1].adversary.optimizer.param_groups[0]["lr"] == ACL().d_lr


@pytest.mark.parametrize("fresh", [True, False])
def test_the_momentum_is_forgotten_where_the_rate_drops(fresh: bool) -> None:
    strategy = strategy_of(epochs=3, fresh_momentum=fresh)
    plugin, kept = strategy.plugins[1], []

    def after_training_epoch(self: Any, strategy: Any, **kwargs: Any) -> None:
        kept.append((strategy.optimizer.param_groups[0]["lr"], bool(strategy.optimizer.state)))

    strategy.plugins.append(type("Look", (type(plugin).__mro__[1],), {
        "after_training_epoch": after_training_epoch,
    })())  # fmt: skip
    strategy.schedule.protocol = SimpleNamespace(patience=1, lr_factor=2.0, lr_min=0.0, valid=0.15)
    losses = iter([2.0, 1.0, 3.0])
    strategy.validate = lambda: (50.0, next(losses))
    strategy.learn(0)
    lr = strategy.stream.protocol.lr
    assert kept == [(lr, True), (lr, True), (lr / 2, not fresh)]
