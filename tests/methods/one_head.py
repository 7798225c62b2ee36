"""What the tests of methods with one head share: a small stream, and training in plain torch."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from clbench.conformance import small_stream
from clbench.loader import TensorLoader
from clbench.methods.finetune import FineTune
from clbench.seeding import generator, seed_everything
from clbench.stream import Stream

Loss = Callable[[list[Tensor], Tensor, Tensor, int], Tensor]
"""(parameters, x, y, task) -> the loss of a batch."""


def stream_of(scenario: str, epochs: int = 2) -> Stream:
    """Three small tasks of digits, without validation: all epochs count, at one learning rate."""
    stream = small_stream(epochs, scenario)
    return stream.under(dataclasses.replace(stream.protocol, valid=0.0))


def built(method: Any, stream: Stream) -> Any:
    """The strategy with initial weights from the seed."""
    torch.set_num_threads(1)
    seed_everything(stream.seed, "init")
    return method.build(stream)


def learn(strategy: Any, tasks: int = 3, start: int = 0) -> Any:
    """Learn some tasks as a run does."""
    for k in range(start, tasks):
        seed_everything(strategy.stream.seed, "task", k)
        strategy.learn(k)
    return strategy


def parameters(model: Any) -> list[Tensor]:
    """Copies of the weights and biases, those of the head last."""
    return [p.detach().clone().requires_grad_() for p in model.parameters()]


def features(p: list[Tensor], x: Tensor) -> Tensor:
    z = x.flatten(1)
    for weight, bias in zip(p[:-2:2], p[1:-2:2], strict=True):
        z = F.relu(z @ weight.T + bias)
    return z


def outputs(p: list[Tensor], x: Tensor, seen: int) -> Tensor:
    """Outputs of the classes seen so far."""
    return features(p, x) @ p[-2][:seen].T + p[-1][:seen]


def train_plainly(
    stream: Stream,
    p: list[Tensor],
    loss: Loss | None = None,
    after_backward: Callable[[list[Tensor], int], None] = lambda p, k: None,
    after_step: Callable[[list[Tensor], Tensor, Tensor], None] = lambda p, x, y: None,
    after_task: Callable[[list[Tensor], int], None] = lambda p, k: None,
    tasks: int = 3,
) -> list[Tensor]:
    """Learn the tasks with torch alone, in the same batches, and return the parameters."""
    seen, protocol = stream.seen, stream.protocol

    def cross_entropy(p: list[Tensor], x: Tensor, y: Tensor, k: int) -> Tensor:
        return F.cross_entropy(outputs(p, x, seen[k]), y)

    for k in range(tasks):
        seed_everything(stream.seed, "task", k)
        optimizer = torch.optim.SGD(p, lr=protocol.lr, momentum=protocol.momentum)
        shuffle = generator(stream.seed, "batches", k)
        loader = TensorLoader([stream.tasks[k].train], protocol.batch_size, shuffle)
        for _ in range(protocol.epochs):
            for x, y, _ in loader:
                optimizer.zero_grad()
                (loss or cross_entropy)(p, x, y, k).backward()  # type: ignore[no-untyped-call]
                after_backward(p, k)
                optimizer.step()
                with torch.no_grad():
                    after_step(p, x, y)
        after_task(p, k)
    return p


def assert_network(strategy: Any, p: list[Tensor]) -> None:
    """The strategy's network has these parameters."""
    torch.testing.assert_close(
        [q.detach() for q in strategy.model.parameters()], [q.detach() for q in p]
    )


def assert_same(strategy: Any, p: list[Tensor]) -> None:
    """The strategy's network has these parameters, and they are not those of fine-tuning."""
    assert_network(strategy, p)
    plain = zip(
        finetuned(strategy.stream.scenario, strategy.stream.protocol.epochs), p, strict=True
    )
    assert max(float((a - b.detach()).abs().max()) for a, b in plain) > 1e-3


@functools.cache
def finetuned(scenario: str, epochs: int) -> list[Tensor]:
    """The parameters that fine-tuning ends with."""
    stream = stream_of(scenario, epochs)
    strategy = built(FineTune(), stream)
    return [q.detach() for q in train_plainly(stream, parameters(strategy.model))]
