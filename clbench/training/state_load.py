"""Puts a state that `state.py` saved into a strategy that was built afresh.

A state may come from somebody else's checkpoint: classes and functions are never looked up by the
names in it. They are those of the fresh strategy, of torch's optimizers and of Avalanche's buffers.
"""

import collections
import copy
import random
from collections.abc import Callable
from typing import Any

import avalanche.training.storage_policy
import avalanche.training.utils
import numpy as np
import torch
from avalanche.benchmarks.utils import make_avalanche_dataset
from avalanche.benchmarks.utils.data_attribute import DataAttribute
from avalanche.benchmarks.utils.flat_data import FlatData
from avalanche.benchmarks.utils.utils import concat_datasets
from torch import Tensor, nn

from clbench.stream import Stream
from clbench.training.state import (
    CODE,
    CONTAINERS,
    FACTORIES,
    MAPPINGS,
    Node,
    NotResumable,
    Saver,
    class_name,
    code_name,
    join,
    live,
    network_state,
    optimizer_class,
)

_DTYPES = {str(value): value for value in vars(torch).values() if isinstance(value, torch.dtype)}
_AVALANCHE = {
    module.__name__: module
    for module in (avalanche.training.storage_policy, avalanche.training.utils)
}
"""The modules whose classes a state may name."""
_MISSING: Any = object()
"""What the fresh strategy has where it has nothing."""


def load(roots: dict[str, Any], state: Node, strategy: Any, stream: Stream) -> dict[str, Any]:
    """The fresh objects of `roots` with a saved state; a NotResumable if that is impossible."""
    named = live(strategy, stream)
    loaded: dict[str, Any] = Loader(named).value(state, roots, "")
    if not same(Saver(named).node(loaded, ""), state):
        raise NotResumable("what was put back is not what was saved")
    return loaded


class Loader:
    """Makes values of nodes. `fresh` is what stands in the same place of the fresh strategy."""

    def __init__(self, named: dict[str, Any]) -> None:
        self.named = named
        self.made: dict[int, Any] = {}

    def value(self, node: Node, fresh: Any, path: str) -> Any:
        kind, *rest = node
        if kind == "plain":
            return rest[0]
        if kind == "live":
            return self._live(rest[0])
        if kind == "again":
            return self.made[rest[0]]
        if kind == "stacked":
            return [row.clone() for row in rest[0]]
        if kind == "code":
            found = fresh if isinstance(fresh, CODE) else torch.zeros  # as in Avalanche's ParamData
            if code_name(found) != rest[0]:
                raise NotResumable(f"{path} is the function or class {rest[0]}")
            return found
        number, *rest = rest
        return _LOADERS[kind](self, number, fresh, path, *rest)

    def keep(self, number: int, made: Any) -> Any:
        self.made[number] = made
        return made

    def _live(self, name: str) -> Any:
        number, _, inside = name.partition(" ")
        if not number.isdecimal():
            return self.named[name]
        module = self.made[int(number)]
        return dict([*module.named_parameters(), *module.named_buffers()])[inside]


def put_back(strategy: Any, loaded: dict[str, Any]) -> None:
    """Give a strategy its own attributes out of what was loaded, and its network's."""
    for name, value in loaded.items():
        if name == "network":
            _put_into(strategy.model, value)
        elif not any(value is plugin for plugin in strategy.plugins):
            setattr(strategy, name, value)  # also one that the method makes while it trains


def _put_into(network: nn.Module, state: dict[str, Any]) -> None:
    for name, learns in state["learns"].items():
        network.get_parameter(name).requires_grad_(learns)
    for name, values in state["attributes"].items():
        vars(network.get_submodule(name)).update(values)


def _tensor(
    loader: Loader, number: int, fresh: Any, path: str, value: Tensor, grad: bool, own: bool
) -> Tensor:
    value = value.clone()  # a checkpoint is mapped, and must not be written to
    made = nn.Parameter(value, grad) if own else value.requires_grad_(grad)
    return loader.keep(number, made)


def _array(loader: Loader, number: int, fresh: Any, path: str, value: Tensor, scalar: bool) -> Any:
    made = value.clone().numpy()
    return loader.keep(number, made[()] if scalar else made)


def _module(
    loader: Loader, number: int, fresh: Any, path: str, name: str, tensors: dict[str, Tensor],
    modes: list[bool], more: Node,
) -> nn.Module:  # fmt: skip
    if class_name(fresh) != name:
        fresh = loader.named["model"]
        if class_name(fresh) != name:
            raise NotResumable(f"{path} is a network that the method makes while it trains")
        fresh = copy.deepcopy(fresh)
    module: nn.Module = loader.keep(number, fresh)
    module.load_state_dict(tensors)
    for part, mode in zip(module.modules(), modes, strict=True):
        part.training = mode
    _put_into(module, loader.value(more, network_state(module), path))
    return module


def _generator(loader: Loader, number: int, fresh: Any, path: str, state: Tensor) -> Any:
    made = fresh if isinstance(fresh, torch.Generator) else torch.Generator()
    made.set_state(state.clone())
    return loader.keep(number, made)


def _random(loader: Loader, number: int, fresh: Any, path: str, state: Node) -> random.Random:
    made: random.Random = loader.keep(
        number, fresh if type(fresh) is random.Random else random.Random()
    )
    made.setstate(loader.value(state, _MISSING, path))
    return made


def _numpy(loader: Loader, number: int, fresh: Any, path: str, state: Node) -> Any:
    if not isinstance(fresh, np.random.Generator):
        raise NotResumable(f"{path} is a generator that the method makes while it trains")
    fresh.bit_generator.state = loader.value(state, _MISSING, path)
    return loader.keep(number, fresh)


def _mapping(
    loader: Loader, number: int, fresh: Any, path: str, name: str, factory: str, items: list[Any]
) -> Any:
    kind = {cls.__name__: cls for cls in MAPPINGS}[name]
    old = dict(fresh) if isinstance(fresh, dict) else {}
    made = loader.keep(number, fresh if type(fresh) is kind else kind())
    if factory:
        made.default_factory = FACTORIES[factory]
    made.clear()
    for key_node, node in items:
        key = loader.value(key_node, _MISSING, path)
        made[key] = loader.value(node, old.get(key, _MISSING), join(path, key))
    return made


def _container(
    loader: Loader,
    number: int,
    fresh: Any,
    path: str,
    name: str,
    most: int | None,
    items: list[Any],
) -> Any:
    kind: Any = {cls.__name__: cls for cls in CONTAINERS}[name]
    old = list(fresh) if type(fresh) in (list, tuple) else []
    made = loader.keep(number, fresh if type(fresh) is kind is list else kind())
    if kind is list:
        made.clear()
    values = [
        loader.value(node, old[at] if at < len(old) else _MISSING, join(path, at))
        for at, node in enumerate(items)
    ]
    if kind is list:  # a list may contain itself
        made.extend(values)
        return made
    return loader.keep(number, kind(values, most) if most is not None else kind(values))


def _optimizer(
    loader: Loader, number: int, fresh: Any, path: str, name: str, groups: Node, state: Node
) -> Any:
    kind = optimizer_class(name)
    if kind is None:
        raise NotResumable(f"{path} is a {name}, which is no optimizer of torch")
    fits = type(fresh) is kind
    made = loader.keep(number, fresh if fits else kind([nn.Parameter(torch.zeros(1))], lr=0.1))
    made.param_groups = loader.value(groups, _MISSING, path)
    made.state = collections.defaultdict(dict, loader.value(state, _MISSING, path))
    return made


def _dataset(
    loader: Loader, number: int, fresh: Any, path: str, used: list[Any], rows: Tensor,
    more: list[Any],
) -> Any:  # fmt: skip
    bases = [loader.named[f"data {part} {task}"] for part, task in used]
    starts = torch.tensor([0, *map(len, bases)]).cumsum(0)
    made = concat_datasets(bases)
    if bases:
        made = made.subset((starts[rows[:, 0]] + rows[:, 1]).tolist())
    for name, in_item, node in more:
        values = FlatData(
            [loader.value(node, _MISSING, path)], discard_elements_not_in_indices=True
        )
        column = DataAttribute(values, name=name, use_in_getitem=in_item)
        made = make_avalanche_dataset(made, data_attributes=[column])
    return loader.keep(number, made)


def _stateful(loader: Loader, number: int, fresh: Any, path: str, name: str, state: Node) -> Any:
    if class_name(fresh) != name:
        raise NotResumable(f"{path} is a {name}, which the method makes while it trains")
    fresh.load_state_dict(loader.value(state, _MISSING, path))
    return loader.keep(number, fresh)


def _object(
    loader: Loader, number: int, fresh: Any, path: str, name: str, attributes: dict[str, Node]
) -> Any:
    if class_name(fresh) != name:
        fresh = _bare(name, path)
    made, old = loader.keep(number, fresh), dict(vars(fresh))
    values = {
        key: loader.value(node, old.get(key, _MISSING), join(path, key))
        for key, node in attributes.items()
    }
    vars(made).clear()
    vars(made).update(values)
    return made


def _bare(name: str, path: str) -> Any:
    """A buffer or a holder of parameters of Avalanche's without its attributes; no other class is
    made from a name."""
    module, _, cls = name.partition(":")
    kind = vars(_AVALANCHE.get(module, collections)).get(cls)
    if not isinstance(kind, type) or kind.__module__ != module or module not in _AVALANCHE:
        raise NotResumable(f"{path} is a {cls}, which the method makes while it trains")
    return object.__new__(kind)


def _size(loader: Loader, number: int, fresh: Any, path: str, value: list[int]) -> torch.Size:
    size: torch.Size = loader.keep(number, torch.Size(value))
    return size


def _device(loader: Loader, number: int, fresh: Any, path: str, value: str) -> torch.device:
    device: torch.device = loader.keep(number, torch.device(value))
    return device


def _dtype(loader: Loader, number: int, fresh: Any, path: str, value: str) -> torch.dtype:
    dtype: torch.dtype = loader.keep(number, _DTYPES[value])
    return dtype


_LOADERS: dict[str, Callable[..., Any]] = {
    "tensor": _tensor,
    "array": _array,
    "module": _module,
    "generator": _generator,
    "random": _random,
    "numpy": _numpy,
    "mapping": _mapping,
    "container": _container,
    "optimizer": _optimizer,
    "dataset": _dataset,
    "stateful": _stateful,
    "object": _object,
    "size": _size,
    "device": _device,
    "dtype": _dtype,
}


def same(a: Any, b: Any) -> bool:
    """Whether two states are equal, in every bit."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and bool(torch.equal(a.cpu(), b.cpu()))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and bool(a == b or (a != a and b != b))
