"""What a plugin sets takes effect in clbench's loop as it does in Avalanche's."""

from typing import Any

import pytest
import torch
from avalanche.training.plugins import SupervisedPlugin
from avalanche.training.supervised import Naive
from torch import nn
from torch.optim import SGD, Adam

from clbench.conformance import small_stream
from clbench.errors import UserError
from clbench.networks import ordinary
from clbench.seeding import seed_everything
from clbench.training import Strategy
from clbench.training.schedule import PlateauSchedule


def _learn(plugin: Any, optimizer: Any = None, tasks: int = 1) -> Strategy:
    stream = small_stream(2)
    seed_everything(0, "init")
    strategy = Strategy(model=ordinary(stream), stream=stream, plugins=[plugin] if plugin else [])
    if optimizer:
        strategy.optimizer = optimizer(strategy.model)
    for k in range(tasks):
        seed_everything(0, "task", k)
        strategy.learn(k)
    return strategy


def _weights(strategy: Any) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in strategy.model.parameters()])


class _Early(SupervisedPlugin):
    """Adds to the loss before the forward pass, in place or anew."""

    def __init__(self, anew: bool) -> None:
        super().__init__()
        self.anew = anew

    def before_forward(self, strategy: Any, **kwargs: Any) -> None:
        more = sum(p.square().sum() for p in strategy.model.parameters())
        if self.anew:
            strategy.loss = strategy.loss + more
        else:
            strategy.loss += more


class _Late(_Early):
    before_forward = SupervisedPlugin.before_forward
    before_backward = _Early.before_forward


def test_what_is_added_to_the_loss_before_the_forward_pass_stays() -> None:
    late = _weights(_learn(_Late(anew=True)))
    assert not torch.equal(late, _weights(_learn(None)))
    for anew in (True, False):
        assert torch.allclose(_weights(_learn(_Early(anew))), late, atol=1e-6)


class _Outputs(SupervisedPlugin):
    def after_forward(self, strategy: Any, **kwargs: Any) -> None:
        strategy.mb_output = strategy.mb_output * 0


def test_outputs_that_a_plugin_sets_are_those_of_the_loss() -> None:
    strategy = _learn(_Outputs())
    assert strategy.schedule.curve[0]["loss"] == pytest.approx(torch.tensor(2.0).log().item())


class _Dataset(SupervisedPlugin):
    """Trains on the first ten samples only."""

    seen = 0

    def after_train_dataset_adaptation(self, strategy: Any, **kwargs: Any) -> None:
        strategy.adapted_dataset = strategy.adapted_dataset.subset(range(10))

    def after_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
        self.seen += len(strategy.mb_y)


def test_a_data_set_that_a_plugin_adapts_is_trained_on_and_told() -> None:
    plugin = _Dataset()
    strategy = _learn(plugin)
    assert plugin.seen == 2 * 10
    assert strategy.decided == {"data": "its own"}


def test_an_optimizer_set_in_build_or_by_a_plugin_is_used_and_told() -> None:
    sgd = _learn(None)
    adam = _learn(None, lambda model: Adam(model.parameters(), lr=0.002))
    assert adam.decided == {"optimizer": "Adam(lr=0.002)"}
    assert sgd.decided == {}
    assert not torch.allclose(_weights(adam), _weights(sgd), atol=1e-3)

    class Sets(SupervisedPlugin):
        def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
            strategy.optimizer = Adam(strategy.model.parameters(), lr=0.002)

    assert torch.equal(_weights(_learn(Sets())), _weights(adam))


class _Resets(SupervisedPlugin):
    """Trains task k for k + 1 epochs in batches of 8 with another loss, and leaves no trace."""

    def before_training(self, strategy: Any, **kwargs: Any) -> None:
        self.before = strategy.train_epochs, strategy.train_mb_size, strategy._criterion
        strategy.train_epochs = strategy.clock.train_exp_counter + 1
        strategy.train_mb_size = 8
        strategy._criterion = nn.MultiMarginLoss()

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        strategy.train_mb_size = self.before[1]

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        strategy.train_epochs, _, strategy._criterion = self.before


def test_what_a_plugin_changes_and_takes_back_is_told() -> None:
    strategy = _learn(_Resets(), tasks=3)
    expected = {"epochs": "1 or 3", "batch_size": "8", "loss": "MultiMarginLoss"}
    assert strategy.decided == expected


def test_another_loss_is_told() -> None:
    stream = small_stream(1)
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)
    strategy = Strategy(model=ordinary(stream), stream=stream, criterion=loss)
    strategy.learn(0)
    assert strategy.decided == {"loss": "CrossEntropyLoss(label_smoothing=0.1)"}


class _OwnLoss(Strategy):
    def criterion(self) -> Any:
        return 2 * super().criterion()


def test_a_loss_of_a_subclass_is_told() -> None:
    stream = small_stream(1)
    strategy = _OwnLoss(model=ordinary(stream), stream=stream)
    strategy.learn(0)
    assert strategy.decided == {"loss": "its own"}


def test_a_scheduler_is_told() -> None:
    class Schedules(SupervisedPlugin):
        def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
            strategy.optimizer = SGD(strategy.model.parameters(), lr=0.1)
            self.mine = torch.optim.lr_scheduler.StepLR(strategy.optimizer, 1)

        def after_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
            self.mine.step()

    assert _learn(Schedules()).decided == {"optimizer": "SGD(lr=0.1)", "schedule": "StepLR"}


@pytest.mark.parametrize("scheduled", [False, True])
def test_what_would_change_an_optimizer_that_is_not_used_is_refused(scheduled: bool) -> None:
    stream = small_stream(1)
    strategy = Strategy(model=ordinary(stream), stream=stream)
    if scheduled:
        torch.optim.lr_scheduler.StepLR(strategy.optimizer, 1)
    else:
        strategy.optimizer.param_groups[0]["lr"] = 1e-5
    with pytest.raises(UserError, match="changes the protocol's optimizer or schedules its rate"):
        strategy.learn(0)


class _Trigger(Strategy):
    """A subclass with its own version of a trigger of Avalanche's."""

    def _before_update(self, **kwargs: Any) -> None:
        super()._before_update(**kwargs)
        for parameter in self.model.parameters():
            parameter.grad = None


def test_a_trigger_that_a_subclass_overrides_is_called() -> None:
    stream = small_stream(1)
    strategy = _Trigger(model=ordinary(stream), stream=stream)
    before = _weights(strategy)
    strategy.learn(0)
    assert torch.equal(_weights(strategy), before)
    assert strategy.decided == {"loop": "Avalanche"}


def test_an_optimizer_that_stays_keeps_its_state_and_gets_its_rate_back() -> None:
    class Drops(SupervisedPlugin):
        rates: list[float] = []

        def before_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
            self.rates.append(strategy.optimizer.param_groups[0]["lr"])
            strategy.optimizer.param_groups[0]["lr"] /= 2

    def sgd(model: nn.Module) -> SGD:
        return SGD(model.parameters(), lr=0.1, momentum=0.9)

    strategy = _learn(Drops(), sgd, tasks=2)
    assert Drops.rates == [0.1, 0.05, 0.1, 0.05]
    assert all("momentum_buffer" in s for s in strategy.optimizer.state.values())


@pytest.mark.filterwarnings("ignore:No loggers specified")
def test_the_schedule_gives_an_optimizer_its_rate_back_in_bare_avalanche() -> None:
    stream = small_stream(1)
    model = ordinary(stream)
    schedule = PlateauSchedule(stream.protocol)
    schedule.validate = lambda: (0.0, 1.0)
    sgd = SGD(model.parameters(), lr=0.1)
    strategy = Naive(
        model=model, optimizer=sgd, criterion=nn.CrossEntropyLoss(), train_mb_size=16,
        plugins=[schedule], evaluator=None,
    )  # fmt: skip
    strategy.train(stream.avalanche.train_stream[0], eval_streams=[])
    assert sgd.param_groups[0]["lr"] == 0.1
