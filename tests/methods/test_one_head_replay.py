"""ER-RES, ER-ACE and DER++ with one head, against algorithm R and their losses in plain torch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from one_head import assert_same, built, learn, outputs, parameters, stream_of, train_plainly
from torch import Tensor
from torch.nn import functional as F

from clbench.methods.derpp import DERPP
from clbench.methods.er_ace import ERACE
from clbench.methods.er_res import ERReservoir
from clbench.stream import Stream

BOTH = pytest.mark.parametrize("scenario", ["class", "domain"])


@pytest.fixture
def stream(scenario: str) -> Stream:
    return stream_of(scenario)


class Kept:
    """Algorithm R, sample by sample."""

    def __init__(self, size: int) -> None:
        self.size, self.offered = size, 0
        self.rows: list[tuple[Tensor, ...]] = []

    def draw(self, n: int) -> list[Tensor]:
        rows = [self.rows[i] for i in torch.randperm(len(self.rows))[:n].tolist()]
        return [torch.stack(column) for column in zip(*rows, strict=True)]

    def offer(self, *columns: Tensor) -> None:
        new = list(zip(*columns, strict=True))
        free = max(0, min(self.size - len(self.rows), len(new)))
        self.rows += [tuple(part.clone() for part in row) for row in new[:free]]
        self.offered += free
        for row, chance in zip(
            new[free:], torch.rand(len(new) - free, dtype=torch.float64), strict=True
        ):
            self.offered += 1
            if (slot := int(chance * self.offered)) < self.size:
                self.rows[slot] = tuple(part.clone() for part in row)


def er(out: Tensor, y: Tensor, now: int) -> Tensor:
    return F.cross_entropy(out, y)


def er_ace(out: Tensor, y: Tensor, now: int) -> Tensor:
    present = sorted(set(y[:now].tolist()))
    own = torch.tensor([present.index(label) for label in y[:now].tolist()])
    loss = F.cross_entropy(out[:now][:, present], own)
    return loss + F.cross_entropy(out[now:], y[now:]) if len(y) > now else loss


@BOTH
@pytest.mark.parametrize(
    ("method", "mean"), [(ERReservoir(buffer=20), er), (ERACE(buffer=20), er_ace)]
)
def test_replay_from_a_reservoir_of_samples(
    stream: Stream, method: Any, mean: Callable[..., Tensor]
) -> None:
    kept = Kept(20)

    def loss(p: list[Tensor], x: Tensor, y: Tensor, k: int) -> Tensor:
        now = len(y)
        if kept.rows:
            x2, y2 = kept.draw(now)
            x, y = torch.cat([x, x2]), torch.cat([y, y2])
        return mean(outputs(p, x, stream.seen[k]), y, now)

    strategy = built(method, stream)
    p = train_plainly(
        stream, parameters(strategy.model), loss, after_step=lambda p, x, y: kept.offer(x, y)
    )
    assert_same(learn(strategy), p)
    assert len(strategy.plugins[1].buffer) == 20
    assert strategy.memory().replay == 20 * 784 * 4


@BOTH
def test_derpp_has_all_outputs_in_use_from_the_first_task_on(stream: Stream) -> None:
    kept, now, width = Kept(20), [torch.empty(0)], stream.heads[0]

    def loss(p: list[Tensor], x: Tensor, y: Tensor, k: int) -> Tensor:
        out = outputs(p, x, width)
        total = F.cross_entropy(out, y)
        now[0] = out.detach()
        if kept.rows:
            (x1, _, z1), (x2, y2, _) = kept.draw(len(y)), kept.draw(len(y))
            total = total + 0.3 * (outputs(p, x1, width) - z1).square().mean()
            total = total + 0.7 * F.cross_entropy(outputs(p, x2, width), y2)
        return total

    strategy = built(DERPP(alpha=0.3, beta=0.7, buffer=20), stream)
    p = train_plainly(
        stream,
        parameters(strategy.model),
        loss,
        after_step=lambda p, x, y: kept.offer(x, y, now[0]),
    )
    assert_same(learn(strategy), p)
