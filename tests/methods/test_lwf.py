"""LwF: the distillation against its formula, over all heads of past tasks."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from avalanche.training.plugins import SupervisedPlugin
from avalanche.training.regularization import LearningWithoutForgetting

from clbench.memory import of_model
from clbench.methods.lwf import Distillation, LwF
from clbench.networks import MultiHead
from clbench.networks.backbones import MLP
from clbench.stream import Stream


class Look(SupervisedPlugin):
    """Notes the loss of each step, and what it should be, T = 3 and strength 0.5."""

    def __init__(self, old: list[tuple[torch.Tensor, ...]]) -> None:
        super().__init__()
        self.old = old
        self.seen: list[tuple[float, float]] = []

    def after_backward(self, strategy: Any, **kwargs: Any) -> None:
        model, x, k = strategy.model, strategy.mb_x, int(strategy.mb_task_id[0])
        with torch.no_grad():
            loss = torch.nn.functional.cross_entropy(model(x, k), strategy.mb_y)
            *trunk, first, second = self.old
            for j, head in enumerate([first, second][:k]):
                z = x.flatten(1)
                for weight, bias in trunk:
                    z = (z @ weight.T + bias).relu()
                o, h = z @ head[0].T + head[1], model(x, j)
                p, q = (o / 3).softmax(1), (h / 3).softmax(1)
                loss = loss + 0.5 * (p * (p.log() - q.log())).sum(1).mean()
        self.seen.append((float(strategy.loss.detach()), float(loss)))


def weights(model: Any) -> list[tuple[torch.Tensor, ...]]:
    """(weight, bias) of the trunk's layers, then of the first two heads."""
    layers = [m for m in model.trunk.modules() if isinstance(m, torch.nn.Linear)]
    layers += list(model.heads)[:2]
    return [(m.weight.detach().clone(), m.bias.detach().clone()) for m in layers]


def test_the_loss_is_that_of_the_formula(make_stream: Callable[..., Stream]) -> None:
    torch.manual_seed(0)
    strategy: Any = LwF(strength=0.5, temperature=3.0).build(make_stream(epochs=2, lr=0.2))
    strategy.learn(0)
    assert strategy.memory().auxiliary == of_model(strategy.model)
    for k in (1, 2):
        look = Look(weights(strategy.model))
        strategy.plugins.append(look)
        strategy.learn(k)
        strategy.plugins.remove(look)
        assert len(look.seen) == 2 * 5
        for got, expected in look.seen:
            assert abs(got - expected) < 1e-5
        # the old network and the new differ from the second step on
        assert len({round(got, 6) for got, _ in look.seen}) > 5


def test_all_heads_at_once_are_each_heads_own() -> None:
    torch.manual_seed(0)
    net = MultiHead(MLP((4,), width=8), [2, 3])
    x = torch.randn(5, 4)
    for k, out in net(x, None).items():
        assert torch.equal(out, net(x, k))


def test_the_old_network_predicts_without_dropout(make_stream: Callable[..., Stream]) -> None:
    torch.manual_seed(0)
    strategy: Any = LwF().build(make_stream(epochs=1))
    strategy.learn(0)
    strategy.learn(1)
    plugin = strategy.plugins[1]
    strategy.model.train()
    plugin.before_training_exp(strategy)
    assert not plugin.lwf.prev_model.training


def penalty(
    kind: type, student: Any, teacher: Any, seen: dict[int, set[int]], shift: float = 0.0
) -> Any:
    """The loss at strength 0.5 and T = 3, and its gradients; of samples that were shifted after the
    network saw them."""
    lwf = kind(0.5, 3.0)
    lwf.prev_model, lwf.expcount = teacher, 2
    lwf.prev_classes_by_task.update(seen)
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    student.zero_grad()
    out = student(x, 2)
    loss = lwf(x + shift if shift else x, out, student)
    loss.backward()
    return loss.detach(), [p.grad for p in student.parameters()]


def other_heads(classes: list[int]) -> MultiHead:
    net = MultiHead(MLP((4,), width=8), classes)
    net.heads = torch.nn.ModuleList(torch.nn.Sequential(head) for head in net.heads)
    return net


class Cosine(MultiHead):
    """A network that is more than its trunk and heads."""

    def forward(self, x: torch.Tensor, task_labels: Any) -> Any:
        z = torch.nn.functional.normalize(self.trunk(x))
        if task_labels is None:
            return {k: head(z) for k, head in enumerate(self.heads)}
        return self.heads[task_labels](z)


ALL = {0: {0, 1, 2}, 1: {0, 1, 2}}


@pytest.mark.parametrize(
    ("make", "classes", "seen"),
    [
        (None, [3, 3, 3], ALL),
        (None, [3, 3, 3], {0: {0, 1, 2}, 1: {0, 2}}),  # a class of a head that never came
        (None, [2, 3, 4], {0: {0, 1}, 1: {0, 1, 2}}),
        (other_heads, [3, 3, 3], ALL),
        (lambda classes: Cosine(MLP((4,), width=8), classes), [3, 3, 3], ALL),
    ],
    ids=["alike", "unseen", "widths", "heads", "cosine"],
)
def test_all_heads_at_once_give_avalanches_loss(
    make: Callable[[list[int]], Any] | None, classes: list[int], seen: dict[int, set[int]]
) -> None:
    torch.manual_seed(0)
    make = make or (lambda classes: MultiHead(MLP((4,), width=8), classes))
    student, teacher = make(classes), make(classes)
    mine, theirs = (
        penalty(kind, student, teacher, seen) for kind in (Distillation, LearningWithoutForgetting)
    )
    torch.testing.assert_close(mine, theirs)


def test_features_of_other_samples_are_not_taken() -> None:
    torch.manual_seed(0)
    student, teacher = (MultiHead(MLP((4,), width=8), [3, 3, 3]) for _ in range(2))
    mine, theirs = (
        penalty(kind, student, teacher, ALL, shift=1.0)
        for kind in (Distillation, LearningWithoutForgetting)
    )
    torch.testing.assert_close(mine, theirs)


def test_features_of_another_pass_are_not_taken() -> None:
    """Such as a pass of other tasks, or one whose outputs were converted."""
    torch.manual_seed(0)
    net, x = MultiHead(MLP((4,), width=8), [3, 3, 3]), torch.randn(5, 4)
    lwf, passes = Distillation(0.5, 3.0), []
    lwf.prev_model, lwf.expcount = copy.deepcopy(net), 2
    lwf.prev_classes_by_task.update(ALL)
    net.trunk.register_forward_hook(lambda *call: passes.append(call))
    out = net(x, 2)
    lwf(x, out, net)
    assert len(passes) == 1
    lwf(x, out.clone(), net)
    assert len(passes) == 2
    net(x, 1)
    lwf(x, out, net)
    assert len(passes) == 4


def test_features_are_those_of_training_and_are_not_copied() -> None:
    net, x = MultiHead(MLP((4,), width=8), [3, 3]), torch.randn(5, 4)
    out = net(x, 1)
    assert net.features is not None
    assert net.features.x is x
    assert net.features.out is out
    assert torch.equal(net.heads[1](net.features.z), out)
    assert copy.deepcopy(net).features is None
    net.eval()(x, 1)
    assert net.features is None


class Interruption(SupervisedPlugin):
    """Copies the network after every step, and stops training once."""

    def __init__(self) -> None:
        super().__init__()
        self.stop = True
        self.copies: list[Any] = []

    def after_update(self, strategy: Any, **kwargs: Any) -> None:
        self.copies.append(copy.deepcopy(strategy.model))
        if self.stop:
            self.stop = False
            raise KeyboardInterrupt


def test_a_step_sends_its_samples_through_the_network_once(
    make_stream: Callable[..., Stream],
) -> None:
    torch.manual_seed(0)
    strategy: Any = LwF().build(make_stream(epochs=1))
    passes = []

    def count(trunk: Any, *rest: Any) -> None:
        passes.append(trunk.training)

    strategy.model.trunk.register_forward_hook(count)
    for k in range(3):
        strategy.learn(k)
        assert sum(passes) == 5 * (k + 1)  # the old network is not in training


def test_nothing_of_a_step_stays_on_the_network(make_stream: Callable[..., Stream]) -> None:
    """So it can be copied in the middle of a task, and trained again after an interruption."""
    torch.manual_seed(0)
    strategy: Any = LwF().build(make_stream(epochs=1))
    strategy.learn(0)
    interruption = Interruption()
    strategy.plugins.append(interruption)
    with pytest.raises(KeyboardInterrupt):
        strategy.learn(1)
    strategy.learn(1)
    assert len(interruption.copies) == 1 + 5


def test_heads_that_are_alike_are_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(LearningWithoutForgetting, "_lwf_penalty")
    student, teacher = (MultiHead(MLP((4,), width=8), [3, 3, 3]) for _ in range(2))
    assert float(penalty(Distillation, student, teacher, ALL)[0]) > 0
