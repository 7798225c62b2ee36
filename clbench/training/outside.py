"""State that a saved state cannot hold: values of modules and classes, hooks of the network.

It is compared when a run resumes, not put back: if training has changed it, the run starts again.
"""

import sys
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clbench.training.state import NotResumable, Saver, live
from clbench.training.state_load import same

VALUES = (
    bool, int, float, str, list, dict, set, deque, Tensor, np.ndarray, torch.Generator,
    np.random.Generator,
)  # fmt: skip
LIBRARIES = frozenset({"avalanche", "builtins", "clbench", "numpy", "torch"})
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def outside(strategy: Any, stream: Any) -> Any:
    """The values of the method's modules and classes, the loss, and the hooks of the network."""
    tops = {
        cls.__module__.partition(".")[0]
        for part in (strategy, *strategy.plugins)
        for cls in type(part).__mro__
    }
    found: dict[str, Any] = {}
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] not in tops - LIBRARIES - sys.stdlib_module_names:
            continue
        values = vars(module) if isinstance(module, types.ModuleType) else {}
        found |= {f"{name}.{key}": value for key, value in _plain(values)}
        for cls in [v for v in values.values() if isinstance(v, type) and v.__module__ == name]:
            found |= {f"{name}.{cls.__name__}.{key}": value for key, value in _plain(vars(cls))}
    modules = dict(strategy.model.named_modules())
    hooks = {n: [len(getattr(part, kind)) for kind in HOOKS] for n, part in modules.items()}
    tensor_hooks = {n: len(p._backward_hooks or ()) for n, p in strategy.model.named_parameters()}
    found |= {"hooks": hooks, "hooks of parameters": tensor_hooks}
    if type(strategy._criterion).__module__.startswith("torch."):
        found["_criterion"] = strategy._criterion
    return Saver(live(strategy, stream)).node(found, "")


def _plain(values: Any) -> Iterator[tuple[str, Any]]:
    for key, value in sorted(values.items()):
        if isinstance(value, VALUES) and not (key.startswith("__") and key.endswith("__")):
            yield key, value


def compare(strategy: Any, stream: Any, saved: Any) -> None:
    """A NotResumable if what is outside a fresh strategy is not what was saved."""
    if not same(outside(strategy, stream), saved):
        raise NotResumable(
            "training changes a value of a module or a class, the loss, or hooks of the network"
        )
