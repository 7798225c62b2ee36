"""One method, trained on a small real stream, for the checks to look at."""

import io
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
from avalanche.models import avalanche_forward
from torch import Tensor

from clbench import data
from clbench.build import built
from clbench.declare import Declaration
from clbench.protocol import Protocol
from clbench.registry import import_class
from clbench.scenario import CLASS, DOMAIN, TASK
from clbench.seeding import seed_everything
from clbench.stream import Source, Stream
from clbench.training import StockStrategy, Strategy
from clbench.training.state import NotResumable

CLASSES = ((0, 1), (2, 3, 4), (5, 6))
"""Tasks of the small stream; one is wider, as tasks need not be alike."""
DIGITS = (0, 1, 2)
"""The classes of each task in the scenario `domain`."""
IMAGES = 40
"""Training images per class, and the most test images per class."""
EPOCHS = 4
Learner: TypeAlias = Strategy | StockStrategy


class Trial:
    """One method on the small stream, trained once; the checks look at what is kept here."""

    def __init__(self, declaration: Declaration, scenario: str = "", **params: Any) -> None:
        """Without a scenario, in the first one that the method declares; `params` in place of its
        defaults."""
        self.declaration, self.params = declaration, declaration.defaults | params
        self.cls = import_class(declaration)
        self.scenario = scenario or first_scenario(declaration)
        self.images = self.stream()
        self.strategy = self.build()
        self.states: list[bytes | NotResumable] = []
        self.frozen: list[dict[str, Tensor]] = []
        self.outputs: list[list[Tensor]] = []
        self.R = self.learn(self.strategy, 0, self._keep)

    def build(self, epochs: int = EPOCHS, **params: Any) -> Learner:
        """A fresh strategy on a fresh, equal stream."""
        return built(self.cls(**self.params | params), self.stream(epochs))

    def stream(self, epochs: int = EPOCHS) -> Stream:
        """A fresh small stream."""
        return small_stream(epochs, self.scenario)

    @property
    def chance(self) -> float:
        """Percent of right guesses among the outputs that compete in the last test."""
        return 100 / self.images.heads[-1]

    def learn(
        self,
        strategy: Learner,
        start: int,
        after: Callable[[Learner], None] = lambda strategy: None,
    ) -> list[list[float]]:
        """Learn the tasks from `start` on, as a run does; returns the rows of accuracies. `after`
        is called after each task. In the scenario `class`, a task has no outputs to test before it
        is learned."""
        rows = []
        tasks = range(len(strategy.stream))
        by_class = self.scenario == CLASS
        if start == 0 and not by_class:
            for i in tasks:
                strategy.accuracy(i)
        for k in range(start, len(strategy.stream)):
            seed_everything(strategy.stream.seed, "task", k)
            learned = strategy.learn(k)
            tested = tasks[: k + 1] if by_class else tasks
            rows.append([strategy.accuracy(i) for i in tested] if learned is not None else [])
            after(strategy)
        return rows

    def _keep(self, strategy: Learner) -> None:
        file = io.BytesIO()
        try:
            torch.save(strategy.state_dict(), file)
            self.states.append(file.getvalue())
        except NotResumable as reason:
            self.states.append(reason)
        model = strategy.model.eval()
        self.frozen.append(
            {n: p.detach().clone() for n, p in model.named_parameters() if not p.requires_grad}
        )
        with torch.no_grad():
            tests = [task.test for task in strategy.stream.tasks[: len(self.states)]]
            labels = [torch.full((len(t),), t.label) for t in tests]
            both = zip(tests, labels, strict=True)
            outputs = [avalanche_forward(model, test.inputs(), t) for test, t in both]
        self.outputs.append(outputs)


def first_scenario(declaration: Declaration) -> str:
    """The scenario of the checks: the first that the method declares, else `task`."""
    return str(next(iter(declaration.meta.get("scenarios", ())), TASK))


def small_stream(epochs: int = EPOCHS, scenario: str = TASK) -> Stream:
    """Three small tasks of real digits; in `domain` of the same digits, turned."""
    mnist = data.load("mnist-5k")
    train, test = (_first_of_each_class(mnist.parts[part]) for part in ("train", "test"))
    scaling = (0.1307,), (0.3081,)
    sources = [Source(train, test, classes, *scaling) for classes in CLASSES]
    if scenario == DOMAIN:
        turns = [partial(torch.rot90, k=k, dims=(2, 3)) for k in range(len(CLASSES))]
        sources = [Source(train, test, DIGITS, *scaling, view=turn) for turn in turns]
    protocol = Protocol(lr=0.05, momentum=0.5, batch_size=16, epochs=epochs)
    return Stream(
        sources, name="check", backbone="mlp", protocol=protocol, seed=0, scenario=scenario
    )


def _first_of_each_class(images: data.Images) -> data.Images:
    rows = [(images.labels == c).nonzero()[0][:IMAGES] for c in range(10)]
    at = sorted(int(i) for part in rows for i in part)
    return data.Images(images.images[at], images.labels[at])


def equal_weights(a: Learner, b: Learner) -> bool:
    """Whether two networks are equal, bit for bit."""
    one, other = a.model.state_dict(), b.model.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)
