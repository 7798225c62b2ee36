"""The steps of training: those of Avalanche's own loop, bit for bit, with the time of each part."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from avalanche.evaluation.metrics import loss_metrics
from avalanche.training.plugins import EvaluationPlugin, SupervisedPlugin
from avalanche.training.templates import SupervisedTemplate

from clbench.methods.agem import AGEMPlugin
from clbench.networks import ordinary
from clbench.report.profile import PARTS, by_part, profile
from clbench.stream import Stream
from clbench.training import Strategy
from clbench.training.strategy import STEP


class AvalanchesLoop(Strategy):
    training_epoch = SupervisedTemplate.training_epoch


class Everything(SupervisedPlugin):
    """Notes every hook of a step."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []


for event in STEP:

    def hook(self: Everything, strategy: Any, event: str = event, **kwargs: Any) -> None:
        self.seen.append(event)

    setattr(Everything, event, hook)


def learned(kind: type[Strategy], stream: Stream, plugin: SupervisedPlugin) -> Strategy:
    torch.manual_seed(0)
    strategy = kind(model=ordinary(stream), stream=stream, plugins=[plugin, AGEMPlugin(3, 8)])
    for k in range(2):
        strategy.learn(k)
    return strategy


def test_hooks_and_weights_are_those_of_avalanches_loop(make_stream: Callable[..., Stream]) -> None:
    stream, ours, theirs = make_stream(epochs=2), Everything(), Everything()
    one, two = learned(Strategy, stream, ours), learned(AvalanchesLoop, stream, theirs)
    assert ours.seen == theirs.seen
    assert tuple(ours.seen[: len(STEP)]) == STEP
    for name, value in two.model.state_dict().items():
        assert torch.equal(value, one.model.state_dict()[name]), name


def test_a_hook_that_is_only_inherited_is_not_called(make_stream: Callable[..., Stream]) -> None:
    stream = make_stream(epochs=1)
    strategy = Strategy(model=ordinary(stream), stream=stream, plugins=[AGEMPlugin(3, 8)])
    assert [part for part, _ in strategy._hooks("after_backward")] == ["plugin AGEMPlugin"]
    assert strategy._hooks("before_forward") == []
    loose: Any = SimpleNamespace(before_forward=lambda strategy, **kwargs: None)
    strategy.plugins.append(loose)  # a hook of an object's own counts too
    assert len(strategy._hooks("before_forward")) == 1


@pytest.mark.filterwarnings("ignore:No loggers specified")
def test_an_evaluator_that_is_given_hears_every_event(make_stream: Callable[..., Stream]) -> None:
    stream = make_stream(epochs=1)
    evaluator = EvaluationPlugin(loss_metrics(epoch=True), loggers=[])
    strategy = Strategy(model=ordinary(stream), stream=stream, evaluator=evaluator)
    curve = strategy.learn(0)
    assert curve is not None
    [seen] = evaluator.get_last_metrics().values()
    assert seen == pytest.approx(curve[0]["loss"])


def test_the_parts_of_a_step_add_up(make_stream: Callable[..., Stream]) -> None:
    strategy = learned(Strategy, make_stream(epochs=2), Everything())
    parts = dict(strategy.spent)
    names = ("Everything", "AGEMPlugin", "PlateauSchedule", "Clock", "PeriodicEval")
    own = {f"plugin {name}" for name in names}
    assert set(parts) == own | {"data", "forward", "backward", "optimizer", "validation"}
    assert min(parts.values()) > 0


def test_what_a_plugin_does_between_epochs_and_after_a_task_is_its_own_time(
    make_stream: Callable[..., Stream],
) -> None:
    for event in ("before_training_epoch", "after_training_epoch", "after_training_exp"):
        kind = type(event, (SupervisedPlugin,), {event: lambda self, strategy, **kwargs: None})
        strategy = learned(Strategy, make_stream(epochs=2), kind())
        assert strategy.spent[f"plugin {event}"] > 0


def test_a_record_keeps_them_and_run_shows_them(
    cell: Callable[..., Any], place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clbench.runner import run

    monkeypatch.setenv("COLUMNS", "200")  # one table, however wide
    record = run(cell("ewc"), place)
    parts = by_part(record)
    assert tuple(parts) == PARTS
    inside = sum(s for part, s in parts.items() if part != "saving")
    assert abs(inside - record.seconds.total) < 1e-6
    head, _, line, _, title, plugins = profile([record]).splitlines()
    assert "plugins %" in head
    shares = [float(word) for word in line.split()[-len(PARTS) :]]
    assert abs(sum(shares) - 100) < 0.1 * len(PARTS)
    assert shares[PARTS.index("plugins")] > 0
    assert title == "plugins, %:"
    costs = dict(note.split(" ") for note in plugins.partition(": ")[2].split(", "))
    assert {"EWCPlugin", "PlateauSchedule"} <= set(costs)
    assert abs(sum(map(float, costs.values())) - shares[PARTS.index("plugins")]) < 0.3
    record.seconds.parts = {}
    assert len(profile([record]).splitlines()) == 2  # a record from before: no line
