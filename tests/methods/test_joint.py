"""Joint training: on the union, from the same start, and its data are its memory."""

from collections.abc import Callable
from typing import Any

import torch
from avalanche.training.plugins import SupervisedPlugin

from clbench.conformance import small_stream
from clbench.data import Images
from clbench.memory import of_model
from clbench.methods.joint import Joint
from clbench.runner import run
from clbench.stream import Source, Stream


class Look(SupervisedPlugin):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch.Tensor] = []

    def before_forward(self, strategy: Any, **kwargs: Any) -> None:
        self.seen.append(strategy.mb_task_id)


def test_it_trains_on_the_union_of_all_tasks(make_stream: Callable[..., Stream]) -> None:
    strategy: Any = Joint().build(make_stream(epochs=1))
    look = Look()
    strategy.plugins.append(look)
    assert strategy.learn(0) is None
    assert strategy.learn(1) is None
    assert look.seen == []
    assert strategy.learn(2) is not None
    counts = torch.cat(look.seen).bincount().tolist()
    assert counts == [len(task.train) for task in strategy.stream.tasks]
    assert any(len(batch.unique()) > 1 for batch in look.seen)  # mixed, not one after the other


def test_it_validates_on_all_tasks(make_stream: Callable[..., Stream]) -> None:
    strategy: Any = Joint().build(make_stream(epochs=1))
    curve = strategy.learn(2)
    losses, counts = [], []
    for k, task in enumerate(strategy.stream.tasks):
        out = strategy.model(task.valid.inputs(), k)
        losses.append(torch.nn.functional.cross_entropy(out, task.valid.labels, reduction="sum"))
        counts.append(len(task.valid))
    by_hand = float(sum(losses).detach()) / sum(counts)
    assert abs(curve[0]["valid_loss"] - by_hand) < 1e-5


def test_each_starts_from_the_same_weights(make_stream: Callable[..., Stream]) -> None:
    strategy: Any = Joint(each=True).build(make_stream(epochs=1))
    fresh = {k: v.clone() for k, v in strategy.model.state_dict().items()}
    starts = []

    class Start(SupervisedPlugin):
        def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
            now = strategy.model.state_dict()
            starts.append(all(torch.equal(now[k], fresh[k]) for k in fresh))

    strategy.plugins.append(Start())
    for k in range(3):
        assert strategy.learn(k) is not None
    assert starts == [True, True, True]


def test_all_images_it_keeps_count_four_bytes_a_pixel(make_stream: Callable[..., Stream]) -> None:
    strategy = Joint().build(make_stream())
    images = sum(len(t.train) + len(t.valid) for t in strategy.stream.tasks)
    assert images == 240
    memory = strategy.memory()
    assert memory.replay == 4 * 36 * 240
    assert memory.architecture == of_model(strategy.model)


def test_an_image_that_all_tasks_use_counts_once() -> None:
    """189.3 MB on Permuted MNIST in the paper: 60,000 images, and 1.1 MB of network."""
    stream = small_stream()
    images = torch.zeros(50, 1, 28, 28, dtype=torch.uint8).numpy()
    labels = (torch.arange(50) % 2).numpy()
    both = Images(images, labels)
    sources = [Source(both, both, (0, 1), (0.1,), (0.3,), view=lambda x: x.flip(2))] * 3
    shared = Stream(sources, name="shared", backbone="mlp", protocol=stream.protocol, seed=0)
    assert Joint().build(shared).memory().replay == 4 * 784 * 50


def test_rows_that_were_not_trained_are_null(cell: Callable[..., Any], place: Any) -> None:
    R = run(cell("joint"), place).R
    assert R[:2] == [[None] * 3] * 2
    assert all(isinstance(value, float) for value in R[2])
    each = run(cell("joint[each=true]"), place).R
    assert [row.count(None) for row in each] == [1, 0, 0]
    assert each[2] == R[2]  # the last is the same training
