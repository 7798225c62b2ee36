"""What a method's strategy decided instead of the protocol, in words for the record and the row."""

import inspect
from typing import Any

import torch
from torch import nn

from clbench.labels import text
from clbench.protocol import Protocol


def differences(strategy: Any, protocol: Protocol) -> dict[str, str]:
    """Settings of any strategy that differ from the protocol's; the optimizer if it is not
    clbench's own."""
    settings = {"epochs": strategy.train_epochs, "batch_size": strategy.train_mb_size}
    found = {
        name: text(value) for name, value in settings.items() if value != getattr(protocol, name)
    }
    if getattr(strategy, "_made", None) is not strategy.optimizer:
        found["optimizer"] = describe(strategy.optimizer)
    return found


def describe(optimizer: torch.optim.Optimizer) -> str:
    """`Adam(lr=0.001)`: its class, its learning rate, and what is not torch's default."""
    usual = inspect.signature(type(optimizer).__init__).parameters
    values = {
        name: value
        for name, value in optimizer.defaults.items()
        if name == "lr" or (name in usual and value != usual[name].default)
    }
    listed = ", ".join(f"{name}={text(value)}" for name, value in values.items())
    return f"{type(optimizer).__name__}({listed})"


def loss_of(criterion: Any) -> str:
    """The loss in words; empty for plain cross-entropy."""
    plain = type(criterion) is nn.CrossEntropyLoss and criterion.label_smoothing == 0
    name = getattr(criterion, "__name__", type(criterion).__name__)
    return "" if plain and criterion.weight is None else str(name)
