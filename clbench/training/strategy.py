"""Avalanche's supervised strategy on clbench's streams, protocol and loader."""

import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partialmethod
from typing import Any

import torch
from avalanche.training.plugins import EvaluationPlugin, SupervisedPlugin
from avalanche.training.templates import SupervisedTemplate
from torch import nn

from clbench.errors import UserError
from clbench.loader import TensorLoader, batches
from clbench.networks.backbones import least_batch
from clbench.seeding import generator
from clbench.stream import Stream
from clbench.training.answers import Answers
from clbench.training.augment import augmenting
from clbench.training.decided import differences, tell
from clbench.training.kept import saved_apart
from clbench.training.optimizers import make_optimizer
from clbench.training.outside import compare
from clbench.training.schedule import PlateauSchedule
from clbench.training.state import network_state, save
from clbench.training.state_load import load, put_back
from clbench.training.tally import Tally

STEP = (
    "before_training_iteration",
    "before_forward",
    "after_forward",
    "before_backward",
    "after_backward",
    "before_update",
    "after_update",
    "after_training_iteration",
)
"""Avalanche's hooks in a training step, in their order."""
CLOCK = ("train_exp_counter", "train_iterations", "total_iterations")
"""The counters of Avalanche's clock that go on from task to task."""


def _silent_evaluator() -> Any:
    """Avalanche's evaluator without metrics; its template requires an evaluator."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "No loggers specified")
        return EvaluationPlugin()


class Strategy(Answers, SupervisedTemplate):
    """Plain supervised training of `model` on `stream`; `plugins` make a method of it.

    Unlike `SupervisedTemplate`, it slices batches from tensors, starts a task with a new optimizer
    over the parameters that require a gradient, runs the plateau schedule first, and has no
    evaluator unless one is given: Avalanche's copies its state at every hook of every step.

    What a plugin or `build` sets instead (`optimizer`, `adapted_dataset`, `dataloader`, ...) takes
    effect as in Avalanche, by Avalanche's own code, and is told in `decided`.
    """

    HARNESS = frozenset(
        {"decided", "schedule", "spent", "stream", "tally", "_given", "_made", "_packages",
         "_outside", "_plain", "_valid"}
    )  # fmt: skip
    """Attributes of this class; a subclass adds those that it sets once and for all."""

    optimizer: torch.optim.Optimizer

    def __init__(
        self,
        *,
        model: nn.Module,
        stream: Stream,
        plugins: Sequence[Any] = (),
        criterion: Any = None,
        evaluator: Any = None,
    ) -> None:
        self.stream = stream
        self.schedule = PlateauSchedule(stream.protocol)
        self._given = plugins
        self._made: torch.optim.Optimizer = self._sgd(model)
        super().__init__(
            model=model,
            optimizer=self._made,
            criterion=criterion or nn.CrossEntropyLoss(),
            train_mb_size=stream.protocol.batch_size,
            train_epochs=stream.protocol.epochs,
            eval_mb_size=stream.eval_batch,
            device=stream.device,
            plugins=[self.schedule, *augmenting(stream), *plugins],
            evaluator=evaluator or _silent_evaluator(),
            eval_every=-1,
        )
        if evaluator is None:
            self.plugins.remove(self.evaluator)
        self.spent: defaultdict[str, float] = defaultdict(float)
        """Seconds of training by part: data, forward, backward, optimizer, validation, plugins."""
        self.decided: dict[str, str] = {}
        """What the method decided instead of the protocol, in words."""
        self._plain: Any = None  # the data set of the experience, as no plugin has changed it
        self.tally = Tally(stream)
        self._valid: tuple[Any, Any] = (None, None)  # validation data and their loader

    def learn(self, k: int) -> list[dict[str, float]] | None:
        """Train on task k and return its learning curve; None if nothing is learned at this k."""
        self.train(self.stream.avalanche.train_stream[k], eval_streams=[])
        self._tell()
        return self.schedule.curve

    def _tell(self) -> None:
        tell(self.decided, differences(self, self.stream.protocol))

    def validate(self) -> tuple[float, float]:
        """Accuracy in percent and mean loss on the validation data of the training tasks."""
        started = time.perf_counter()
        valid = self.stream.avalanche.valid_stream
        found = self._measure([valid[k] for k in self.training_tasks()])
        self.spent["validation"] += time.perf_counter() - started
        return found.accuracy, found.mean_loss

    def training_tasks(self) -> list[int]:
        """The tasks whose data the model trains on: the current one."""
        assert self.experience is not None
        return [self.experience.current_experience]

    def state_dict(self) -> dict[str, Any]:
        """The state between tasks: weights, and the state of each plugin. A NotResumable if a
        plugin without a `state_dict` keeps something that cannot be saved."""
        state = {
            "model": self.model.state_dict(),
            "plugins": [p.state_dict() if hasattr(p, "state_dict") else None for p in self.plugins],
            "clock": {name: getattr(self.clock, name) for name in CLOCK},
            "outside": self._outside_now(),
        }
        if others := self._without_state():
            state["others"] = save(others, self, self.stream)
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state; the next `learn` goes on exactly as without the interruption."""
        self._adapt_network(state["clock"]["train_exp_counter"])
        if "outside" in state:  # not in older checkpoints
            compare(self._outside_now(), state["outside"])
        self._load_network(state["model"])
        for plugin, plugin_state in zip(self.plugins, state["plugins"], strict=True):
            if plugin_state is not None:
                plugin.load_state_dict(plugin_state)
        for name, value in state["clock"].items():
            setattr(self.clock, name, value)
        if "others" in state:
            put_back(self, load(self._without_state(), state["others"], self, self.stream))

    def _without_state(self) -> dict[str, Any]:
        """What has no `state_dict` of its own: plugins, attributes, a foreign optimizer."""
        found = saved_apart(self)
        if self.optimizer is not self._made:
            found |= {"optimizer": self.optimizer, "optimized_param_id": self.optimized_param_id}
        return found | {"network": network_state(self.model)} if found else found

    def make_optimizer(self, **kwargs: Any) -> None:
        if self.optimizer is not self._made:  # a plugin's or the method's: by Avalanche's rules
            super().make_optimizer(**kwargs)
            return
        changed = self._options(self.optimizer) != self._options(self._sgd(self.model))
        if self.optimized_param_id is None and changed:  # before the first task
            raise UserError(
                "The method changes the protocol's optimizer or schedules its rate, but each task "
                "begins with a new one. Set one of your own: strategy.optimizer = SGD(...)."
            )
        self.optimized_param_id: dict[str, Any] = {}  # not None: it is set up
        self.optimizer = self._made = self._sgd(self.model)

    @staticmethod
    def _options(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
        """The values of its groups."""
        return [
            {key: value for key, value in group.items() if key != "params"}
            for group in optimizer.param_groups
        ]

    def train_dataset_adaptation(self, **kwargs: Any) -> None:
        super().train_dataset_adaptation(**kwargs)
        self._plain = self.adapted_dataset

    def eval_dataset_adaptation(self, **kwargs: Any) -> None:
        super().eval_dataset_adaptation(**kwargs)
        self._plain = self.adapted_dataset

    def make_train_dataloader(self, **kwargs: Any) -> None:
        assert self.experience is not None
        k = self.experience.current_experience
        plain = self.stream.avalanche.train_stream[k].dataset
        own = getattr(plain, "split", None) is not self.stream.tasks[k].train
        changed = self.adapted_dataset is not self._plain or self.experience.dataset is not plain
        self._tell()  # the batch size that is used now
        if own or changed:
            self.decided["data"] = "its own"
            super().make_train_dataloader(**kwargs)
            return
        shuffle = generator(self.stream.seed, "batches", k)
        splits = [self.stream.tasks[i].train for i in self.training_tasks()]
        started = time.perf_counter()
        least = least_batch(self.model)
        self.dataloader = TensorLoader(splits, self.train_mb_size, shuffle, self.device, least)
        self.spent["data"] += time.perf_counter() - started
        self._valid = (None, None)

    def make_eval_dataloader(self, **kwargs: Any) -> None:
        assert self.experience is not None
        if self.adapted_dataset is not self._plain:
            super().make_eval_dataloader(**kwargs)
            return
        dataset = self.experience.dataset
        if self._valid[0] is dataset:
            self.dataloader = self._valid[1]
            return
        self.dataloader = batches(dataset, self.eval_mb_size)
        if self.experience.origin_stream.name == "valid":  # needed after every epoch
            self._valid = (dataset, self.dataloader)

    def forward(self) -> Any:
        if not self.stream.protocol.autocast:
            return super().forward()
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            return super().forward().float()

    def training_epoch(self, **kwargs: Any) -> None:
        """Avalanche's loop, with handlers looked up once per epoch, and its parts timed."""
        if any(f"_{event}" in vars(self) or self._overrides(f"_{event}") for event in STEP):
            self.decided["loop"] = "Avalanche"
            super().training_epoch(**kwargs)
            return
        hooks = {event: self._hooks(event) for event in STEP}
        spent, clock = self.spent, time.perf_counter
        last = clock()

        def lap(part: str) -> None:
            nonlocal last
            now = clock()
            spent[part] += now - last
            last = now

        def call(event: str) -> None:
            for part, hook in hooks[event]:
                hook(self, **kwargs)
                lap(part)

        for batch in self.dataloader:
            if self._stop_training:
                break
            self.mbatch = batch
            self._unpack_minibatch()
            lap("data")
            call("before_training_iteration")
            self.optimizer.zero_grad()
            self.loss = start = self._make_empty_loss()
            version = start._version
            lap("optimizer")
            call("before_forward")
            self.mb_output = self.forward()
            lap("forward")
            call("after_forward")
            # what plugins have added to the loss so far stays in it
            plain = self.loss is start and start._version == version
            self.loss = self.criterion() if plain else self.loss + self.criterion()
            lap("forward")
            call("before_backward")
            self.backward()
            lap("backward")
            call("after_backward")
            call("before_update")
            self.optimizer_step()
            lap("optimizer")
            call("after_update")
            call("after_training_iteration")

    def _overrides(self, name: str) -> bool:
        """Whether a subclass has its own version of a method of Avalanche's."""
        return getattr(type(self), name) is not getattr(SupervisedTemplate, name)

    def _call(self, event: str, **kwargs: Any) -> None:
        """Call the plugins' handlers for an event between epochs or after a task, and time them."""
        for part, hook in self._hooks(event):
            started, validation = time.perf_counter(), self.spent["validation"]
            hook(self, **kwargs)
            taken = time.perf_counter() - started
            self.spent[part] += taken - (self.spent["validation"] - validation)

    def _before_training_epoch(self, **kwargs: Any) -> None:
        self._tell()  # a plugin may set something for some epochs only
        self._call("before_training_epoch", **kwargs)

    _after_training_epoch = partialmethod(_call, "after_training_epoch")
    _after_training_exp = partialmethod(_call, "after_training_exp")

    def _hooks(self, event: str) -> list[tuple[str, Callable[..., None]]]:
        """The plugins' own handlers for an event, each with the name of its part in `spent`."""
        empty = getattr(SupervisedPlugin, event, None)
        return [
            (f"plugin {type(plugin).__name__}", getattr(plugin, event))
            for plugin in self.plugins
            # an evaluator creates its handlers on access; its class does not have them
            if hasattr(plugin, event)
            and (getattr(type(plugin), event, None) is not empty or event in vars(plugin))
        ]

    def eval_epoch(self, **kwargs: Any) -> None:
        assert self.experience is not None
        k = self.experience.current_experience
        with torch.inference_mode():
            for batch in self.dataloader:
                self.mbatch = batch
                self._unpack_minibatch()
                self._before_eval_iteration(**kwargs)
                self._before_eval_forward(**kwargs)
                self.mb_output = self.forward()
                self._after_eval_forward(**kwargs)
                self.loss = self.criterion()
                self._after_eval_iteration(**kwargs)
                self.tally.add(self.mb_output, self.mb_y, self.loss, k)

    def _measure(self, experiences: list[Any]) -> Tally:
        self.tally = Tally(self.stream)
        self.eval(experiences)
        return self.tally

    def _sgd(self, model: nn.Module) -> torch.optim.Optimizer:
        """The protocol's optimizer; a plugin's `parameter_groups(model)` have own options."""
        p = self.stream.protocol
        plugins = [plugin for plugin in self._given if hasattr(plugin, "parameter_groups")]
        own = [group for plugin in plugins for group in plugin.parameter_groups(model)]
        taken = {id(parameter) for group in own for parameter in group["params"]}
        rest = [q for q in model.parameters() if q.requires_grad and id(q) not in taken]
        groups = [{"params": rest}, *own]
        return make_optimizer(groups, p)
