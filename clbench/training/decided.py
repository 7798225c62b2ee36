"""What a method's strategy decided instead of the protocol, in words for the record and the row."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from avalanche.training.templates import SupervisedTemplate
from torch.optim.lr_scheduler import LRScheduler

from clbench.labels import text
from clbench.protocol import Protocol

OR = " or "
LONGEST = 200
"""Characters of what is told of one setting."""


def differences(strategy: Any, protocol: Protocol) -> dict[str, str]:
    """Settings of any strategy that differ from the protocol's, its loss, its scheduler, and the
    optimizer if it is not clbench's own."""
    settings = {"epochs": strategy.train_epochs, "batch_size": strategy.train_mb_size}
    found = {
        name: text(value) for name, value in settings.items() if value != getattr(protocol, name)
    }
    if getattr(strategy, "_made", None) is not strategy.optimizer:
        found["optimizer"] = describe(strategy.optimizer)
    own = type(strategy).criterion is not SupervisedTemplate.criterion
    if loss := "its own" if own else loss_of(strategy._criterion):
        found["loss"] = loss
    if schedule := _schedulers(strategy):
        found["schedule"] = schedule
    return found


def tell(decided: dict[str, str], found: Mapping[str, str]) -> None:
    """Add what was found to what is known, as `1 or 3` if it differs between tasks."""
    for name, words in found.items():
        known = decided[name].split(OR) if name in decided else []
        joined = OR.join(dict.fromkeys([*known, *words.split(OR)]))
        if len(joined) <= LONGEST or not known:
            decided[name] = joined


def describe(optimizer: torch.optim.Optimizer) -> str:
    """`Adam(lr=0.001)`: its class, its learning rate, and what is not torch's default."""
    return _with_own(type(optimizer), optimizer.defaults, always=("lr",))


def loss_of(criterion: Any) -> str:
    """The loss in words, with what is not torch's default; empty for plain cross-entropy."""
    kind = type(criterion)
    if not kind.__module__.startswith("torch.nn"):
        return str(getattr(criterion, "__name__", kind.__name__))
    given = inspect.signature(kind.__init__).parameters
    values = {name: getattr(criterion, name) for name in given if hasattr(criterion, name)}
    words = _with_own(kind, values)
    return "" if words == "CrossEntropyLoss" else words


def _with_own(kind: type, values: Mapping[str, Any], always: Iterable[str] = ()) -> str:
    """A class with those values that are not the defaults of its parameters."""
    usual = inspect.signature(kind.__init__).parameters  # type: ignore[misc]
    own = {
        name: "given" if isinstance(value, torch.Tensor) else text(value)
        for name, value in values.items()
        if name in always
        or (name in usual and (isinstance(value, torch.Tensor) or value != usual[name].default))
    }
    listed = ", ".join(f"{name}={value}" for name, value in own.items())
    return f"{kind.__name__}({listed})" if listed else kind.__name__


def _schedulers(strategy: Any) -> str:
    """The learning-rate schedulers that a strategy or its plugins hold, by class."""
    held = [value for part in (strategy, *strategy.plugins) for value in vars(part).values()]
    names = [type(value).__name__ for value in held if isinstance(value, LRScheduler)]
    if not names and hasattr(strategy.optimizer.step, "_wrapped_by_lr_sched"):
        return "its own"  # torch marks an optimizer that has a scheduler
    return " and ".join(dict.fromkeys(names))
