"""The checks that every method must pass, on a small real stream. Each check is one function.

`check(declaration)` runs them all and yields, for each, an empty string or a sentence that names
the violation. All installed methods pass; `clbench check FILE` checks a user's file.
"""

import dataclasses
import io
import math
import traceback
from collections.abc import Callable, Iterator
from typing import cast

import torch
from torch import Tensor

from clbench import data
from clbench.checkpoint import tensors_in
from clbench.declare import Declaration, cannot_forget
from clbench.errors import UserError
from clbench.memory import of_model, of_tensors
from clbench.protocol import Protocol
from clbench.registry import FAMILIES, import_class
from clbench.seeding import seed_everything
from clbench.stream import Source, Stream
from clbench.training import Strategy

CLASSES = ((0, 1), (2, 3, 4), (5, 6))
"""Tasks of the small stream; one is wider, as tasks need not be alike."""
IMAGES = 40
"""Training images per class, and the most test images per class."""


class Trial:
    """One method on the small stream, trained once; the checks look at what is kept here."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.cls = import_class(declaration)
        self.images = small_stream()
        self.strategy = self.build()
        self.states: list[bytes] = []
        self.frozen: list[dict[str, Tensor]] = []
        self.outputs: list[list[Tensor]] = []
        self.R = self.learn(self.strategy, 0, keep=True)

    def build(self) -> Strategy:
        """A fresh strategy on a fresh, equal stream."""
        stream = small_stream()
        seed_everything(stream.seed, "init")
        return cast(Strategy, self.cls(**self.declaration.defaults).build(stream))

    def learn(self, strategy: Strategy, start: int, keep: bool = False) -> list[list[float]]:
        """Learn the tasks from `start` on, as a run does; returns the rows of accuracies."""
        rows = []
        for k in range(start, len(strategy.stream)):
            seed_everything(strategy.stream.seed, "task", k)
            learned = strategy.learn(k)
            tasks = range(len(strategy.stream))
            rows.append([strategy.accuracy(i) for i in tasks] if learned is not None else [])
            if keep:
                self._keep(strategy, k)
        return rows

    def _keep(self, strategy: Strategy, k: int) -> None:
        file = io.BytesIO()
        torch.save(strategy.state_dict(), file)
        self.states.append(file.getvalue())
        model = strategy.model.eval()
        self.frozen.append(
            {n: p.detach().clone() for n, p in model.named_parameters() if not p.requires_grad}
        )
        with torch.no_grad():
            tests = [strategy.stream.tasks[i].test for i in range(k + 1)]
            outputs = [model(t.inputs(), torch.full((len(t),), t.task)) for t in tests]
        self.outputs.append(outputs)


def small_stream(epochs: int = 4) -> Stream:
    """Three small tasks of real digits."""
    mnist = data.load("mnist-5k")
    train, test = (_first_of_each_class(mnist.parts[part]) for part in ("train", "test"))
    sources = [Source(train, test, c, (0.1307,), (0.3081,)) for c in CLASSES]
    protocol = Protocol(lr=0.05, momentum=0.5, batch_size=16, epochs=epochs)
    return Stream(sources, name="check", backbone="mlp", protocol=protocol, seed=0)


def _first_of_each_class(images: data.Images) -> data.Images:
    rows = [(images.labels == c).nonzero()[0][:IMAGES] for c in range(10)]
    at = sorted(int(i) for part in rows for i in part)
    return data.Images(images.images[at], images.labels[at])


def declares(trial: Trial) -> str:
    """declares a title, a family, a docstring, and a line for each parameter"""
    d = trial.declaration
    missing = [word for word in ("title", "family") if not d.meta.get(word)]
    missing += [] if d.doc else ["a docstring"]
    missing += [f"a docstring below {f.name}" for f in d.fields.values() if not f.doc]
    if missing:
        return f"{d.class_name} lacks {', '.join(missing)}."
    if d.meta["family"] not in FAMILIES:
        return f"family {d.meta['family']!r} must be one of {', '.join(FAMILIES)}."
    live = {f.name: f.default for f in dataclasses.fields(trial.cls)}
    if live != d.defaults:
        return f"defaults at run time {live} differ from those in the source {d.defaults}."
    return ""


def trains(trial: Trial) -> str:
    """learns: its last row is finite and clearly above chance"""
    row = trial.R[-1]
    if len(row) != len(CLASSES):
        return "learn() of the last task must train and return a curve."
    if not all(math.isfinite(value) for value in row):
        return f"accuracies after the last task are {row}."
    chance = 100 / len(CLASSES[-1])
    if row[-1] < chance + 15:
        return f"accuracy on the task just learned is {row[-1]:.0f} %, chance is {chance:.0f} %."
    return ""


def is_deterministic(trial: Trial) -> str:
    """gives the same accuracies, bit for bit, from the same seed"""
    strategy = trial.build()
    again = trial.learn(strategy, 0)
    if again != trial.R:
        return f"the same seed gave {trial.R} and then {again}."
    return "" if _equal_weights(strategy, trial.strategy) else "the same seed gave other weights."


def resumes(trial: Trial) -> str:
    """gives the same results when resumed from a checkpoint"""
    for done in range(1, len(CLASSES)):
        strategy = trial.build()
        try:
            state = torch.load(io.BytesIO(trial.states[done - 1]), weights_only=True)
        except Exception as error:
            return f"state_dict() must hold tensors and plain values only: {error}"
        strategy.load_state_dict(state)
        rows = trial.learn(strategy, done)
        if rows != trial.R[done:] or not _equal_weights(strategy, trial.strategy):
            return (
                f"resumed after task {done}, later accuracies are {rows} instead of "
                f"{trial.R[done:]}, or weights differ: some plugin keeps state that its "
                "state_dict() leaves out."
            )
    return ""


def counts_memory(trial: Trial) -> str:
    """counts its memory: 4 bytes per parameter, and everything that its plugins keep"""
    memory = trial.strategy.memory()
    if memory.architecture < of_model(trial.strategy.model):
        return f"architecture is {memory.architecture} bytes, less than 4 per parameter."
    state = {k: v for k, v in trial.strategy.state_dict().items() if k != "model"}
    # labels and counters (one whole number each) do not count; images of any type do
    kept = of_tensors(t for t in tensors_in(state) if t.is_floating_point() or t.dim() > 1)
    if memory.replay + memory.auxiliary < kept:
        return (
            f"plugins keep {kept} bytes between tasks, but memory() counts "
            f"{memory.replay} of replay and {memory.auxiliary} of auxiliary state."
        )
    return ""


def keeps_its_word(trial: Trial) -> str:
    """does not forget if it guarantees that, and does not change frozen parameters"""
    parameters = dict(trial.strategy.model.named_parameters())
    for k, frozen in enumerate(trial.frozen):
        for name, value in frozen.items():
            if name in parameters and not torch.equal(parameters[name], value):
                return f"{name} was frozen after task {k + 1} and has changed since."
    if cannot_forget(trial.declaration.meta, trial.declaration.defaults):
        for k in range(len(CLASSES) - 1):
            if not torch.equal(trial.outputs[k][k], trial.outputs[-1][k]):
                return f"zero_forgetting is declared, but outputs on task {k + 1} changed later."
    return ""


def leaves_data_alone(trial: Trial) -> str:
    """does not change the images of the stream"""
    for used, fresh in zip(trial.strategy.stream.tasks, trial.images.tasks, strict=True):
        for part in ("train", "valid", "test"):
            a, b = getattr(used, part), getattr(fresh, part)
            if not (torch.equal(a.images, b.images) and torch.equal(a.labels, b.labels)):
                return f"training has changed the {part} images or labels of the stream."
    return ""


CHECKS: tuple[Callable[[Trial], str], ...] = (
    declares, trains, is_deterministic, resumes, counts_memory, keeps_its_word, leaves_data_alone,
)  # fmt: skip


def check(declaration: Declaration) -> Iterator[tuple[str, str]]:
    """Run all checks; yields (the check in words, the violation or an empty string)."""
    torch.set_num_threads(1)
    if reason := import_class(declaration)(**declaration.defaults).refusal(small_stream()):
        raise UserError(f"{declaration.name} cannot run on the stream of the checks: {reason}")
    try:
        trial = Trial(declaration)
    except Exception as error:
        yield str(trains.__doc__), _raised(error)
        return
    for function in CHECKS:
        try:
            violated = function(trial)
        except Exception as error:
            violated = _raised(error)
        yield str(function.__doc__), violated


def _raised(error: Exception) -> str:
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"it raised {type(error).__name__}: {error} ({at.filename}, line {at.lineno})"


def _equal_weights(a: Strategy, b: Strategy) -> bool:
    one, other = a.model.state_dict(), b.model.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)
