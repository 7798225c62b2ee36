"""Strategies and plugins of Avalanche as methods: each gives what it gives in bare Avalanche."""

import io
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from avalanche.models import SimpleMLP, as_multitask
from avalanche.training import plugins
from avalanche.training.plugins import EvaluationPlugin, SupervisedPlugin
from avalanche.training.supervised import (
    DER,
    ER_ACE,
    Cumulative,
    CWRStar,
    FromScratchTraining,
    GSS_greedy,
    ICaRL,
    Naive,
)
from torch import nn
from torch.optim import SGD

from clbench.build import built
from clbench.conformance import small_stream
from clbench.memory import of_model
from clbench.method import Method
from clbench.networks import ordinary
from clbench.protocol import Protocol
from clbench.seeding import seed_everything
from clbench.stream import Stream
from clbench.training import StockStrategy, Strategy
from clbench.training.schedule import PlateauSchedule
from clbench.training.state import NotResumable

pytestmark = [
    pytest.mark.filterwarnings("ignore:Call to deprecated function"),
    pytest.mark.filterwarnings("ignore:No loggers specified"),
    pytest.mark.filterwarnings("ignore:__array_wrap__"),
    pytest.mark.filterwarnings("ignore:No benchmark provided"),
]
EPOCHS, BATCH = 2, 16
SAMPLE = 4 * 28 * 28  # bytes


def _naive(make: Callable[[], Any], net: Callable[[Stream], nn.Module] = ordinary) -> Any:
    def build(stream: Stream, **settings: Any) -> Any:
        model = net(stream)
        sgd = SGD(model.parameters(), lr=0.05, momentum=0.5)
        return Naive(model=model, optimizer=sgd, plugins=[make()], **settings)

    return build


def _strategy(cls: Any, net: Callable[[Stream], nn.Module] = ordinary, **own: Any) -> Any:
    def build(stream: Stream, **settings: Any) -> Any:
        model = net(stream)
        sgd = SGD(model.parameters(), lr=0.05, momentum=0.5)
        return cls(model=model, optimizer=sgd, criterion=nn.CrossEntropyLoss(), **own, **settings)

    return build


def _one_head(stream: Stream) -> nn.Module:
    return SimpleMLP(num_classes=3, hidden_size=32)


def _icarl(stream: Stream, **settings: Any) -> Any:
    features = nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU())
    classifier = nn.Linear(32, 3)
    sgd = SGD([*features.parameters(), *classifier.parameters()], lr=0.05)
    return ICaRL(
        feature_extractor=features, classifier=classifier, optimizer=sgd, memory_size=30,
        buffer_transform=None, fixed_memory=True, **settings,
    )  # fmt: skip


def _cope() -> Any:
    return plugins.CoPEPlugin(mem_size=30, n_classes=3, p_size=3)


def _multi_head(stream: Stream) -> nn.Module:
    return as_multitask(SimpleMLP(num_classes=3, hidden_size=32), "classifier")


CASES = {
    # name: how it is built in both, bytes of samples that it keeps, whether it must be resumable
    "replay": (_naive(lambda: plugins.ReplayPlugin(mem_size=60)), 60 * SAMPLE, True),
    "gdumb": (_naive(lambda: plugins.GDumbPlugin(mem_size=60)), 60 * SAMPLE, True),
    "lwf": (_naive(lambda: plugins.LwFPlugin(1, 2)), 0, True),
    "ewc": (_naive(lambda: plugins.EWCPlugin(100)), 0, True),
    "mas": (_naive(plugins.MASPlugin), 0, True),
    "rwalk": (_naive(plugins.RWalkPlugin), 0, True),
    "gem": (_naive(lambda: plugins.GEMPlugin(20, 0.5)), 60 * SAMPLE, True),
    "agem": (_naive(lambda: plugins.AGEMPlugin(20, 30)), 60 * SAMPLE, False),
    "mir": (_naive(lambda: plugins.MIRPlugin(16, 60, 20)), 60 * SAMPLE, False),
    "si": (_naive(lambda: plugins.SynapticIntelligencePlugin(0.1)), 0, False),
    "cope": (_naive(_cope, _one_head), 30 * SAMPLE, False),
    "cumulative": (_strategy(Cumulative), 238 * SAMPLE, True),
    "from-scratch": (_strategy(FromScratchTraining), 0, True),
    "der": (_strategy(DER, _one_head, mem_size=60), 60 * SAMPLE, True),
    "er-ace": (_strategy(ER_ACE, _one_head, mem_size=60), 60 * SAMPLE, False),
    "gss": (
        _strategy(GSS_greedy, _one_head, mem_size=48, mem_strength=1, input_size=[1, 28, 28]),
        48 * SAMPLE,
        True,
    ),
    "multi-head": (_naive(lambda: plugins.LwFPlugin(1, 2), _multi_head), 0, True),
    "cwr": (_strategy(CWRStar, _one_head, cwr_layer_name=None), 0, True),
    "icarl": (_icarl, 30 * SAMPLE, True),
}


def _given(stream: Stream) -> dict[str, Any]:
    """What a user passes in bare Avalanche to get the protocol's settings."""
    return {"train_mb_size": BATCH, "train_epochs": EPOCHS, "eval_mb_size": stream.eval_batch}


def _method(build: Any, **settings: Any) -> Method:
    class Stock(Method):
        title = "Stock"
        family = "memory"

        def build(self, stream: Stream) -> Any:
            # GSS and DER size buffers by the batch that they are given, so they need it here
            return build(stream, **(settings or _given(stream)))

    return Stock()


def _learn(strategy: StockStrategy, start: int = 0) -> list[list[float]]:
    tasks, rows = range(len(strategy.stream)), []
    if start == 0:
        for i in tasks:
            strategy.accuracy(i)
    for k in range(start, len(tasks)):
        seed_everything(0, "task", k)
        strategy.learn(k)
        rows.append([strategy.accuracy(i) for i in tasks])
    return rows


class _Right(SupervisedPlugin):
    """Counts right answers, as a user of bare Avalanche would."""

    right = seen = 0

    def after_eval_iteration(self, strategy: Any, **kwargs: Any) -> None:
        self.right += int((strategy.mb_output.argmax(1) == strategy.mb_y).sum())
        self.seen += len(strategy.mb_y)


def _bare(build: Any) -> list[list[float]]:
    """R by Avalanche alone: its strategy, its loop, its loaders."""
    stream = small_stream(EPOCHS)
    benchmark = stream.avalanche
    seed_everything(0, "init")
    strategy = build(stream, **_given(stream), evaluator=EvaluationPlugin())

    def test(experience: Any) -> float:
        counter = _Right()
        strategy.plugins.append(counter)
        strategy.eval([experience])
        strategy.plugins.remove(counter)
        return 100 * counter.right / counter.seen

    for experience in benchmark.test_stream:
        test(experience)
    rows = []
    for k, experience in enumerate(benchmark.train_stream):
        seed_everything(0, "task", k)
        strategy.train(experience, eval_streams=[])
        rows.append([test(other) for other in benchmark.test_stream])
    return rows


@pytest.mark.parametrize("name", CASES)
def test_it_gives_what_bare_avalanche_gives_and_resumes_or_says_why_not(name: str) -> None:
    build, replay, resumable = CASES[name]
    strategy = built(_method(build), small_stream(EPOCHS))
    assert isinstance(strategy, StockStrategy)
    rows, states = [], []
    for i in range(3):
        strategy.accuracy(i)
    for k in range(3):
        seed_everything(0, "task", k)
        strategy.learn(k)
        rows.append([strategy.accuracy(i) for i in range(3)])
        states.append(_state(strategy))
    assert rows == _bare(build)
    memory = strategy.memory()
    assert memory.architecture == of_model(strategy.model)
    assert replay <= memory.replay <= replay + 12 * SAMPLE  # a batch, or values beside samples
    resumed = [_resumed(build, state, done) for done, state in enumerate(states[:2], 1)]
    for rest, same in zip(resumed, [rows[1:], rows[2:]], strict=True):
        assert rest == same or (rest is None and not resumable)


def _state(strategy: StockStrategy) -> bytes | None:
    file = io.BytesIO()
    try:
        torch.save(strategy.state_dict(), file)
    except NotResumable:
        return None
    return file.getvalue()


def _resumed(build: Any, state: bytes | None, done: int) -> list[list[float]] | None:
    """The rest of R after a state was loaded into a fresh strategy; None if that is impossible."""
    if state is None:
        return None
    strategy = built(_method(build), small_stream(EPOCHS))
    try:
        strategy.load_state_dict(torch.load(io.BytesIO(state), weights_only=True))
    except NotResumable:
        return None
    return _learn(strategy, done)


def test_heads_of_avalanche_grow_in_clbenchs_strategy_too() -> None:
    def fresh() -> Strategy:
        stream = small_stream(EPOCHS)
        seed_everything(0, "init")
        return Strategy(model=_multi_head(stream), stream=stream)

    strategy = fresh()
    rows = [_learn_one(strategy, k) for k in range(2)]
    file = io.BytesIO()
    torch.save(strategy.state_dict(), file)
    rows.append(_learn_one(strategy, 2))
    assert rows[2][2] > 80
    resumed = fresh()
    resumed.load_state_dict(torch.load(io.BytesIO(file.getvalue()), weights_only=True))
    assert _learn_one(resumed, 2) == rows[2]


def _learn_one(strategy: Any, k: int) -> list[float]:
    seed_everything(0, "task", k)
    strategy.learn(k)
    return [strategy.accuracy(i) for i in range(3)]


def test_what_it_decides_is_told_and_what_it_leaves_open_is_the_protocol() -> None:
    stream = small_stream(EPOCHS)

    def build(stream: Stream) -> Any:
        model = ordinary(stream)
        return Naive(model=model, optimizer=SGD(model.parameters(), lr=0.3, momentum=0.1))

    strategy = built(_method(lambda stream, **_: build(stream)), stream)
    assert isinstance(strategy, StockStrategy)
    assert (strategy.strategy.train_epochs, strategy.strategy.train_mb_size) == (EPOCHS, 16)
    optimizer = "SGD(lr=0.3, momentum=0.1)"
    assert strategy.decided == {"loop": "Avalanche", "optimizer": optimizer, "schedule": "none"}
    strategy.strategy.train_epochs = 7
    strategy.strategy._criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    assert strategy.decided["epochs"] == "7"
    assert strategy.decided["loss"] == "CrossEntropyLoss(label_smoothing=0.1)"


def test_a_scheduler_of_avalanche_is_told() -> None:
    def build(stream: Stream, **_: Any) -> Any:
        model = ordinary(stream)
        sgd = SGD(model.parameters(), lr=0.05)
        scheduler = plugins.LRSchedulerPlugin(torch.optim.lr_scheduler.ExponentialLR(sgd, 0.5))
        return Naive(model=model, optimizer=sgd, plugins=[scheduler])

    strategy = built(_method(build), small_stream(EPOCHS))
    assert strategy.decided["schedule"] == "ExponentialLR"


def test_what_a_plugin_changes_and_takes_back_is_told() -> None:
    class Resets(SupervisedPlugin):
        def before_training(self, strategy: Any, **kwargs: Any) -> None:
            strategy.train_epochs, strategy.train_mb_size = 1, 8

        def after_training(self, strategy: Any, **kwargs: Any) -> None:
            strategy.train_epochs, strategy.train_mb_size = EPOCHS, BATCH

    strategy = built(_method(_naive(Resets)), small_stream(EPOCHS))
    strategy.learn(0)
    assert (strategy.decided["epochs"], strategy.decided["batch_size"]) == ("1", "8")


def test_the_schedule_can_be_plugged_in() -> None:
    schedule = PlateauSchedule(Protocol(epochs=3))
    strategy = built(_method(_naive(lambda: schedule)), small_stream(EPOCHS))
    curve = strategy.learn(0)
    assert curve is not None
    assert [epoch["epoch"] for epoch in curve] == [1, 2]
    assert curve[-1]["valid_accuracy"] > 90
    assert "schedule" not in strategy.decided


def test_what_is_no_strategy_is_named() -> None:
    with pytest.raises(TypeError, match=r"Stock\.build must return a strategy .* returned Linear"):
        built(_method(lambda stream, **_: nn.Linear(1, 1)), small_stream())


def test_python_and_numpy_are_seeded_for_each_task() -> None:
    seed_everything(0, "task", 1)
    one = random.random(), np.random.rand(), torch.rand(1).item()
    seed_everything(0, "task", 1)
    assert one == (random.random(), np.random.rand(), torch.rand(1).item())
