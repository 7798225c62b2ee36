"""GDumb: the sampler, and a network trained on the buffer alone from its initial weights."""

import math
from collections import Counter
from typing import Any

import pytest
import torch
from avalanche.training.plugins import SupervisedPlugin
from one_head import assert_network, built, learn, outputs, parameters, stream_of
from torch.nn import functional as F

from clbench.conformance import small_stream
from clbench.methods.gdumb import GDumb, greedy


def test_the_sampler_fills_up_and_then_balances() -> None:
    a, b, c = (0, 0), (0, 1), (1, 2)
    assert greedy([], [a] * 6, 4) == [0, 1, 2, 3]  # the only class may have all
    torch.manual_seed(0)
    kept = greedy([], [a] * 4 + [b] * 4, 4)  # b may have 2, and each takes the place of an a
    assert sum(at < 4 for at in kept) == 2
    assert [at for at in kept if at >= 4] == [4, 5]
    kept = greedy([a, a, b, b], [c] * 5, 4)
    assert [at for at in kept if at >= 4] == [4, 5]  # 1 < 4 / 3
    assert len(kept) == 4


def test_a_class_has_its_share_and_at_most_one_more() -> None:
    torch.manual_seed(0)
    offered = [(0, int(y)) for y in torch.randint(7, (500,))]
    counts = Counter(offered[at] for at in greedy([], offered, 40))
    assert counts.total() == 40
    assert set(counts.values()) == {5, 6}


@pytest.mark.parametrize("scenario", ["task", "class", "domain"])
def test_the_buffer_is_balanced_in_every_scenario(scenario: str) -> None:
    strategy = built(GDumb(buffer=30, passes=1), small_stream(1, scenario))
    plugin, classes = strategy.plugins[1], 0
    for k, own in enumerate(strategy.stream.classes):
        learn(strategy, k + 1, k)
        classes += own
        counts = Counter(plugin.classes)
        assert len(counts) == classes
        assert max(counts.values()) - min(counts.values()) <= 1
        assert counts.total() == len(plugin.buffer) <= 30
        assert strategy.memory().replay == len(plugin.buffer) * 784 * 4
        x, y, t = plugin.buffer.columns.values()
        split = strategy.stream.tasks[k].train
        mine = {
            row.numpy().tobytes(): int(label)
            for row, label in zip(split.inputs(), split.labels, strict=True)
        }
        for image, label, task, (of, known) in zip(x, y, t, plugin.classes, strict=True):
            assert known == label
            assert task == (of if scenario == "task" else 0)
            assert of != k or mine[image.numpy().tobytes()] == label


class Note(SupervisedPlugin):
    """Notes the state of the generator that the sampler leaves; the sampler is tested above."""

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        self.state = torch.random.get_rng_state()


@pytest.mark.parametrize("scenario", ["class", "domain"])
def test_the_network_is_that_of_a_plain_training_on_the_buffer(scenario: str) -> None:
    stream = stream_of(scenario, epochs=5)
    strategy = built(GDumb(buffer=30), stream)
    fresh, note = parameters(strategy.model), Note()
    strategy.plugins.append(note)
    for k in range(2):
        learn(strategy, k + 1, k)
        x, y, _ = strategy.plugins[1].buffer.columns.values()
        p = [q.detach().clone().requires_grad_() for q in fresh]
        optimizer = torch.optim.SGD(p, lr=1.0, momentum=stream.protocol.momentum)
        torch.random.set_rng_state(note.state)
        for epoch in range(5):
            low, high = stream.protocol.lr / 100, stream.protocol.lr
            cosine = (1 + math.cos(math.pi * epoch / 5)) / 2
            optimizer.param_groups[0]["lr"] = low + (high - low) * cosine
            for rows in torch.randperm(len(y)).split(16):
                optimizer.zero_grad()
                loss = F.cross_entropy(outputs(p, x[rows], stream.seen[k]), y[rows])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        assert_network(strategy, p)


def test_it_says_what_it_decides_and_needs_no_validation() -> None:
    stream = small_stream(2, "class")
    strategy = built(GDumb(passes=7), stream)
    curve = strategy.learn(0)
    assert [set(epoch) & {"valid_loss", "valid_accuracy"} for epoch in curve] == [set()] * 7
    assert strategy.decided == {"schedule": "cosine to lr/100, no validation", "epochs": "7"}
    plain = built(GDumb(), small_stream(2, "class"))
    assert len(plain.learn(0)) == 2
    assert "epochs" not in plain.decided
