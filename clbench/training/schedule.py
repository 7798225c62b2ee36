"""The shared schedule: lower the learning rate on a plateau, stop, restore the best weights."""

import math
import time
from collections.abc import Callable
from typing import Any

from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor, nn

from clbench.protocol import Protocol


class PlateauSchedule(SupervisedPlugin):
    """Divides the learning rate by `lr_factor` after `patience` epochs without a better validation
    loss, ends the task below `lr_min`, and restores the best epoch before other plugins see it: the
    model, and the `networks()` of plugins that train their own beside it. Without validation data
    it only records the curve."""

    def __init__(self, protocol: Protocol) -> None:
        super().__init__()
        self.protocol = protocol
        self.curve: list[dict[str, float]] = []
        """One entry per epoch of the current task."""
        self.on_epoch: Callable[[dict[str, float]], None] = lambda epoch: None
        """Called with the entry of every finished epoch."""
        self.validate: Callable[[], tuple[float, float]] | None = None
        """Accuracy and loss on the validation data; if None, the strategy is asked."""

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        self.curve = []
        self._best: list[dict[str, Tensor]] = []
        self._best_loss, self._bad_epochs = math.inf, 0
        self._rates = [group["lr"] for group in strategy.optimizer.param_groups]

    def before_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
        self._seen, self._loss, self._started = 0, 0.0, time.perf_counter()

    def after_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
        self._seen += len(strategy.mb_y)
        self._loss += float(strategy.loss.detach()) * len(strategy.mb_y)

    def after_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
        lr = strategy.optimizer.param_groups[0]["lr"]
        entry = {
            "epoch": len(self.curve) + 1,
            "lr": lr,
            "loss": self._loss / max(self._seen, 1),
            "samples": self._seen,
        }
        if self.protocol.valid:
            accuracy, loss = (self.validate or strategy.validate)()
            entry |= {"valid_loss": loss, "valid_accuracy": accuracy}
        self.curve.append(entry | {"seconds": time.perf_counter() - self._started})
        for what, name in (("training", "loss"), ("validation", "valid_loss")):
            loss = entry.get(name, 0.0)
            if not math.isfinite(loss):
                raise FloatingPointError(
                    f"the {what} loss is {loss} in epoch {len(self.curve)} of task "
                    f"{strategy.experience.current_experience + 1}: lower the learning rate (--lr)"
                )
        self.on_epoch(self.curve[-1])
        if not self.protocol.valid:
            return
        if entry["valid_loss"] < self._best_loss:
            self._best_loss, self._bad_epochs = entry["valid_loss"], 0
            self._best = [_copy(network) for network in _networks(strategy)]
            return
        self._bad_epochs += 1
        if self._bad_epochs >= self.protocol.patience:
            self._bad_epochs = 0
            for group in strategy.optimizer.param_groups:
                group["lr"] /= self.protocol.lr_factor
            if strategy.optimizer.param_groups[0]["lr"] < self.protocol.lr_min:
                strategy.stop_training()

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        if self._best:
            for network, best in zip(_networks(strategy), self._best, strict=True):
                network.load_state_dict(best)
        self._best = []
        # an optimizer that stays begins the next task with its first rate
        for group, rate in zip(strategy.optimizer.param_groups, self._rates, strict=False):
            group["lr"] = rate


def _copy(network: nn.Module) -> dict[str, Tensor]:
    """The state of a network, with the versions of its modules."""
    state = network.state_dict()
    for name, value in state.items():
        state[name] = value.clone()
    return state


def _networks(strategy: Any) -> list[nn.Module]:
    """The model, and the networks that plugins train beside it."""
    own = [plugin.networks() for plugin in strategy.plugins if hasattr(plugin, "networks")]
    return [strategy.model, *(network for networks in own for network in networks)]
