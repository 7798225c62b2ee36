"""The checks of the contract: a method learns, repeats, resumes, counts, and keeps its word.

Each check is one function. It returns an empty string, a sentence that names the violation, or a
`Remark`.
"""

import dataclasses
import io
import math

import torch

from clbench.checkpoint import tensors_in
from clbench.conformance.finding import Remark
from clbench.conformance.trial import CLASSES, Trial, equal_weights
from clbench.declare import cannot_forget
from clbench.memory import of_model, of_tensors
from clbench.registry import FAMILIES
from clbench.training import StockStrategy
from clbench.training.kept import Kept, find, parts
from clbench.training.state import NotResumable


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
    if row[-1] < trial.chance + 15:
        of = f"accuracy on the task just learned is {row[-1]:.0f} %"
        return f"{of}, chance is {trial.chance:.0f} %."
    return ""


def is_deterministic(trial: Trial) -> str:
    """gives the same accuracies, bit for bit, from the same seed"""
    strategy = trial.build()
    again = trial.learn(strategy, 0)
    if again != trial.R:
        return f"the same seed gave {trial.R} and then {again}."
    return "" if equal_weights(strategy, trial.strategy) else "the same seed gave other weights."


def resumes(trial: Trial) -> str:
    """gives the same results when resumed from a checkpoint"""
    for done in range(1, len(CLASSES)):
        saved = trial.states[done - 1]
        if isinstance(saved, NotResumable):
            return Remark(f"It is not resumable: {saved}. A run that is interrupted starts again.")
        strategy = trial.build()
        try:
            state = torch.load(io.BytesIO(saved), weights_only=True)
        except Exception as error:
            return f"state_dict() must hold tensors and plain values only: {error}"
        try:
            strategy.load_state_dict(state)
        except NotResumable as reason:
            return Remark(f"It is not resumable: {reason}. A run that is interrupted starts again.")
        rows = trial.learn(strategy, done)
        if rows != trial.R[done:] or not equal_weights(strategy, trial.strategy):
            return (
                f"resumed after task {done}, later accuracies are {rows} instead of "
                f"{trial.R[done:]}, or weights differ: some plugin keeps state that its "
                "state_dict() leaves out."
            )
    return ""


def counts_memory(trial: Trial) -> str:
    """counts its memory: 4 bytes per parameter, and everything that it keeps between tasks"""
    strategy, memory = trial.strategy, trial.strategy.memory()
    if memory.architecture < of_model(strategy.model):
        return f"architecture is {memory.architecture} bytes, less than 4 per parameter."
    roots = parts(strategy.strategy if isinstance(strategy, StockStrategy) else strategy)
    found = find(roots, strategy.model, strategy.stream)
    total, counted = sum(kept.bytes for kept in found), memory.replay + memory.auxiliary
    states = [p.state_dict() for p in strategy.plugins if hasattr(p, "state_dict")]
    tensors = (t for t in tensors_in(states) if t.is_floating_point() or t.dim() > 1)
    if (more := of_tensors(tensors) - total) > 0:
        found.append(Kept("state_dict() of its plugins", more, True))
        total += more
    largest = sorted(found, key=lambda kept: -kept.bytes)[:3]
    where = ", ".join(f"{kept.path} ({kept.bytes} bytes)" for kept in largest)
    if counted < total:
        return (
            f"it keeps {total} bytes between tasks, the largest in {where}, but memory() counts "
            f"{memory.replay} of replay and {memory.auxiliary} of auxiliary state."
        )
    if strategy.found():
        names = ", ".join(strategy.uncounted())
        return Remark(f"{names}: no memory(). clbench found {total} bytes: {where}.")
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
