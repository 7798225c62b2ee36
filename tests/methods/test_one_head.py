"""Class- and domain-incremental: each method with one head against its formula in plain torch."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from one_head import (
    assert_network,
    assert_same,
    built,
    learn,
    outputs,
    parameters,
    stream_of,
    train_plainly,
)
from scipy.optimize import nnls
from torch import Tensor
from torch.nn import functional as F

from clbench.loader import TensorLoader
from clbench.methods.agem import AGEM
from clbench.methods.ewc import EWC
from clbench.methods.finetune import FineTune
from clbench.methods.gem import GEM
from clbench.methods.joint import Joint
from clbench.methods.lwf import LwF
from clbench.methods.mas import MAS
from clbench.methods.si import SI
from clbench.seeding import generator, seed_everything
from clbench.stream import Stream

BOTH = pytest.mark.parametrize("scenario", ["class", "domain"])


@pytest.fixture
def stream(scenario: str) -> Stream:
    return stream_of(scenario)


@BOTH
def test_the_labels_and_outputs_of_the_stream(stream: Stream, scenario: str) -> None:
    """What the other tests build on."""
    labels = [sorted(set(task.train.labels.tolist())) for task in stream.tasks]
    if scenario == "class":
        assert (labels, stream.seen) == ([[0, 1], [2, 3, 4], [5, 6]], [2, 5, 7])
    else:
        assert (labels, stream.seen) == ([[0, 1, 2]] * 3, [3, 3, 3])
    assert [task.train.label for task in stream.tasks] == [0, 0, 0]


@BOTH
def test_finetune(stream: Stream) -> None:
    strategy = built(FineTune(), stream)
    p = train_plainly(stream, parameters(strategy.model))
    assert_network(learn(strategy), p)
    test = stream.tasks[1].test
    right = outputs(p, test.inputs(), stream.seen[2]).argmax(1) == test.labels
    assert strategy.accuracy(1) == pytest.approx(100 * float(right.float().mean()))


@BOTH
def test_joint(stream: Stream) -> None:
    strategy = built(Joint(), stream)
    p = parameters(strategy.model)
    seed_everything(0, "task", 2)
    optimizer = torch.optim.SGD(p, lr=stream.protocol.lr, momentum=stream.protocol.momentum)
    loader = TensorLoader([t.train for t in stream.tasks], 16, generator(0, "batches", 2))
    for _ in range(stream.protocol.epochs):
        for x, y, _ in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(outputs(p, x, stream.seen[2]), y)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    assert_same(learn(strategy), p)


# ---- penalties ----


def per_sample(stream: Stream, p: list[Tensor], k: int, size: Any, loss: Any) -> list[Tensor]:
    """The mean size of each parameter's gradient over the task's samples, one after the other."""
    split = stream.tasks[k].train
    sums = [torch.zeros_like(q) for q in p]
    for x, y in zip(split.inputs().split(1), split.labels.split(1), strict=True):
        gradients = torch.autograd.grad(loss(outputs(p, x, stream.seen[k]), y), p)
        for total, g in zip(sums, gradients, strict=True):
            total += size(g)
    return [total / len(split) for total in sums]


@BOTH
def test_ewc_sums_the_penalties_of_all_past_tasks(stream: Stream) -> None:
    past: list[tuple[list[Tensor], list[Tensor]]] = []

    def loss(p: list[Tensor], x: Tensor, y: Tensor, k: int) -> Tensor:
        total = F.cross_entropy(outputs(p, x, stream.seen[k]), y)
        for fisher, theta in past:
            parts = zip(fisher, p, theta, strict=True)
            total = total + 3.0 / 2 * sum((f * (q - o) ** 2).sum() for f, q, o in parts)
        return total

    def after_task(p: list[Tensor], k: int) -> None:
        fisher = per_sample(stream, p, k, torch.square, F.cross_entropy)
        past.append((fisher, [q.detach().clone() for q in p]))

    strategy = built(EWC(strength=3.0), stream)
    p = train_plainly(stream, parameters(strategy.model), loss, after_task=after_task)
    assert_same(learn(strategy), p)
    if stream.scenario == "class":  # the first task says nothing of classes to come
        assert not past[0][0][-2][2:].any()


@BOTH
def test_mas_takes_the_norm_over_the_classes_seen(stream: Stream) -> None:
    omega: list[Tensor] = []
    theta: list[Tensor] = []

    def loss(p: list[Tensor], x: Tensor, y: Tensor, k: int) -> Tensor:
        total = F.cross_entropy(outputs(p, x, stream.seen[k]), y)
        if k:
            parts = zip(omega, p, theta, strict=True)
            total = total + 0.05 * sum((o * (q - t) ** 2).sum() for o, q, t in parts)
        return total

    def after_task(p: list[Tensor], k: int) -> None:
        gained = per_sample(stream, p, k, torch.abs, lambda out, y: out.square().sum())
        omega[:] = [o + g for o, g in zip(omega, gained, strict=True)] if omega else gained
        theta[:] = [q.detach().clone() for q in p]

    strategy = built(MAS(strength=0.05), stream)
    p = train_plainly(stream, parameters(strategy.model), loss, after_task=after_task)
    assert_same(learn(strategy), p)


@BOTH
def test_si_sums_up_what_each_parameter_did_for_the_loss(stream: Stream) -> None:
    strategy = built(SI(strength=0.1, damping=0.1), stream)
    start = parameters(strategy.model)
    theta = [q.detach().clone() for q in start]
    omega = [torch.zeros_like(q) for q in start]
    path = [torch.zeros_like(q) for q in start]
    before: list[tuple[Tensor, Tensor]] = []

    def after_backward(p: list[Tensor], k: int) -> None:
        before[:] = [(q.detach().clone(), q.grad.clone()) for q in p if q.grad is not None]
        for q, o, t in zip(p, omega, theta, strict=True):
            assert q.grad is not None
            q.grad += 2 * 0.1 * o * (q.detach() - t)

    def after_step(p: list[Tensor], x: Tensor, y: Tensor) -> None:
        for total, q, (old, g) in zip(path, p, before, strict=True):
            total -= g * (q - old)

    def after_task(p: list[Tensor], k: int) -> None:
        for i, q in enumerate(p):
            change = q.detach() - theta[i]
            omega[i] = (omega[i] + path[i] / (change**2 + 0.1)).clamp_min(0)
            theta[i] = q.detach().clone()
            path[i].zero_()

    p = train_plainly(
        stream, start, None, after_backward, after_step=after_step, after_task=after_task
    )
    assert_same(learn(strategy), p)
    assert all(bool(o.any()) for o in omega)


@BOTH
def test_lwf_distils_the_outputs_of_old_classes_only(stream: Stream) -> None:
    old: list[list[Tensor]] = []

    def loss(p: list[Tensor], x: Tensor, y: Tensor, k: int) -> Tensor:
        total = F.cross_entropy(outputs(p, x, stream.seen[k]), y)
        if k:
            n = stream.seen[k - 1]
            then = F.softmax(outputs(old[-1], x, n).detach() / 3, 1)
            now = F.softmax(outputs(p, x, n) / 3, 1)
            total = total + 0.5 * (then * (then / now).log()).sum(1).mean()
        return total

    strategy = built(LwF(strength=0.5, temperature=3.0), stream)
    p = train_plainly(
        stream,
        parameters(strategy.model),
        loss,
        after_task=lambda p, k: old.append([q.detach().clone() for q in p]),
    )
    assert_same(learn(strategy), p)


# ---- gradients of memories ----


class Memory:
    """`each` samples of each class of a task, drawn as A-GEM and GEM draw them."""

    def __init__(self, stream: Stream, each: int) -> None:
        self.stream, self.each = stream, each
        self.tasks: list[tuple[Tensor, Tensor]] = []

    def keep(self, p: list[Tensor], k: int) -> None:
        split = self.stream.tasks[k].train
        rows = []
        for label in sorted(set(split.labels.tolist())):
            own = (split.labels == label).nonzero().flatten()
            rows.append(own[torch.randperm(len(own))[: self.each]])
        chosen = torch.cat(rows)
        self.tasks.append((split.inputs(chosen), split.labels[chosen]))

    def gradient(self, p: list[Tensor], k: int, kept: list[tuple[Tensor, Tensor]]) -> Tensor:
        x, y = (torch.cat(column) for column in zip(*kept, strict=True))
        loss = F.cross_entropy(outputs(p, x, self.stream.seen[k]), y)
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, p)])


def set_gradient(p: list[Tensor], g: Tensor) -> None:
    for q, part in zip(p, g.split([q.numel() for q in p]), strict=True):
        q.grad = part.view_as(q).clone()


def gradient_of(p: list[Tensor]) -> Tensor:
    return torch.cat([q.grad.flatten() for q in p if q.grad is not None])


@BOTH
def test_agem_projects_by_one_memory_of_all_past_tasks(stream: Stream) -> None:
    memory, turned = Memory(stream, 3), []

    def project(p: list[Tensor], k: int) -> None:
        if not memory.tasks:
            return
        torch.randperm(sum(len(y) for _, y in memory.tasks))  # all of it is drawn
        g, r = gradient_of(p), memory.gradient(p, k, memory.tasks)
        turned.append(bool(g @ r < 0))
        if turned[-1]:
            set_gradient(p, g - (g @ r) / (r @ r) * r)

    strategy = built(AGEM(per_class=3), stream)
    p = train_plainly(stream, parameters(strategy.model), None, project, after_task=memory.keep)
    assert_same(learn(strategy), p)
    assert any(turned)


@BOTH
def test_gem_has_a_constraint_for_each_past_task(stream: Stream) -> None:
    """Though the label of all tasks is 0. The dual program is solved by scipy."""
    memory, turned = Memory(stream, 3), []

    def project(p: list[Tensor], k: int) -> None:
        if not memory.tasks:
            return
        G = torch.stack([memory.gradient(p, k, [one]) for one in memory.tasks])
        g = gradient_of(p)
        assert len(G) == k
        turned.append(int((G @ g < 0).sum()))
        v, _ = nnls(G.double().T.numpy(), -g.double().numpy())
        set_gradient(p, (g.double() + torch.from_numpy(v) @ G.double()).float())

    strategy = built(GEM(per_class=3, margin=0.0), stream)
    p = train_plainly(stream, parameters(strategy.model), None, project, after_task=memory.keep)
    learn(strategy)
    torch.testing.assert_close(
        [q.detach() for q in strategy.model.parameters()],
        [q.detach() for q in p],
        rtol=1e-3,  # two solvers
        atol=1e-4,
    )
    assert max(turned) == 2
    assert strategy.plugins[1].ends == [n * 3 for n in torch.tensor(stream.classes).cumsum(0)]
    ends = strategy.plugins[1].ends
    y = strategy.plugins[1].buffer.columns["y"]
    assert [sorted(set(y[a:b].tolist())) for a, b in pairwise([0, *ends])] == [
        sorted(own) for own in stream.labels
    ]
