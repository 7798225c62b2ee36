"""Splits and labels of a stream, and the Avalanche benchmark made of it."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from avalanche.evaluation.metrics import accuracy_metrics
from avalanche.models import MTSimpleMLP
from avalanche.training.plugins import EvaluationPlugin
from avalanche.training.supervised import Naive

from clbench.build import make_stream as stream_of
from clbench.data import Images, load
from clbench.errors import UserError
from clbench.loader import TensorLoader, batches
from clbench.protocol import Protocol
from clbench.stream import Source, Stream


def made_up(counts: dict[int, int], start: int = 0) -> Images:
    """`counts[c]` images of class c, each 1x2x2 and unlike any other."""
    labels = np.repeat(list(counts), list(counts.values())).astype(np.int64)
    values = start + np.arange(len(labels))
    images = np.stack([values % 256, values // 256, labels, labels], 1).astype(np.uint8)
    return Images(images.reshape(-1, 1, 2, 2), labels)


def stream(train: Images, test: Images, classes: list[tuple[int, ...]], **changes: Any) -> Stream:
    sources = [Source(train, test, c, (0.5,), (0.25,)) for c in classes]
    protocol = Protocol(valid=changes.pop("valid", 0.15))
    return Stream(sources, name="s", backbone="mlp", protocol=protocol, **{"seed": 0} | changes)


def test_the_default_stream_is_five_two_way_tasks(cell: Callable[..., Any]) -> None:
    mnist = load("mnist-5k")
    tasks = stream_of(cell(benchmark="split-mnist-5k"), {"mnist-5k": mnist}).tasks
    assert [t.classes for t in tasks] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    sizes = [(len(t.train), len(t.valid), len(t.test)) for t in tasks]
    assert sizes == [(680, 120, 200)] * 5
    for t in tasks:
        for part, split in (("train", t.train), ("train", t.valid), ("test", t.test)):
            original = torch.tensor(mnist.parts[part].labels[split.rows.numpy()])
            assert torch.equal(torch.tensor(t.classes)[split.labels], original)


def test_validation_takes_a_floor_of_its_share() -> None:
    images = made_up({0: 7, 1: 6})  # 0.15 * 13 = 1.95
    task = stream(images, images, [(0, 1)]).tasks[0]
    assert (len(task.train), len(task.valid)) == (12, 1)
    hundred = made_up({0: 50, 1: 50})  # 0.15 * 100 is 15, whatever floating point says
    assert len(stream(hundred, hundred, [(0, 1)]).tasks[0].valid) == 15


def test_train_and_valid_are_disjoint_and_together_all() -> None:
    images = made_up({0: 40, 1: 30, 2: 50})
    task = stream(images, images, [(2, 0)]).tasks[0]
    train, valid = set(task.train.rows.tolist()), set(task.valid.rows.tolist())
    assert train & valid == set()
    assert train | valid == {*range(40), *range(70, 120)}


def test_labels_are_places_in_the_tasks_own_order() -> None:
    images = made_up({3: 10, 5: 10, 7: 10, 9: 1})
    task = stream(images, made_up({5: 4, 3: 2}), [(7, 3, 5)]).tasks[0]
    for split, source in ((task.train, images), (task.test, made_up({5: 4, 3: 2}))):
        expected = [(7, 3, 5).index(c) for c in source.labels[split.rows.numpy()]]
        assert split.labels.tolist() == expected


def test_the_split_depends_on_the_seed_and_the_task_alone() -> None:
    images = made_up({0: 50, 1: 50, 2: 50, 3: 50})
    rows = lambda s, k: s.tasks[k].train.rows.tolist()  # noqa: E731
    both = stream(images, images, [(0, 1), (2, 3)])
    torch.manual_seed(99)
    again = stream(images, images, [(0, 1), (2, 3)])
    other = stream(images, images, [(0, 1), (2, 3)], seed=1)
    assert rows(both, 0) == rows(again, 0)
    assert rows(both, 1) == rows(again, 1)
    assert rows(both, 0) != rows(other, 0)
    assert rows(both, 0) == rows(stream(images, images, [(0, 1)]), 0)
    assert rows(both, 1) != [r + 100 for r in rows(both, 0)]


def test_every_method_gets_the_same_stream(cell: Callable[..., Any]) -> None:
    one, other = stream_of(cell("ewc"), {}), stream_of(cell("joint"), {})
    for a, b in zip(one.tasks, other.tasks, strict=True):
        assert torch.equal(a.train.rows, b.train.rows)
        assert torch.equal(a.valid.rows, b.valid.rows)


def test_inputs_are_scaled_by_255_and_then_by_mean_and_std() -> None:
    train = Images(np.full((20, 3, 1, 1), 51, np.uint8), np.zeros(20, np.int64))
    source = Source(train, train, (0,), (0.1, 0.2, 0.3), (0.5, 0.25, 0.1))
    made = Stream([source], name="s", backbone="mlp", protocol=Protocol(), seed=0)
    x = made.tasks[0].train.inputs(slice(0, 2))
    assert x.shape == (2, 3, 1, 1)
    assert x[1].flatten().tolist() == pytest.approx([0.2, 0.0, -1.0], abs=1e-6)
    assert train.images[0, 0, 0, 0] == 51  # the images themselves are left alone


def test_a_view_comes_before_the_scaling() -> None:
    images = made_up({0: 20})
    flipped = Source(images, images, (0,), (0.0,), (1.0,), view=lambda x: x.flip(3))
    made = Stream([flipped], name="s", backbone="mlp", protocol=Protocol(), seed=0)
    split = made.tasks[0].test
    assert torch.equal(split.inputs() * 255, split.images[split.rows].flip(3).float())


@pytest.mark.parametrize(
    ("valid", "test", "words"),
    [(0.04, {0: 3}, "validation"), (1.0, {0: 3}, "training"), (0.15, {1: 3}, "test")],
)
def test_a_task_without_images_of_some_part_is_refused_in_words(
    valid: float, test: dict[int, int], words: str
) -> None:
    with pytest.raises(UserError, match=f"task 1 has 20 images .* none is left for {words}"):
        stream(made_up({0: 20}), made_up(test), [(0,)], valid=valid)


# ---- as an Avalanche benchmark ----


def test_the_fast_loader_and_avalanches_own_give_the_same_batches(
    make_stream: Callable[..., Stream],
) -> None:
    dataset = make_stream().avalanche.train_stream[1].dataset
    fast = batches(dataset, 32)
    assert isinstance(fast, TensorLoader)
    del dataset.split
    slow = batches(dataset, 32)
    assert not isinstance(slow, TensorLoader)
    assert len(fast) == len(slow)
    for a, b in zip(fast, slow, strict=True):
        assert all(torch.equal(u, v) for u, v in zip(a, b, strict=True))


def test_a_subset_made_by_avalanche_is_not_taken_for_the_whole(
    make_stream: Callable[..., Stream],
) -> None:
    dataset = make_stream().avalanche.train_stream[0].dataset
    part = dataset.subset([5, 3])
    [(x, y, _)] = batches(part, 32)
    assert len(y) == 2
    assert torch.equal(x[0], dataset[5][0])


def test_shuffling_visits_all_once_in_another_order_each_time(
    make_stream: Callable[..., Stream],
) -> None:
    split = make_stream().tasks[0].train
    loader = TensorLoader([split], 16, torch.Generator().manual_seed(0))
    one, two = (torch.cat([x for x, _, _ in loader]) for _ in range(2))
    assert not torch.equal(one, two)
    rows = lambda x: sorted(map(tuple, x.flatten(1).tolist()))  # noqa: E731
    assert rows(one) == rows(two) == rows(split.inputs())


def test_stock_avalanche_trains_and_measures_on_the_stream(
    make_stream: Callable[..., Stream],
) -> None:
    made = make_stream(tasks=2).avalanche
    assert [e.task_label for e in made.train_stream] == [0, 1]
    assert [set(e.classes_in_this_experience) for e in made.test_stream] == [{0, 1}, {0, 1}]
    model = MTSimpleMLP(input_size=36, hidden_size=32)
    model.classifier.masking = False  # Avalanche 0.6's masking fails on its own classes timeline
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "No loggers specified")
        evaluator = EvaluationPlugin(accuracy_metrics(experience=True))
    strategy = Naive(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        criterion=torch.nn.CrossEntropyLoss(),
        train_mb_size=16,
        train_epochs=3,
        eval_mb_size=64,
        evaluator=evaluator,
    )
    for experience in made.train_stream:
        strategy.train(experience)
    metrics = strategy.eval(made.test_stream)
    values = {k: v for k, v in metrics.items() if k.startswith("Top1_Acc_Exp")}
    assert len(values) == 2
    assert min(values.values()) > 0.6  # chance is 0.5
