"""ER-RES: batches are joined, and the reservoir counts on."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from avalanche.training.plugins import SupervisedPlugin

from clbench.methods.er_res import ERReservoir
from clbench.stream import Stream


class Look(SupervisedPlugin):
    """Notes every batch as it is trained on."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[list[int]] = []

    def before_forward(self, strategy: Any, **kwargs: Any) -> None:
        self.tasks.append(strategy.mb_task_id.tolist())
        assert len(strategy.mb_x) == len(strategy.mb_y) == len(strategy.mb_task_id)


@pytest.mark.parametrize(("replay_batch", "joined"), [(None, 16), (5, 5)])
def test_replayed_samples_join_every_batch(
    make_stream: Callable[..., Stream], replay_batch: int | None, joined: int
) -> None:
    torch.manual_seed(0)
    strategy: Any = ERReservoir(per_class=13, replay_batch=replay_batch).build(
        make_stream(epochs=1)
    )
    look = Look()
    strategy.plugins.append(look)
    strategy.learn(0)
    assert len(look.tasks[0]) == 16  # nothing to replay yet
    # after one batch of 16 the reservoir holds 16; after five or more it is full
    assert len(look.tasks[1]) == 16 + joined
    look.tasks.clear()
    strategy.learn(1)
    for tasks in look.tasks[:-1]:
        assert tasks[:16] == [1] * 16
        assert len(tasks) == 16 + joined
    assert look.tasks[0][16:] == [0] * joined
    assert any(1 in tasks[16:] for tasks in look.tasks)


def test_the_reservoir_counts_over_epochs_and_tasks(make_stream: Callable[..., Stream]) -> None:
    torch.manual_seed(0)
    strategy: Any = ERReservoir(per_class=3).build(make_stream(epochs=2))
    images = len(strategy.stream.tasks[0].train)  # 80 less 15 %
    assert images == 68
    for k in range(3):
        strategy.learn(k)
        assert strategy.plugins[1].buffer.offered == 2 * images * (k + 1)
    assert len(strategy.plugins[1].buffer) == 3 * 6  # per class, of all six classes
    assert strategy.memory().replay == 18 * 36 * 4
    assert set(strategy.plugins[1].buffer.columns["t"].tolist()) == {0, 1, 2}


def test_replayed_samples_are_not_offered_again(make_stream: Callable[..., Stream]) -> None:
    torch.manual_seed(0)
    strategy: Any = ERReservoir(per_class=100).build(make_stream(epochs=1))
    for k in range(2):
        strategy.learn(k)
    buffer = strategy.plugins[1].buffer
    assert len(buffer) == 2 * 68  # each training image once
    assert len(buffer.columns["x"].flatten(1).unique(dim=0)) == 2 * 68
