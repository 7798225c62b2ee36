"""The cases: for each, functions that train one epoch and say how long its steps took."""

import contextlib
import copy
import io
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import loops
import torch
from avalanche.benchmarks.classic import SplitCIFAR100, SplitMNIST
from avalanche.models import MultiHeadClassifier, MultiTaskModule
from avalanche.training.plugins import AGEMPlugin, EWCPlugin, ReplayPlugin, SupervisedPlugin
from avalanche.training.supervised import Naive
from msgspec.structs import astuple
from torch import Tensor, nn
from torchvision.transforms import Compose, Normalize, ToTensor

from clbench import data
from clbench.build import build, make_stream, set_up_torch
from clbench.grid import make_grid
from clbench.stream import Stream

Timed = Callable[[], float]
"""Trains for one epoch; the seconds of its steps."""


STOCK: dict[str, Callable[[dict[str, Any]], list[Any]]] = {
    "finetune": lambda params: [],
    "ewc": lambda params: [EWCPlugin(params["strength"])],
    "agem": lambda params: [AGEMPlugin(2 * params["per_class"], params["reference_batch"])],
    "er-res": lambda params: [ReplayPlugin(10 * params["per_class"])],
}
"""What stock Avalanche has of a method, where there are ten classes in tasks of two."""


class Stopwatch(SupervisedPlugin):
    """The seconds from an epoch's first step to its last, without validation."""

    def before_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
        self.started = time.perf_counter()

    def after_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
        self.seconds = time.perf_counter() - self.started


class Case:
    """A method on a benchmark: its stream, and the contenders by name."""

    def __init__(self, method: str, benchmark: str, root: Path) -> None:
        self.method, self.benchmark, self.root = method, benchmark, root
        self.cell = make_grid(method, benchmark, [0], {"epochs": 1})[0]
        found = {d: data.load(d, root, True) for d in self.cell.benchmark.meta["datasets"]}
        self.stream: Stream = make_stream(self.cell, found)
        self.name = method.partition("[")[0]
        self.k = 0 if self.name == "acl" else loops.K

    def contenders(self) -> dict[str, Timed]:
        made = {"limit": self.limit(), "clbench": self.clbench()}
        if self.name in STOCK:
            made["stock"] = self.stock()
        if any("Dropout" in type(m).__name__ for m in self.prepared().model.modules()):
            made["limit, torch's dropout"] = self.limit(_torch_dropout)
            made["limit, no dropout"] = self.limit(_no_dropout)
        return made

    def prepared(self) -> Any:
        """clbench's strategy before the task that is timed."""
        strategy = build(self.cell, self.stream)
        for k in range(self.k):
            strategy.learn(k)
        return strategy

    def clbench(self) -> Timed:
        strategy, watch = self.prepared(), Stopwatch()
        strategy.plugins.insert(0, watch)
        state = copy.deepcopy(strategy.state_dict())

        def timed() -> float:
            strategy.load_state_dict(copy.deepcopy(state))
            strategy.model.requires_grad_(True)  # what ACL froze after it was timed before
            strategy.learn(self.k)
            return watch.seconds

        return timed

    def limit(self, change: Callable[[nn.Module], nn.Module] = lambda net: net) -> Timed:
        strategy = self.prepared()
        net = change(copy.deepcopy(strategy.model)).train()
        tasks = [(task.train.inputs(), task.train.labels) for task in self.stream.tasks[:2]]
        past, now = tasks[0], tasks[self.k]
        protocol, params = self.stream.protocol, self.cell.spec.method_params
        size, lr = protocol.batch_size, protocol.lr
        kept = params.get("per_class", 0) * self.stream.classes[0]
        makers: dict[str, Callable[[], loops.Epoch]] = {
            "finetune": lambda: loops.finetune(net, now, size, lr, protocol.momentum),
            "ewc": lambda: loops.ewc(net, now, size, lr, params["strength"]),
            "er-res": lambda: loops.er_res(
                net, past, now, size, lr, params["per_class"] * sum(self.stream.classes)
            ),
            "agem": lambda: loops.agem(net, past, now, size, lr, kept),
            "hat": lambda: loops.hat(net, now, size, lr, params["smax"], params["strength"]),
            "acl": lambda: loops.acl(
                net,
                next(p for p in strategy.plugins if hasattr(p, "adversary")).adversary.network,
                now,
                size,
                vars(protocol) | {key: params[key] for key in ("d_lr", "branch_drop")},
            ),
        }
        epoch = makers[self.name]()

        def timed() -> float:
            started = time.perf_counter()
            epoch()
            return time.perf_counter() - started

        return timed

    def stock(self) -> Timed:
        """Avalanche's own benchmark, loader, multi-head model and strategy, from disk."""
        warnings.filterwarnings("ignore")
        options: dict[str, Any] = {"class_ids_from_zero_in_each_exp": True, "return_task_id": True}
        options |= {"n_experiences": len(self.stream), "dataset_root": self.root, "seed": 0}
        if self.benchmark.startswith("split-mnist"):
            stream = SplitMNIST(**options)
        else:  # its own transform crops and flips too, which nobody else here does
            inputs = self.stream.tasks[0].train
            scale = Compose([ToTensor(), Normalize(inputs.mean, inputs.std)])
            stream = SplitCIFAR100(train_transform=scale, **options)
        trunk = copy.deepcopy(build(self.cell, self.stream).model.trunk)
        torchs = _replaced(_torch_dropout(trunk), "MaxPool2d", _torch_pooling)
        model, watch = _StockNet(torchs, trunk.features), Stopwatch()
        with contextlib.redirect_stdout(io.StringIO()):  # where its logger will write
            strategy = Naive(
                model=model,
                optimizer=torch.optim.SGD(model.parameters(), lr=self.stream.protocol.lr),
                criterion=nn.CrossEntropyLoss(),
                train_mb_size=self.stream.protocol.batch_size,
                train_epochs=1,
                plugins=[watch, *STOCK[self.name](self.cell.spec.method_params)],
            )
            if self.name != "finetune":  # a past to keep
                strategy.train(stream.train_stream[0], num_workers=0)
        experience = stream.train_stream[loops.K]
        share = len(self.stream.tasks[loops.K].train) / len(experience.dataset)

        def timed() -> float:
            with contextlib.redirect_stdout(io.StringIO()):
                strategy.train(experience, num_workers=0)
            return watch.seconds * share  # it has no validation data to set aside

        return timed


def task_costs(method: str, benchmark: str, samples: int, root: Path) -> list[tuple[float, int]]:
    """The seconds of one epoch on each task, of which only so many samples are learned, and the
    bytes that the method holds after it."""
    case = Case(method, benchmark, root)
    set_up_torch(case.cell)
    for task in case.stream.tasks:
        for name, count in (("train", samples), ("valid", samples // 5)):
            split = getattr(task, name)
            few = replace(split, rows=split.rows[:count], labels=split.labels[:count])
            object.__setattr__(task, name, few)
    strategy, costs = build(case.cell, case.stream), []
    for k in range(len(case.stream)):
        started = time.perf_counter()
        strategy.learn(k)
        seconds = time.perf_counter() - started
        costs.append((seconds, sum(astuple(strategy.memory()))))
    return costs


class _StockNet(MultiTaskModule):
    """A trunk below Avalanche's multi-head classifier."""

    def __init__(self, trunk: nn.Module, features: int) -> None:
        super().__init__()
        self.trunk, self.heads = trunk, MultiHeadClassifier(features)

    def forward(self, x: Tensor, task_labels: Tensor) -> Tensor:
        out: Tensor = self.heads(self.trunk(x), task_labels)
        return out


def _replaced(net: nn.Module, kind: str, make: Callable[[Any], nn.Module]) -> nn.Module:
    for module in list(net.modules()):
        for name, child in list(module.named_children()):
            if kind in type(child).__name__:
                setattr(module, name, make(child))
    return net


def _torch_pooling(_: nn.Module) -> nn.Module:
    return nn.Sequential(nn.ReLU(), nn.MaxPool2d(2))


def _torch_dropout(net: nn.Module) -> nn.Module:
    return _replaced(net, "Dropout", lambda layer: nn.Dropout(layer.p))


def _no_dropout(net: nn.Module) -> nn.Module:
    return _replaced(net, "Dropout", lambda _: nn.Identity())
