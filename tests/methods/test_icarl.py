"""iCaRL: herding, the budget, the loss, and tests by the nearest mean of exemplars."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from avalanche.training.plugins import SupervisedPlugin
from one_head import built, features, learn, outputs, parameters, stream_of
from torch import Tensor

from clbench.memory import of_model
from clbench.methods.icarl import ICaRL, herd


def unit(z: Tensor) -> Tensor:
    return z / z.norm(dim=-1, keepdim=True)


def test_herding_takes_what_brings_the_mean_nearest() -> None:
    z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.8, 0.6]])  # the mean is (0.6, 0.6)
    # 2 and 3 are equally near, the first of them counts; (2 + 3) / 2 = (0.7, 0.7) is as near as
    # (0 + 1) / 2 would be, and nearer than 2 with 0 or 1
    assert herd(z, 2).tolist() == [2, 3]
    assert sorted(herd(z, 9).tolist()) == [0, 1, 2, 3]


def test_for_features_of_length_1_it_is_the_herding_of_welling() -> None:
    """w_1 = m, x_k = argmax w_k x, w_k+1 = w_k + m - x_k, which the authors' code computes."""
    torch.manual_seed(0)
    z = unit(torch.randn(40, 6) + 1)
    mean = z.mean(0)
    w, chosen = mean.clone(), list[int]()
    while len(chosen) < 10:
        best = int((z @ w).argmax())
        if best in chosen:  # that code passes over it and goes on
            pytest.skip("a sample came twice: choose another seed")
        chosen.append(best)
        w = w + mean - z[best]
    assert herd(z, 10).tolist() == chosen


def test_the_budget_is_divided_among_the_classes_seen() -> None:
    strategy = built(ICaRL(buffer=21), stream_of("class", epochs=1))
    buffer, before = strategy.plugins[1].buffer, dict[int, Tensor]()
    for k, each in enumerate((10, 4, 3)):  # 21 // 2, 21 // 5, 21 // 7
        learn(strategy, k + 1, k)
        x, y, _ = buffer.columns.values()
        assert y.bincount().tolist() == [each] * strategy.stream.seen[k]
        for label, exemplars in before.items():  # the first ones stay, in their order
            assert torch.equal(x[y == label], exemplars[:each])
        before = {label: x[y == label] for label in range(strategy.stream.seen[k])}
        assert strategy.memory().replay == 4 * 784 * each * strategy.stream.seen[k]
        assert strategy.memory().auxiliary == (of_model(strategy.model) if k else 0)


def test_exemplars_are_herded_by_the_network_after_the_task() -> None:
    strategy = learn(built(ICaRL(buffer=10), stream_of("class")), 1)
    split, p = strategy.stream.tasks[0].train, parameters(strategy.model)
    x, y, _ = strategy.plugins[1].buffer.columns.values()
    for label in (0, 1):
        own = split.inputs((split.labels == label).nonzero().flatten())
        with torch.no_grad():
            z = unit(features(p, own))
        assert torch.equal(x[y == label], own[herd(z, 5)])


class Look(SupervisedPlugin):
    """Notes the loss of each step, and what it should be."""

    def __init__(self, old: list[Tensor], known: int) -> None:
        super().__init__()
        self.old, self.known = old, known
        self.losses: list[tuple[float, float]] = []
        self.labels: list[int] = []

    def after_backward(self, strategy: Any, **kwargs: Any) -> None:
        with torch.no_grad():
            g = outputs(parameters(strategy.model), strategy.mb_x, 7).sigmoid()
            q = outputs(self.old, strategy.mb_x, 7).sigmoid()
        total, seen = 0.0, strategy.mb_output.shape[1]
        for row, label in enumerate(strategy.mb_y.tolist()):
            for c in range(seen):
                want = q[row, c] if c < self.known else torch.tensor(float(c == label))
                total -= float(want * g[row, c].log() + (1 - want) * (1 - g[row, c]).log())
        self.losses.append((float(strategy.loss.detach()), total / len(strategy.mb_y)))
        self.labels += strategy.mb_y.tolist()


@pytest.mark.parametrize("k", [0, 1, 2])
def test_the_loss_is_that_of_the_formula_on_new_samples_and_exemplars(k: int) -> None:
    strategy = learn(built(ICaRL(buffer=21), stream_of("class", epochs=1)), k)
    look = Look(parameters(strategy.model), [0, 2, 5][k])
    kept = strategy.plugins[1].buffer.columns["y"].tolist()
    strategy.plugins.append(look)
    learn(strategy, k + 1, k)
    for got, expected in look.losses:
        assert got == pytest.approx(expected, rel=1e-4)
    new = strategy.stream.tasks[k].train.labels.tolist()
    assert sorted(look.labels) == sorted(new + kept)  # each once per epoch


def test_validation_measures_the_same_loss_with_the_networks_outputs() -> None:
    """It chooses the epoch; the nearest mean is for tests."""
    strategy = learn(built(ICaRL(buffer=21), stream_of("class", epochs=1)), 2)
    plugin, model = strategy.plugins[1], strategy.model
    strategy.experience = strategy.stream.avalanche.train_stream[1]
    test = strategy.stream.tasks[1].test
    plugin.learning = True
    found = strategy._measure([strategy.stream.avalanche.test_stream[1]])
    with torch.no_grad():
        out = model.eval()(test.inputs(), 0)
        q = plugin.old(test.inputs(), 0)[:, :2].sigmoid()
    want = torch.eye(5)[test.labels]
    want[:, :2] = q
    bce = -(want * out.sigmoid().log() + (1 - want) * (1 - out.sigmoid()).log()).sum(1).mean()
    assert found.mean_loss == pytest.approx(float(bce), rel=1e-4)
    right = (out.argmax(1) == test.labels).float().mean()
    assert found.accuracy == pytest.approx(100 * float(right))


def test_tests_take_the_nearest_mean_of_exemplars() -> None:
    strategy = learn(built(ICaRL(buffer=21), stream_of("class")), 2)
    p = parameters(strategy.model)
    x, y, _ = strategy.plugins[1].buffer.columns.values()
    with torch.no_grad():
        means = torch.stack([unit(unit(features(p, x[y == c])).mean(0)) for c in range(5)])
        for i, own in ((0, [0, 1]), (1, [2, 3, 4])):
            test = strategy.stream.tasks[i].test
            gaps = torch.cdist(unit(features(p, test.inputs())), means)  # (B, 5)
            right = (gaps.argmin(1) == test.labels).float().mean()
            assert strategy.accuracy(i) == pytest.approx(100 * float(right))
            among = torch.tensor(own)[gaps[:, own].argmin(1)]
            given = (among == test.labels).float().mean()
            assert strategy.tally.accuracy_given == pytest.approx(100 * float(given))
            assert strategy.tally.tasks[2] == 0  # classes to come have no mean
    by_head = (outputs(p, test.inputs(), 5).argmax(1) == test.labels).float().mean()
    assert strategy.accuracy(1) != pytest.approx(100 * float(by_head))


def test_means_follow_the_network() -> None:
    strategy = learn(built(ICaRL(buffer=21), stream_of("class", epochs=1)), 1)
    plugin = strategy.plugins[1]
    strategy.accuracy(0)
    _, before = plugin.means(strategy.model, 0)
    learn(strategy, 2, 1)
    strategy.accuracy(0)
    labels, after = plugin.means(strategy.model, 0)
    assert labels.tolist() == [0, 1, 2, 3, 4]
    assert not torch.allclose(before, after[:2])
    assert all(b > a for a, b in pairwise(labels.tolist()))
