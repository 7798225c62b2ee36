"""State that a saved state cannot hold: values of modules and classes, hooks of the network.

It is compared, not put back: if training has changed it, the run starts again after a stop.
"""

import enum
import sys
import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clbench.training.state import Node, NotResumable, Saver, code_name, live
from clbench.training.state_load import same

VALUES = (
    bool, int, float, str, list, dict, set, deque, Tensor, np.ndarray, torch.Generator,
    np.random.Generator, nn.Module,
)  # fmt: skip
LIBRARIES = frozenset({"avalanche", "builtins", "clbench", "numpy", "torch"})
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def packages(strategy: Any, *others: type) -> set[str]:
    """The top-level packages and modules of a strategy, its plugins and other classes."""
    kinds = [*(type(part) for part in (strategy, *strategy.plugins)), *others]
    tops = {_top(cls.__module__) for kind in kinds for cls in kind.__mro__}
    return tops - LIBRARIES - sys.stdlib_module_names


def outside(strategy: Any, stream: Any, tops: set[str]) -> Node:
    """The values of modules, and of their classes and functions, in some packages; the loss, and
    the hooks of the network."""
    found: dict[str, Any] = {
        name: dict(_values(vars(module), name, tops))
        for name, module in sorted(sys.modules.items())
        if _top(name) in tops and isinstance(module, types.ModuleType)
    }
    parts: list[tuple[str, Any]] = [*strategy.model.named_modules()]
    counts = [(name, sum(len(getattr(part, kind)) for kind in HOOKS)) for name, part in parts]
    parameters = strategy.model.named_parameters()
    counts += [(name, len(p._backward_hooks or ())) for name, p in parameters]
    found["hooks"] = [pair for pair in counts if pair[1]]  # a network may grow without hooks
    if type(strategy._criterion).__module__.startswith("torch."):
        found["_criterion"] = strategy._criterion
    return _Outside(live(strategy, stream)).node(found, "")


def compare(now: Node, before: Node) -> None:
    """A NotResumable if what is outside the strategy is not what it was."""
    if not same(now, before):
        raise NotResumable(
            "training changes a value of a module or a class, the loss, or hooks of the network"
        )


def _top(name: str) -> str:
    return name.partition(".")[0]


def _values(space: Mapping[str, Any], module: str, tops: set[str]) -> Iterator[tuple[str, Any]]:
    """What may change in a module or a class: values, objects of its own classes, and what its
    functions and classes keep."""
    for key, value in sorted(space.items()):
        own = getattr(value, "__module__", "") == module
        if isinstance(value, types.FunctionType):
            if own:
                kept = value if value.__closure__ else None
                yield key, [value.__defaults__, value.__kwdefaults__, vars(value), kept]
        elif key.startswith("__") and key.endswith("__"):
            continue
        elif isinstance(value, type):
            if own and not issubclass(value, enum.Enum):
                yield key, dict(_values(vars(value), module, tops))
        elif isinstance(value, VALUES) or _top(type(value).__module__) in tops:
            yield key, value


class _Outside(Saver):
    """Saves what is compared only: also what functions keep of the place where they were made."""

    def node(self, value: Any, path: str) -> Node:
        if isinstance(value, enum.Enum):
            return ("enum", str(value))
        if not isinstance(value, types.FunctionType) or id(value) in self.numbers:
            return super().node(value, path)
        self.numbers[id(value)] = len(self.numbers)
        self.alive.append(value)
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != _EMPTY]
        return ("function", code_name(value), [self.node(cell, path) for cell in cells])


_EMPTY = types.CellType()
