"""A frozen S of ACL is asked once for what it says of a sample, and the results stay the same."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from avalanche.training.plugins import SupervisedPlugin

from clbench.conformance import small_stream
from clbench.grid import make_grid
from clbench.loader import Known
from clbench.methods._acl_frozen import FrozenLatents
from clbench.methods.acl import ACL
from clbench.seeding import seed_everything

EPOCHS = 3


def learned(tasks: int = 1, **params: Any) -> tuple[Any, list[int]]:
    """A strategy after some tasks, and how many samples went through S since, batch by batch."""
    torch.set_num_threads(1)
    stream = small_stream(epochs=EPOCHS)
    seed_everything(0, "init")
    strategy = ACL(**{"shared_rate": 0.0} | params).build(stream)
    for k in range(tasks):
        seed_everything(0, "task", k)
        strategy.learn(k)
    asked: list[int] = []
    strategy.model.shared.register_forward_hook(lambda *call: asked.append(len(call[2])))
    return strategy, asked


def test_s_is_asked_once_a_task_for_each_sample_of_training_and_validation() -> None:
    strategy, asked = learned()
    for k in (1, 2):
        asked.clear()
        assert len(strategy.learn(k)) == EPOCHS
        task = strategy.stream.tasks[k]
        assert sum(asked) == len(task.train) + len(task.valid)


@pytest.mark.parametrize(
    "params", [{"shared_rate": 1.0}, {"per_class": 2, "replay_private": "current"}]
)
def test_s_is_asked_in_every_step_where_it_learns_or_samples_are_replayed(params: Any) -> None:
    strategy, asked = learned(**params)
    strategy.learn(1)
    assert sum(asked) > EPOCHS * len(strategy.stream.tasks[1].train)


@pytest.mark.parametrize("preset", ["frozen", "official"])
def test_the_results_are_those_of_asking_always(
    preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    [cell] = make_grid(f"acl[preset={preset},shared_rate=0]", "split-mnist-5k", [0], {})
    params = cell.spec.method_params
    assert params["valid_total"] == (preset == "official")

    def run() -> tuple[list[Any], list[Any], dict[str, Any]]:
        strategy, _ = learned(2, **params)
        accuracies: list[Any] = [strategy.accuracy(k) for k in range(3)]
        accuracies.append(strategy.diagnostics()["without"])
        weights = {n: w.clone() for n, w in strategy.model.state_dict().items()}
        return strategy.learn(2), accuracies, weights

    curve, accuracies, weights = run()
    monkeypatch.setattr(FrozenLatents, "put_into", lambda *_, **__: None)
    other_curve, other_accuracies, other_weights = run()
    assert accuracies == other_accuracies
    for mine, theirs in zip(curve, other_curve, strict=True):
        assert mine["valid_loss"] == pytest.approx(theirs["valid_loss"], rel=1e-5)
    torch.testing.assert_close(weights, other_weights)


@pytest.mark.parametrize("measure", ["accuracy", "valid_accuracy"])
def test_a_changed_s_is_asked_again(measure: str) -> None:
    strategy, asked = learned(2)
    before = getattr(strategy, measure)(0)
    seen = sum(asked)
    assert seen > 0
    assert getattr(strategy, measure)(0) == before
    assert sum(asked) == seen
    with torch.no_grad():
        strategy.model.shared[-3].weight.neg_()  # the last linear layer
    after = getattr(strategy, measure)(0)
    assert sum(asked) == 2 * seen
    strategy.plugins[1].latents = FrozenLatents()
    assert getattr(strategy, measure)(0) == after


def test_what_a_change_of_s_makes_untrue_is_not_used_by_another_measurement() -> None:
    strategy, _ = learned(2)
    valid = [strategy.stream.avalanche.valid_stream[1]]

    def turn() -> None:
        with torch.no_grad():
            strategy.model.shared[-3].weight.neg_()

    first = strategy._measure(valid)
    turn()
    strategy.accuracy(1)
    assert strategy._measure(valid) != first
    strategy.model.requires_grad_(True)  # an S that learns is always asked
    turn()
    assert strategy._measure(valid).mean_loss == pytest.approx(first.mean_loss)


def test_s_is_asked_about_samples_that_a_plugin_changes() -> None:
    class Mirror(SupervisedPlugin):
        def before_eval_iteration(self, strategy: Any, **kwargs: Any) -> None:
            strategy.mbatch[0] = strategy.mbatch[0].flip(3)

    strategy, asked = learned(2)
    strategy.plugins.append(Mirror())
    for _ in range(2):
        asked.clear()
        found = strategy._measure([strategy.stream.avalanche.test_stream[0]])
        assert sum(asked) >= len(strategy.stream.tasks[0].test)
    strategy.plugins[1].latents.put_into = lambda *_, **__: None
    assert strategy._measure([strategy.stream.avalanche.test_stream[0]]) == found


def test_what_is_known_of_samples_is_used_for_them_alone_and_not_for_their_gradients() -> None:
    net = learned()[0].model.eval()
    x = torch.randn(4, 1, 28, 28)
    net.known = Known(x, torch.full((4, 64), 7.0))
    assert torch.equal(net.latents(x, 0)[0], net.known.values)
    assert torch.equal(net.latents(x.clone(), 0)[0], net.shared(x))
    x.requires_grad_()
    assert torch.equal(net.latents(x, 0)[0], net.shared(x))


def test_diagnostics_ask_s_only_where_it_was_not_asked_yet() -> None:
    strategy, asked = learned(2)
    before = strategy.diagnostics()
    seen = sum(asked)
    assert seen == len(strategy.stream.tasks[1].test)
    strategy.accuracy(1)
    assert sum(asked) == 2 * seen
    assert strategy.diagnostics() == before
    assert sum(asked) == 2 * seen


def test_only_test_data_are_kept_for_later_tasks() -> None:
    strategy, _ = learned(2)
    strategy.accuracy(0)
    kept = strategy.plugins[1].latents.kept
    assert len(kept) == 3  # training and validation data of task 2, test data of task 1
    experience = strategy.stream.avalanche.train_stream[2]
    strategy.plugins[1].before_training_exp(
        SimpleNamespace(experience=experience, device="cpu", optimizer=strategy.optimizer)
    )
    [(split, z_s, _)] = strategy.plugins[1].latents.kept.values()
    assert split is strategy.stream.tasks[0].test
    torch.testing.assert_close(z_s, strategy.model.eval().shared(split.inputs()))


def test_nothing_known_stays_on_the_network() -> None:
    strategy, _ = learned(2)
    seen = []

    class Look(SupervisedPlugin):
        def after_forward(self, strategy: Any, **kwargs: Any) -> None:
            seen.append(strategy.model.known.x is strategy.mb_x)

        after_eval_forward = after_forward

    strategy.plugins.append(Look())
    strategy.learn(2)
    assert all(seen)
    assert strategy.model.known is None
    strategy.accuracy(0)
    strategy.diagnostics()
    assert strategy.model.known is None
