"""Finds what a strategy keeps besides its network, by a walk over its attributes.

It answers for methods that do not count their memory themselves, and checks those that do.
"""

import array
import collections
import logging
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from avalanche.benchmarks import CLScenario, CLStream, DatasetExperience
from avalanche.benchmarks.utils import AvalancheDataset
from avalanche.benchmarks.utils.flat_data import FlatData
from avalanche.training.plugins import EvaluationPlugin
from avalanche.training.plugins.clock import Clock
from avalanche.training.templates.base_sgd import PeriodicEval
from torch import Tensor, nn

from clbench.memory import BYTES, Memory
from clbench.stream import Stream, StreamItems
from clbench.training.augment import Augment
from clbench.training.schedule import PlateauSchedule

TRANSIENT = frozenset(
    {
        "adapted_dataset", "clock", "current_eval_stream", "dataloader", "device", "eval_every",
        "eval_mb_size", "evaluator", "experience", "is_training", "loss", "mb_output", "mbatch",
        "model", "optimized_param_id", "optimizer", "plugins", "retain_graph", "train_epochs",
        "train_mb_size", "_distributed_check", "_eval_streams", "_stop_training",
    }
)  # fmt: skip
"""Attributes of Avalanche's strategies: its network, its settings, and what a step works with."""
OURS = (Augment, PlateauSchedule, EvaluationPlugin, PeriodicEval, Clock)
"""Plugins that every strategy may have; they keep nothing of a method's."""
_PASSED = (
    type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType,
    torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler, Stream, CLScenario, CLStream,
    EvaluationPlugin, logging.Logger,
)  # fmt: skip
_WHOLE = (bool, int, np.integer, np.bool_)
_FEW = 10
"""A layer of torch's has settings: numbers, texts, and tuples with fewer numbers than this."""
SETTINGS = 1000
"""Bytes of fractions and texts that do not count: hyper-parameters, one loss per class."""


@dataclass
class Kept:
    """Something that a strategy keeps between tasks."""

    path: str
    """Where it was found, like `ReplayPlugin.storage_policy`."""
    bytes: int
    replay: bool
    """Whether it is samples, or values that belong to samples."""


def parts(strategy: Any) -> dict[str, Any]:
    """The places where a strategy keeps something of its method: its plugins, by class name, and
    its own attributes."""
    found: dict[str, Any] = {}
    for plugin in strategy.plugins:
        if not isinstance(plugin, OURS):
            name = type(plugin).__name__
            found[name if name not in found else f"{name} {len(found) + 1}"] = plugin
    others = TRANSIENT | getattr(strategy, "HARNESS", frozenset())
    if type(strategy._criterion).__module__.startswith("torch."):  # torch's losses learn nothing
        others |= {"_criterion"}
    return found | {name: value for name, value in vars(strategy).items() if name not in others}


def saved_apart(strategy: Any) -> dict[str, Any]:
    """The parts whose state the strategy saves for them: all but plugins that save themselves. A
    network has a `state_dict` too, but that leaves out its other attributes."""
    themselves = {
        id(p) for p in strategy.plugins
        if hasattr(p, "state_dict") and not isinstance(p, nn.Module)
    }  # fmt: skip
    return {name: part for name, part in parts(strategy).items() if id(part) not in themselves}


def find(roots: Mapping[str, Any], model: nn.Module, stream: Stream) -> list[Kept]:
    """What is reachable from the roots: tensors, arrays, networks and samples, each once.

    The network's own parameters and buffers, optimizers and the stream itself do not count, nor
    does what an object names in `derived`: attributes that it can compute again from the rest.

    Labels, indices and counters do not count: whole numbers in flat tensors or containers, up to
    two for each image that the stream learns from. Neither do settings: up to 1000 bytes of
    fractions, texts and bytes. If there are more, all of them count.
    """
    walk = _walked(roots, model, stream)
    images = sum(len(task.train) + len(task.valid) for task in stream.tasks)
    if sum(walk.whole.values()) > 2 * BYTES * images:
        walk.loose += walk.whole
    if sum(walk.loose.values()) > SETTINGS:
        for name, size in walk.loose.items():
            walk.found.append(Kept(f"numbers and texts in {name}", size, False))
    return walk.found


def derived(
    roots: Mapping[str, Any], model: nn.Module, stream: Stream
) -> list[tuple[Any, str, str]]:
    """The attributes that objects name in `derived`: each with its object and its path."""
    return _walked(roots, model, stream).derived


def _walked(roots: Mapping[str, Any], model: nn.Module, stream: Stream) -> "_Walk":
    walk = _Walk(model, stream)
    for walk.root, root in roots.items():
        walk.visit(root, walk.root)
    return walk


def memory_of(found: Iterable[Kept]) -> Memory:
    """The sums."""
    listed = list(found)
    replay = sum(kept.bytes for kept in listed if kept.replay)
    return Memory(replay=replay, auxiliary=sum(kept.bytes for kept in listed) - replay)


@dataclass
class _Walk:
    model: nn.Module
    stream: Stream
    found: list[Kept] = field(default_factory=list)
    derived: list[tuple[Any, str, str]] = field(default_factory=list)
    root: str = ""
    whole: collections.Counter[str] = field(default_factory=collections.Counter)
    """Bytes of labels and counters, by root."""
    loose: collections.Counter[str] = field(default_factory=collections.Counter)
    """Bytes of fractions and texts, by root."""

    def __post_init__(self) -> None:
        own = [*self.model.parameters(), *self.model.buffers()]
        self.storages = {tensor.untyped_storage().data_ptr() for tensor in own}
        self.seen: dict[int, Any] = {id(self.model): self.model}  # keeps what it saw alive
        self.samples: set[tuple[int, int]] = set()

    def visit(self, value: Any, path: str) -> None:
        if value is None or isinstance(value, _PASSED) or self._is_small(value):
            return
        if id(value) in self.seen:
            return
        self.seen[id(value)] = value
        if isinstance(value, Tensor):
            self._tensor(value, path)
        elif isinstance(value, np.ndarray):
            if value.dtype.kind in "biufc":
                self._tensor(torch.from_numpy(value), path)
            elif value.dtype.kind == "O":
                self.visit(value.tolist(), path)
            else:
                self.loose[self.root] += value.nbytes
        elif isinstance(value, nn.Module):
            for name, tensor in [*value.named_parameters(), *value.named_buffers()]:
                self.visit(tensor, f"{path}.{name}")
            for name, part in value.named_modules():
                self._attributes(part, f"{path}.{name}".rstrip("."), skip=_MODULE)
        elif isinstance(value, AvalancheDataset | FlatData | torch.utils.data.Subset):
            self._samples(value, path)
        elif isinstance(value, DatasetExperience):
            self.visit(value.dataset, f"{path}.dataset")
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                if not isinstance(key, str):
                    self.visit(key, path)
                self.visit(inner, f"{path}[{key!r}]")
        elif isinstance(value, list | tuple | set | frozenset | collections.deque):
            for at, inner in enumerate(value):
                self.visit(inner, f"{path}[{at}]")
        else:
            self._attributes(value, path)

    def _is_small(self, value: Any) -> bool:
        """Whether it is a number or a text; these are added up."""
        if isinstance(value, _WHOLE):
            self.whole[self.root] += BYTES
        elif isinstance(value, float | complex | np.generic):
            self.loose[self.root] += BYTES
        elif isinstance(value, str | bytes | bytearray):
            self.loose[self.root] += len(value)
        elif isinstance(value, memoryview):
            self.loose[self.root] += value.nbytes
        elif isinstance(value, array.array):
            self.loose[self.root] += BYTES * len(value)
        else:
            return False
        return True

    def _attributes(self, value: Any, path: str, skip: frozenset[str] = frozenset()) -> None:
        names = {*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())}
        named = getattr(value, "derived", ())
        derived = {*(named if isinstance(named, tuple) else ())}
        self.derived += [(value, name, f"{path}.{name}") for name in sorted(names & derived)]
        layer = isinstance(value, nn.Module) and type(value).__module__.startswith("torch.")
        for name in sorted(names - skip - derived):
            attribute = getattr(value, name, None)
            if not (layer and _is_setting(attribute)):
                self.visit(attribute, f"{path}.{name}")

    def _tensor(self, tensor: Tensor, path: str) -> None:
        storage = tensor.untyped_storage().data_ptr()
        if storage in self.storages:
            return
        self.storages.add(storage)
        fractions = tensor.is_floating_point() or tensor.is_complex()
        if not fractions and tensor.dim() < 2:
            self.whole[self.root] += BYTES * tensor.numel()
        else:
            sample = tuple(tensor.shape[-len(self.stream.input_shape) :])
            self._add(path, tensor.numel(), sample == self.stream.input_shape)

    def _samples(self, data: Any, path: str) -> None:
        """Samples of a data set; those that two data sets share count once."""
        count = 0
        for leaf, row in leaves(data):
            if isinstance(leaf, StreamItems):  # a data set may have the same image in two tasks
                leaf = leaf.split
            if (id(leaf), row) not in self.samples:
                self.samples.add((id(leaf), row))
                self.seen[id(leaf)] = leaf
                count += 1
        self._add(path, count * int(np.prod(self.stream.input_shape)), True)
        for name, attribute in getattr(data, "_data_attributes", {}).items():
            for leaf, row in leaves(attribute.data) if name not in LABELS else ():
                value = leaf[row]
                if not isinstance(value, Tensor):
                    self.visit(value, f"{path}.{name}")
                elif id(value) not in self.seen:
                    self.seen[id(value)] = value
                    self._add(f"{path}.{name}", value.numel(), True)

    def _add(self, path: str, numbers: int, replay: bool) -> None:
        if numbers:
            self.found.append(Kept(path, BYTES * numbers, replay))


def _is_setting(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return len(value) < _FEW and all(isinstance(part, int | float) for part in value)
    return isinstance(value, int | float | str)


LABELS = ("targets", "targets_task_labels")
_MODULE = frozenset(vars(nn.Module()))


def leaves(data: Any, rows: Iterable[int] | None = None) -> Iterator[tuple[Any, int]]:
    """The data sets below a data set, with the row of each of its samples, in its order."""
    wanted: Iterable[int] = range(len(data)) if rows is None else rows
    if isinstance(data, AvalancheDataset):
        yield from leaves(data._flat_data, wanted)
    elif isinstance(data, torch.utils.data.Subset):
        yield from leaves(data.dataset, [int(data.indices[row]) for row in wanted])
    elif isinstance(data, FlatData):
        for row in wanted:
            at, inside = data._get_idx(row)
            yield from leaves(data._datasets[at], [inside])
    else:
        yield from ((data, int(row)) for row in wanted)
