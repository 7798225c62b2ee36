"""Any strategy of Avalanche as a method: the runner's calls, answered by Avalanche's own loop.

The harness gives the strategy its tasks, seeds, device, epochs and batch size. Everything else is
the strategy's: optimizer, loss, data, buffers, schedule. `decided` says so.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from avalanche.training.plugins import SupervisedPlugin
from avalanche.training.templates import SupervisedTemplate
from torch import nn

from clbench.memory import Memory
from clbench.stream import Stream
from clbench.training.answers import Answers
from clbench.training.augment import augmenting
from clbench.training.decided import differences, tell
from clbench.training.kept import saved_apart
from clbench.training.outside import compare
from clbench.training.schedule import PlateauSchedule
from clbench.training.state import NotResumable, network_state, save
from clbench.training.state_load import load, put_back
from clbench.training.strategy import CLOCK
from clbench.training.tally import Tally


class _Accuracy(SupervisedPlugin):
    """Counts the answers while the strategy is evaluated. While it trains, says when a setting is
    used that a plugin may take back later."""

    def __init__(self, stream: Stream, used: Callable[[], None]) -> None:
        super().__init__()
        self.stream, self.used = stream, used
        self.tally = Tally(stream)

    def after_train_dataset_adaptation(self, strategy: Any, **kwargs: Any) -> None:
        self.used()

    def before_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
        self.used()

    def memory(self) -> Memory:
        """Nothing between tasks."""
        return Memory()

    def state_dict(self) -> dict[str, Any]:
        """Nothing between tasks."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing between tasks."""

    def before_eval(self, strategy: Any, **kwargs: Any) -> None:
        self.tally = Tally(self.stream)

    def after_eval_iteration(self, strategy: Any, **kwargs: Any) -> None:
        k = strategy.experience.current_experience
        self.tally.add(strategy.mb_output, strategy.mb_y, strategy.loss, k)


class StockStrategy(Answers):
    """A strategy of Avalanche with the calls of `clbench.training.Strategy`.

    Avalanche's default of 1 for the epochs and the batch size means those of the protocol. There is
    no schedule and no learning curve unless a `PlateauSchedule` is among the plugins.
    """

    def __init__(self, strategy: SupervisedTemplate[Any, Any, Any], stream: Stream) -> None:
        self.strategy, self.stream = strategy, stream
        protocol = stream.protocol
        if strategy.train_epochs == 1:
            strategy.train_epochs = protocol.epochs
        if strategy.train_mb_size == 1:
            strategy.train_mb_size = protocol.batch_size
        strategy.eval_mb_size = stream.eval_batch
        strategy.device = torch.device(stream.device)
        strategy.evaluator.loggers = []  # the harness reports progress
        plugged = [p for p in strategy.plugins if isinstance(p, PlateauSchedule)]
        self.schedule = plugged[0] if plugged else PlateauSchedule(protocol)
        self.schedule.validate = self._validate
        self._scheduled = bool(plugged)
        strategy.plugins[:0] = augmenting(stream)
        self._told: dict[str, str] = {}
        self._accuracy = _Accuracy(stream, self._tell)
        # plugins may still change the outputs before the evaluator sees them
        strategy.plugins.insert(strategy.plugins.index(strategy.evaluator), self._accuracy)
        self.spent: defaultdict[str, float] = defaultdict(float)

    @property
    def decided(self) -> dict[str, str]:
        """What the strategy decides instead of the protocol, in words."""
        self._tell()
        found = {"loop": "Avalanche"} | self._told
        return found if self._scheduled else {**found, "schedule": found.get("schedule", "none")}

    def _tell(self) -> None:
        tell(self._told, differences(self.strategy, self.stream.protocol))

    @property
    def asked(self) -> Any:
        """The strategy of Avalanche."""
        return self.strategy

    @property
    def model(self) -> nn.Module:  # type: ignore[override]
        return self.strategy.model

    @property
    def plugins(self) -> list[Any]:  # type: ignore[override]
        return self.strategy.plugins

    def learn(self, k: int) -> list[dict[str, float]] | None:
        """Train on task k and return its learning curve, which is empty without a schedule."""
        self.strategy.train(self.stream.avalanche.train_stream[k], eval_streams=[])
        return self.schedule.curve if self._scheduled else []

    def memory(self) -> Memory:
        """What the strategy counts itself; else that of its plugins, and what is found."""
        own: Memory | None = self.strategy.memory() if hasattr(self.strategy, "memory") else None
        return super().memory() if own is None else own

    def uncounted(self) -> dict[str, Any]:
        """Nothing if the strategy counts its memory itself."""
        return {} if hasattr(self.strategy, "memory") else super().uncounted()

    def state_dict(self) -> dict[str, Any]:
        """The state between tasks; a NotResumable names what cannot be saved."""
        own = [p.state_dict() if hasattr(p, "state_dict") else None for p in self.plugins]
        return {
            "model": self.model.state_dict(),
            "plugins": own,
            "clock": {name: getattr(self.strategy.clock, name) for name in CLOCK},
            "others": save(self._state_parts(), self.strategy, self.stream),
            "outside": self._outside_now(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state; the next `learn` goes on exactly as without the interruption."""
        self._adapt_network(state["clock"]["train_exp_counter"])
        if "outside" in state:  # not in older checkpoints
            compare(self._outside_now(), state["outside"])
        try:
            self._load_network(state["model"])
        except (AttributeError, RuntimeError):
            raise NotResumable("the method changes the layers of its network") from None
        for plugin, plugin_state in zip(self.plugins, state["plugins"], strict=True):
            if plugin_state is not None:
                plugin.load_state_dict(plugin_state)
        for name, value in state["clock"].items():
            setattr(self.strategy.clock, name, value)
        fresh = self._state_parts()
        put_back(self.strategy, load(fresh, state["others"], self.strategy, self.stream))

    def _state_parts(self) -> dict[str, Any]:
        """What has no `state_dict` of its own, the optimizer, and the network's attributes."""
        found = saved_apart(self.strategy)
        optimizer = self.strategy.optimizer
        known = self.strategy.optimized_param_id
        found |= {"optimizer": optimizer, "optimized_param_id": known}
        return found | {"network": network_state(self.model)}

    def _validate(self) -> tuple[float, float]:
        experience = self.strategy.experience
        assert experience is not None
        k = experience.current_experience
        found = self._measure([self.stream.avalanche.valid_stream[k]])
        return found.accuracy, found.mean_loss

    def _measure(self, experiences: list[Any]) -> Tally:
        self.strategy.eval(experiences)
        self.tally = self._accuracy.tally
        return self.tally
