"""SGD as torch has it, in less time where it is plain."""

import inspect
from collections.abc import Callable
from typing import Any

import torch


class SGD(torch.optim.SGD):
    """`torch.optim.SGD(..., foreach=True)`, to the bit, for all that a protocol can ask of it.

    Without momentum and weight decay, what torch prepares for these and for other devices and types
    is left out, which a small network feels in every step (docs/speed.md).
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        options = ("momentum", "weight_decay", "maximize")
        if closure is not None or any(
            group[name] for group in self.param_groups for name in options
        ):
            return inspect.unwrap(torch.optim.SGD.step)(self, closure)  # hooks are called already
        for group in self.param_groups:
            learned = [p for p in group["params"] if p.grad is not None]
            if learned:
                torch._foreach_add_(learned, [p.grad for p in learned], alpha=-group["lr"])
        return None

    def zero_grad(self, set_to_none: bool = True) -> None:
        if not set_to_none:
            return super().zero_grad(set_to_none)
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None
