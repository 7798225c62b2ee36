"""Saves the state of plugins and strategies that cannot save themselves, without pickle.

`save` walks over attributes: numbers, texts, containers, tensors, networks, generators, optimizers,
Avalanche's data sets (as rows of the stream) and plain objects. `load`, in `state_load.py`, puts
the values into a strategy that was built afresh. What cannot be expressed raises `NotResumable`: a
run then starts again after an interruption, and never goes on from a part of its state.
"""

import collections
import logging
import random
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from avalanche.benchmarks.utils import AvalancheDataset
from avalanche.benchmarks.utils.flat_data import FlatData
from torch import Tensor, nn

from clbench.stream import Stream, StreamItems
from clbench.training.kept import LABELS, leaves

Node = tuple[Any, ...]
"""A saved value: its kind, then what the kind needs. A value that may stand in several places has a
number after its kind, and later places say `("again", number)`."""
PLAIN = (bool, int, float, str, type(None))
CONTAINERS = (list, tuple, set, frozenset, collections.deque)
MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict)
FACTORIES = {kind.__name__: kind for kind in (list, dict, set, int, float)}
CODE = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, type, types.ModuleType,
    logging.Logger,
)  # fmt: skip
INNER = frozenset(vars(nn.Module()))
"""Attributes that every network has."""


class NotResumable(Exception):
    """What cannot be saved or put back, and where it is."""


def live(strategy: Any, stream: Stream) -> dict[str, Any]:
    """The objects that a state refers to by name, because a fresh strategy has them too."""
    named: dict[str, Any] = {"strategy": strategy, "stream": stream, "model": strategy.model}
    named |= {f"parameter {n}": p for n, p in strategy.model.named_parameters()}
    named |= {f"buffer {n}": b for n, b in strategy.model.named_buffers()}
    for part in ("train", "valid", "test"):
        for k, experience in enumerate(getattr(stream.avalanche, f"{part}_stream", ())):
            named[f"{part} {k}"] = experience
            named[f"data {part} {k}"] = experience.dataset
    return named


def save(roots: dict[str, Any], strategy: Any, stream: Stream) -> Node:
    """The state of some objects, by name; a NotResumable names what cannot be saved."""
    return Saver(live(strategy, stream)).node(roots, "")


def network_state(model: nn.Module) -> dict[str, dict[str, Any]]:
    """What a network has besides its tensors: what learns in it, and attributes of its parts."""
    return {
        "learns": {name: p.requires_grad for name, p in model.named_parameters()},
        "attributes": {name: _extra(part) for name, part in model.named_modules()},
    }


def _extra(part: nn.Module) -> dict[str, Any]:
    return {name: value for name, value in vars(part).items() if name not in INNER}


class Saver:
    """Makes nodes of values."""

    def __init__(self, named: dict[str, Any]) -> None:
        self.names = {id(value): name for name, value in named.items()}
        self.numbers: dict[int, int] = {}
        self.alive: list[Any] = []  # an id is only good while its object lives
        tensors = [value for value in named.values() if isinstance(value, Tensor)]
        self.storages = {t.untyped_storage().data_ptr() for t in tensors if t.numel()}

    def node(self, value: Any, path: str) -> Node:
        if type(value) in PLAIN:
            return ("plain", value)
        if id(value) in self.names:
            return ("live", self.names[id(value)])
        if id(value) in self.numbers:
            return ("again", self.numbers[id(value)])
        if isinstance(value, CODE):
            if getattr(value, "__closure__", None):
                raise NotResumable(f"{path} is a function that keeps values of its own")
            owner = getattr(value, "__self__", None)
            known = id(owner) in self.names or id(owner) in self.numbers
            if not (owner is None or known or isinstance(owner, type | types.ModuleType)):
                raise NotResumable(f"{path} is a method of an object that is not saved")
            defaults = getattr(value, "__defaults__", None) or ()
            if not all(type(d) in PLAIN or isinstance(d, (*CODE, tuple)) for d in defaults):
                raise NotResumable(f"{path} is a function whose defaults may change")
            return ("code", code_name(value))
        self.numbers[id(value)] = number = len(self.numbers)
        self.alive.append(value)
        for kinds, kind, saver in _SAVERS:
            if type(value) in kinds if isinstance(kinds, tuple) else isinstance(value, kinds):
                return (kind, number, *saver(self, value, path))
        return ("object", number, *_object(self, value, path))

    def tensor(self, value: Tensor, path: str) -> Tensor:
        """The numbers of a tensor, which no other value may share."""
        if value.grad_fn is not None:
            raise NotResumable(f"{path} is a tensor with a gradient history")
        storage = value.untyped_storage().data_ptr()
        if value.numel() and storage in self.storages:
            raise NotResumable(f"{path} shares its memory with another tensor")
        self.storages.add(storage)
        return value.detach().clone()


def _tensor(saver: Saver, value: Tensor, path: str) -> Node:
    return saver.tensor(value, path), value.requires_grad, isinstance(value, nn.Parameter)


def _array(saver: Saver, value: Any, path: str) -> Node:
    if value.dtype.kind not in "biuf":
        raise NotResumable(f"{path} is an array of {value.dtype}")
    return (torch.from_numpy(np.array(value)), isinstance(value, np.generic))


def _module(saver: Saver, value: nn.Module, path: str) -> Node:
    number = saver.numbers[id(value)]
    for name, tensor in [*value.named_parameters(), *value.named_buffers()]:
        saver.names.setdefault(id(tensor), f"{number} {name}")
        saver.storages.add(tensor.untyped_storage().data_ptr())
    tensors = {name: tensor.detach().clone() for name, tensor in value.state_dict().items()}
    modes = [part.training for part in value.modules()]
    return class_name(value), tensors, modes, saver.node(network_state(value), path)


def _generator(saver: Saver, value: torch.Generator, path: str) -> Node:
    return (value.get_state(),)


def _random(saver: Saver, value: random.Random, path: str) -> Node:
    return (saver.node(value.getstate(), path),)


def _numpy(saver: Saver, value: np.random.Generator, path: str) -> Node:
    return (saver.node(value.bit_generator.state, path),)


def _mapping(saver: Saver, value: Any, path: str) -> Node:
    factory = getattr(value, "default_factory", None)
    if factory not in (None, *FACTORIES.values()):
        raise NotResumable(f"{path} is a defaultdict of {factory}")
    items = [
        (saver.node(key, path), saver.node(inner, join(path, key))) for key, inner in value.items()
    ]
    return type(value).__name__, getattr(factory, "__name__", ""), items


def _container(saver: Saver, value: Any, path: str) -> Node:
    items = [saver.node(inner, join(path, at)) for at, inner in enumerate(value)]
    return type(value).__name__, getattr(value, "maxlen", None), items


def _optimizer(saver: Saver, value: torch.optim.Optimizer, path: str) -> Node:
    name = type(value).__name__
    if optimizer_class(name) is not type(value):
        raise NotResumable(f"{path} is a {name}, which is no optimizer of torch")
    groups = saver.node(value.param_groups, join(path, "param_groups"))
    return name, groups, saver.node(dict(value.state), join(path, "state"))


def _dataset(saver: Saver, value: AvalancheDataset[Any], path: str) -> Node:
    """Rows of the stream's tasks, and the columns that a method attached to them."""
    places = list(leaves(value))
    if not all(isinstance(leaf, StreamItems) for leaf, _ in places):
        raise NotResumable(f"{path} has samples that are not of the stream")
    if any(_groups_of(value._flat_data)):
        raise NotResumable(f"{path} is a data set with transforms")
    used = list(dict.fromkeys((leaf.part, leaf.split.task) for leaf, _ in places))
    at = {place: i for i, place in enumerate(used)}
    rows = torch.tensor([(at[leaf.part, leaf.split.task], row) for leaf, row in places])
    more = []
    for name, column in value._data_attributes.items():
        if name not in LABELS:
            values = [column[i] for i in range(len(column))]
            more.append((name, column.use_in_getitem, _column(saver, values, join(path, name))))
    return used, rows, more


def _column(saver: Saver, values: list[Any], path: str) -> Node:
    """A tensor of all rows where that can be: thousands of small ones would be slow."""
    if values and all(isinstance(v, Tensor) and v.shape == values[0].shape for v in values):
        return ("stacked", torch.stack(values).detach())
    return saver.node(values, path)


def _stateful(saver: Saver, value: Any, path: str) -> Node:
    return class_name(value), saver.node(value.state_dict(), path)


def _value(saver: Saver, value: Any, path: str) -> Node:
    return (list(value) if isinstance(value, torch.Size) else str(value),)


def _object(saver: Saver, value: Any, path: str) -> Node:
    cls = type(value)
    slots = any(vars(c).get("__slots__") for c in cls.__mro__)
    # what is built on a type of C, like a Counter or a partial, keeps more than its attributes
    if cls.__new__ is not object.__new__ or slots or not hasattr(value, "__dict__"):
        raise NotResumable(f"{path} is a {cls.__name__}, which clbench cannot save")
    if isinstance(value, Iterator | torch.utils.data.DataLoader):
        raise NotResumable(f"{path} is a {cls.__name__}, whose position cannot be saved")
    return class_name(value), {k: saver.node(v, join(path, k)) for k, v in vars(value).items()}


_SAVERS: tuple[tuple[Any, str, Callable[..., Node]], ...] = (
    (Tensor, "tensor", _tensor),
    (np.ndarray | np.generic, "array", _array),
    (torch.optim.Optimizer, "optimizer", _optimizer),
    (torch.optim.lr_scheduler.LRScheduler, "stateful", _stateful),
    (nn.Module, "module", _module),
    (torch.Generator, "generator", _generator),
    ((random.Random,), "random", _random),
    (np.random.Generator, "numpy", _numpy),
    (AvalancheDataset, "dataset", _dataset),
    (MAPPINGS, "mapping", _mapping),
    (CONTAINERS, "container", _container),
    (torch.Size, "size", _value),
    (torch.device, "device", _value),
    (torch.dtype, "dtype", _value),
)
"""(types, kind, how it is saved); of a tuple of types, subclasses do not count."""


def class_name(value: Any) -> str:
    return f"{type(value).__module__}:{type(value).__qualname__}"


def code_name(value: Any) -> str:
    """What tells a function or class from another one."""
    name = getattr(value, "__qualname__", getattr(value, "__name__", ""))
    line = getattr(getattr(value, "__code__", None), "co_firstlineno", 0)
    return f"{getattr(value, '__module__', '')}:{name}:{line}"


def optimizer_class(name: str) -> Any:
    """Torch's optimizer of that name; None if there is none."""
    found = vars(torch.optim).get(name)
    return found if isinstance(found, type) and issubclass(found, torch.optim.Optimizer) else None


def join(path: str, inside: Any) -> str:
    return f"{path}.{inside}".strip(".")


def _groups_of(data: Any) -> Iterator[Any]:
    """All transforms of a data set and of those below it."""
    if isinstance(data, FlatData):
        for groups in (
            getattr(data, f"{kind}transform_groups", None) for kind in ("_", "_frozen_")
        ):
            yield from groups.transform_groups.values() if groups is not None else ()
        for part in data._datasets:
            yield from _groups_of(part)
