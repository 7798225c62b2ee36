"""Class- and domain-incremental streams: labels, the one head, what a run records of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from clbench import load, metrics
from clbench.data import Images
from clbench.errors import UserError
from clbench.grid import make_grid
from clbench.networks import ordinary
from clbench.networks.backbones import Backbone
from clbench.networks.heads import MultiHead
from clbench.protocol import Protocol
from clbench.resolve import make_cell
from clbench.runner import run
from clbench.store import Place
from clbench.stream import Source, Stream
from clbench.training import Strategy
from clbench.training.augment import flip_crop
from clbench.training.tally import Tally


def images(labels: list[int]) -> Images:
    """Four different images per label."""
    many = np.repeat(labels, 4).astype(np.int64)
    pixels = np.arange(len(many) * 4).reshape(-1, 1, 2, 2) % 251
    return Images(pixels.astype(np.uint8), many)


def stream(classes: list[tuple[int, ...]], scenario: str, **protocol: Any) -> Stream:
    data = images(sorted({c for task in classes for c in task}))
    sources = [Source(data, data, task, (0.5,), (0.25,)) for task in classes]
    given = Protocol(valid=0.25, batch_size=4, epochs=2).changed(protocol)
    made = Stream(sources, name="s", backbone="mlp", protocol=given, seed=3, scenario=scenario)
    return made


def test_in_class_the_labels_go_on_from_task_to_task() -> None:
    made = stream([(4, 2), (7,), (2, 9)], "class")
    assert made.labels == [[0, 1], [2], [1, 3]]  # class 2 keeps its label
    assert made.heads == [4]
    assert made.seen == [2, 3, 4]
    assert sorted(made.tasks[2].test.labels.unique().tolist()) == [1, 3]
    # networks and Avalanche are not told the task
    assert {split.label for task in made.tasks for split in (task.train, task.test)} == {0}
    assert [e.task_labels for e in made.avalanche.test_stream] == [[0], [0], [0]]
    assert list(made.avalanche.classes_order) == [0, 1, 2, 1, 3]


def test_in_domain_all_tasks_have_the_same_labels_and_one_head() -> None:
    made = stream([(1, 3), (1, 3)], "domain")
    assert made.labels == [[0, 1], [0, 1]]
    assert made.heads == [2]
    assert made.seen == [2, 2]
    with pytest.raises(UserError, match="the same classes in the same order"):
        stream([(1, 3), (3, 1)], "domain")


def test_in_task_each_task_has_its_own_labels_and_head() -> None:
    made = stream([(4, 2), (7,)], "task")
    assert made.labels == [[0, 1], [0]]
    assert made.heads == [2, 1]
    assert [task.train.label for task in made.tasks] == [0, 1]


def test_class_needs_one_data_set() -> None:
    sources = [Source(images([0]), images([0]), (0,), (0.5,), (0.25,)) for _ in range(2)]
    with pytest.raises(UserError, match="same data set"):
        Stream(sources, name="s", backbone="mlp", protocol=Protocol(), seed=0, scenario="class")


def test_an_unknown_scenario_of_a_benchmark_is_named() -> None:
    with pytest.raises(UserError, match="scenario of s 'clas'"):
        stream([(0,), (1,)], "clas")


def test_the_one_head_shows_classes_when_their_task_begins() -> None:
    made = stream([(0, 1), (2, 3), (4, 5)], "class")
    strategy = Strategy(model=ordinary(made), stream=made)
    head = strategy.model.heads[0]
    before = head.weight.detach().clone()
    widths, x = [], made.tasks[0].test.inputs()
    for k in range(3):
        strategy.learn(k)
        widths.append(strategy.model.eval()(x, 0).shape[1])
        assert torch.equal(head.weight[2 * k + 2 :], before[2 * k + 2 :])  # not yet learned
    assert widths == [2, 4, 6]
    fresh = ordinary(made)
    fresh.load_state_dict(strategy.model.state_dict())
    assert fresh.eval()(x, 0).shape[1] == 6


def test_a_tally_counts_answers_with_and_without_the_task() -> None:
    tally = Tally(stream([(0, 1), (2, 3)], "class"))
    out = torch.tensor([[5.0, 0, 9, 0], [0, 5, 0, 9], [9, 5, 0, 0], [0, 0, 0, 9]])
    tally.add(out, torch.tensor([0, 0, 0, 1]), torch.tensor(0.5), 0)
    # answers 2, 3, 0, 3; among the classes of task 1: 0, 1, 0, 0
    assert tally.accuracy == 25
    assert tally.accuracy_given == 50
    assert tally.shares == [25, 75]
    assert tally.mean_loss == 0.5


def test_average_incremental_accuracy_is_a_mean_of_means() -> None:
    R = [[90.0, None, None], [60.0, 80.0, None], [30.0, 60.0, 90.0]]
    assert metrics.average_incremental(R) == pytest.approx((90 + 70 + 60) / 3)


@pytest.mark.parametrize(
    ("order", "classes"),
    [("fixed", [(0, 1), (2, 3)]), ("3/0/2/1", [(3, 0), (2, 1)]), ("", [(2, 0), (3, 1)])],
)
def test_a_class_order_moves_classes_between_tasks(
    order: str, classes: list[tuple[int, int]]
) -> None:
    made = stream([(2, 0), (3, 1)], "class", class_order=order)
    assert [task.classes for task in made.tasks] == classes
    assert made.labels == [[0, 1], [2, 3]]


def test_a_class_order_from_the_seed_depends_on_the_seed_alone() -> None:
    drawn = np.random.RandomState(3).permutation(4).tolist()
    made = stream([(2, 0), (3, 1)], "class", class_order="seed")
    assert [c for task in made.tasks for c in task.classes] == drawn


@pytest.mark.parametrize("order", ["0/1", "0/1/2/2", "a/b/c/d", "0/1/2/3/4"])
def test_a_class_order_that_is_no_permutation_is_refused(order: str) -> None:
    with pytest.raises(UserError, match=r"--class-order .*each of the 4 classes once"):
        stream([(2, 0), (3, 1)], "class", class_order=order)


def test_a_class_order_is_refused_where_tasks_share_classes() -> None:
    with pytest.raises(UserError, match="tasks split the classes"):
        stream([(0, 1), (0, 1)], "domain", class_order="seed")


def test_parameters_that_came_later_change_no_id() -> None:
    [cell] = make_grid("finetune", "split-mnist-5k", [0], {})
    assert cell.spec.benchmark_params == {}
    assert cell.scenario == "task"
    [other] = make_grid("finetune", "split-mnist-5k[scenario=class]", [0], {})
    assert other.spec.benchmark_params == {"scenario": "class"}
    assert other.id != cell.id
    assert other.labels["benchmark"] == "split-mnist-5k[scenario=class]"
    [same] = make_grid("finetune", "split-mnist-5k[scenario=task]", [0], {})
    assert same.id == cell.id


def test_a_run_in_class_records_confusion_and_accuracies_with_the_task_given(
    tmp_path: Path, clbench: Callable[..., Any]
) -> None:
    [cell] = make_grid("finetune", "split-mnist-5k[scenario=class]", [0], {"epochs": 1})
    record = run(cell, Place(tmp_path, tmp_path))
    assert record.scenario == "class"
    assert record.R0 == []
    for k, row in enumerate(record.R):
        assert all(v is not None for v in row[: k + 1])
        assert row[k + 1 :] == [None] * (4 - k)
    for own, given in zip(record.R, record.R_given, strict=True):
        pairs = [(a, b) for a, b in zip(own, given, strict=True) if a is not None]
        assert all(b is not None and b >= a for a, b in pairs)
    assert np.allclose(np.sum(record.confusion, axis=1), 100)
    # an answer is right only if it lies in the right task
    assert all(record.confusion[i][i] >= record.R[-1][i] for i in range(5))
    frame = load(tmp_path)
    assert frame.given[0] == pytest.approx(np.mean(record.R_given[-1]))
    made = clbench("report", "--out", str(tmp_path))
    assert made.code == 0
    assert "avg. %" in made.out
    assert "Class-incremental: one head" in made.out


class _Plain(nn.Module):
    """A user's network with the same head for all tasks, by Avalanche's own rules."""

    def __init__(self, trunk: Backbone, classes: int) -> None:
        super().__init__()
        self.trunk, self.head = trunk, nn.Linear(trunk.features, classes)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.trunk(x))
        return out


def test_fine_tuning_in_domain_is_plain_training_of_one_network() -> None:
    made = stream([(0, 1), (0, 1)], "domain")
    torch.manual_seed(0)
    ours = Strategy(model=ordinary(made), stream=made)
    assert isinstance(ours.model, MultiHead)
    torch.manual_seed(0)
    theirs = Strategy(model=_Plain(ordinary(made).trunk, 2), stream=made)
    theirs.model.trunk.load_state_dict(ours.model.trunk.state_dict())
    theirs.model.head.load_state_dict(ours.model.heads[0].state_dict())
    for k in range(2):
        for strategy in (ours, theirs):
            torch.manual_seed(k)
            strategy.learn(k)
    x = made.tasks[0].test.inputs()
    assert torch.equal(ours.model.eval()(x, 0), theirs.model.eval()(x))


def test_without_validation_data_every_epoch_is_trained_at_one_rate() -> None:
    made = stream([(0, 1), (2, 3)], "task", valid=0.0, epochs=3, patience=1, lr_min=0.04, lr=0.05)
    assert all(len(task.valid) == 0 and len(task.train) == 8 for task in made.tasks)
    strategy = Strategy(model=ordinary(made), stream=made)
    curve = strategy.learn(0)
    assert curve is not None
    assert [(e["epoch"], e["lr"], e["samples"]) for e in curve] == [(n, 0.05, 8) for n in (1, 2, 3)]
    assert not any("valid_loss" in entry for entry in curve)


def test_flip_crop_mirrors_and_shifts_whole_images() -> None:
    x = torch.arange(2 * 3 * 6 * 5).view(2, 3, 6, 5).float() + 1
    black = torch.tensor([-1.0, -2.0, -3.0]).view(3, 1, 1)
    draws = torch.Generator().manual_seed(4)
    mirrored = torch.rand(2, generator=draws) < 0.5
    down, right = torch.randint(9, (2, 2, 1), generator=draws) - 4
    made = flip_crop(x, black, torch.Generator().manual_seed(4))
    for n in range(2):
        for c in range(3):
            for row in range(6):
                for column in range(5):
                    from_row, at = row + int(down[n]), column
                    at = (4 - at if mirrored[n] else at) + int(right[n])
                    inside = 0 <= from_row < 6 and 0 <= at < 5
                    wanted = x[n, c, from_row, at] if inside else black[c, 0, 0]
                    assert made[n, c, row, column] == wanted


def test_augmentation_changes_the_step_and_not_what_a_memory_keeps() -> None:
    seen: list[Tensor] = []

    class Watching(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor) -> Tensor:
            seen.append(x.clone())
            return self.inner(x, 0)  # type: ignore[no-any-return]

    from clbench.methods.er_res import ReservoirReplayPlugin

    made = stream([(0, 1), (0, 1)], "domain", augment="flip-crop", epochs=1)
    plugin = ReservoirReplayPlugin(4)
    strategy = Strategy(model=Watching(ordinary(made)), stream=made, plugins=[plugin])
    strategy.learn(0)
    originals = made.tasks[0].train.inputs()
    kept = plugin.buffer.columns["x"]
    assert all(any(torch.equal(x, image) for image in originals) for x in kept)
    trained = torch.cat(seen[:1])
    assert not all(any(torch.equal(x, image) for image in originals) for x in trained)
    again = Strategy(model=ordinary(made), stream=made)
    again.learn(0)
    assert again.decided == {}


@pytest.mark.parametrize("method", ["acl", "acl-joint", "hat", "pnn", "packnet"])
def test_a_method_that_needs_the_task_is_refused_before_training(
    method: str, tmp_path: Path, clbench: Callable[..., Any]
) -> None:
    command = ["run", "--methods", method, "--benchmarks", "split-mnist-5k[scenario=class]"]
    for more in ([], ["--dry-run"]):
        result = clbench(*command, "--out", str(tmp_path), *more)
        assert result.code == 2
        assert "learns in the scenario task only" in result.err
    assert not list(tmp_path.glob("records/*"))


def test_a_scenario_that_a_benchmark_does_not_have_is_refused() -> None:
    with pytest.raises(UserError, match="scenario=domain is not one of task, class"):
        make_grid("ewc", "split-mnist-5k[scenario=domain]", [0], {})


def test_a_benchmark_with_a_fixed_scenario_trains_in_it(tmp_path: Path) -> None:
    text = '''
from clbench.benchmark import Benchmark
from clbench.stream import class_tasks

class Mine(Benchmark):
    """Two tasks of five digits."""
    title = "Mine"
    datasets = ("mnist-5k",)
    scenario = "class"
    def sources(self, data, seed):
        return class_tasks(data["mnist-5k"], 2, mean=(0.13,), std=(0.3,))
'''
    path = tmp_path / "mine.py"
    path.write_text(text)
    [cell] = make_grid("finetune", str(path), [0], {"epochs": 1})
    assert cell.scenario == "class"
    record = run(cell, Place(tmp_path / "out", tmp_path))
    assert record.scenario == "class"
    assert len(record.confusion) == 2
    assert make_cell(cell.method, {}, cell.benchmark, {}, 0, {}).scenario == "class"


def test_a_buffer_in_samples_is_not_shown_as_a_size_per_class(tmp_path: Path) -> None:
    given = {"epochs": 1}
    for name, shown in (("er-res[buffer=20]", ""), ("er-res[per_class=2]", "per_class")):
        [cell] = make_grid(name, "split-mnist-5k", [0], given)
        record = run(cell, Place(tmp_path, tmp_path))
        assert record.replay_size == shown
        assert record.memory.replay == 20 * 784 * 4
