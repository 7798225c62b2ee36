"""Memories of past samples."""

from collections import Counter
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from clbench.conformance import small_stream
from clbench.errors import UserError
from clbench.grid import make_grid
from clbench.memory import Memory
from clbench.methods.agem import AGEM
from clbench.methods.derpp import DERPP
from clbench.methods.er_res import ERReservoir
from clbench.training.buffers import Buffer, ClassBuffer, Replay, Reservoir, Union


def samples(start: int, n: int, task: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """n samples whose x, y and t can be told from their number."""
    numbers = torch.arange(start, start + n)
    return numbers.float().view(-1, 1), numbers % 7, torch.full_like(numbers, task)


def test_a_reservoir_first_takes_all() -> None:
    reservoir = Reservoir(5)
    reservoir.offer(*samples(0, 3))
    assert reservoir.columns["x"].flatten().tolist() == [0, 1, 2]
    reservoir.offer(*samples(3, 2))
    assert reservoir.columns["x"].flatten().tolist() == [0, 1, 2, 3, 4]
    assert (len(reservoir), reservoir.offered) == (5, 5)


@pytest.mark.parametrize("batch", [1, 3, 20])
def test_a_reservoir_is_algorithm_r(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as an independent few lines that are given the same draws."""
    g = torch.Generator().manual_seed(3)
    draws = torch.rand(20, generator=g, dtype=torch.float64)
    expected: list[int] = []
    for number in range(1, 21):
        if len(expected) < 4:
            expected.append(number - 1)
        elif (slot := int(draws[number - 1] * number)) < 4:
            expected[slot] = number - 1
    used = 4  # the first four samples need no draw

    def rand(n: int, dtype: torch.dtype) -> Tensor:
        nonlocal used
        used += n
        return draws[used - n : used]

    monkeypatch.setattr(torch, "rand", rand)
    reservoir = Reservoir(4)
    for start in range(0, 20, batch):
        reservoir.offer(*samples(start, min(batch, 20 - start)))
    assert reservoir.columns["x"].flatten().tolist() == expected
    assert reservoir.offered == used == 20


def test_labels_and_tasks_stay_with_their_sample() -> None:
    torch.manual_seed(0)
    reservoir = Reservoir(6)
    for task, start in product(range(3), (0, 40)):
        reservoir.offer(*samples(100 * task + start, 40, task))
    numbers = reservoir.columns["x"].flatten().long()
    assert torch.equal(reservoir.columns["y"], numbers % 7)
    assert torch.equal(reservoir.columns["t"], numbers // 100)
    assert len(set(numbers.tolist())) == 6


def test_every_sample_ever_offered_is_kept_with_the_same_chance() -> None:
    """30 samples in batches of 8, a reservoir of 6, 1500 times: each is kept 300 times of them."""
    torch.manual_seed(1)
    counts = torch.zeros(30)
    for _ in range(1500):
        reservoir = Reservoir(6)
        for start in range(0, 30, 8):
            reservoir.offer(*samples(start, min(8, 30 - start)))
        counts[reservoir.columns["x"].flatten().long()] += 1
    assert counts.sum() == 1500 * 6
    chi_square = ((counts - 300) ** 2 / 300).sum() / (1 - 6 / 30)
    assert chi_square < 58.3  # 29 degrees of freedom: exceeded once in a thousand


def test_a_reservoir_goes_on_counting_after_it_was_saved() -> None:
    one = Reservoir(4)
    torch.manual_seed(0)
    one.offer(*samples(0, 50))
    two = Reservoir(4)
    two.load_state_dict({k: v.clone() if isinstance(v, Tensor) else v
                         for k, v in one.state_dict().items()})  # fmt: skip
    for reservoir in (one, two):
        torch.manual_seed(5)
        reservoir.offer(*samples(50, 30))
    assert one.offered == two.offered == 80
    assert torch.equal(one.columns["x"], two.columns["x"])


def test_the_buffer_keeps_its_own_copy() -> None:
    x, y, t = samples(0, 2)
    reservoir = Reservoir(2)
    reservoir.offer(x, y, t)
    x.zero_()
    assert reservoir.columns["x"].flatten().tolist() == [0, 1]


def test_draws_are_different_samples_of_the_buffer() -> None:
    reservoir = Reservoir(10)
    reservoir.offer(*samples(0, 10, task=3))
    torch.manual_seed(0)
    x, y, t = reservoir.draw(6)
    assert len(set(x.flatten().tolist())) == 6
    assert torch.equal(y, x.flatten().long() % 7)
    assert t.tolist() == [3] * 6
    assert len(reservoir.draw(99)[1]) == 10


def test_a_class_buffer_keeps_so_many_of_every_class_of_every_task() -> None:
    torch.manual_seed(0)
    buffer = ClassBuffer(3)
    for task in range(2):
        y = torch.tensor([0] * 10 + [1] * 2 + [4] * 5)
        x = (100 * task + torch.arange(17)).float().view(-1, 1)
        buffer.keep(x, y, torch.full_like(y, task))
    pairs = list(zip(buffer.columns["t"].tolist(), buffer.columns["y"].tolist(), strict=True))
    assert {p: pairs.count(p) for p in set(pairs)} == {
        (0, 0): 3, (0, 1): 2, (0, 4): 3, (1, 0): 3, (1, 1): 2, (1, 4): 3,
    }  # fmt: skip
    for number, label, task in zip(
        buffer.columns["x"].flatten().tolist(), *buffer_lists(buffer), strict=True
    ):
        inside = int(number) - 100 * task
        assert label == (0 if inside < 10 else 1 if inside < 12 else 4)
    assert len(set(buffer.columns["x"].flatten().tolist())) == 16


def buffer_lists(buffer: ClassBuffer) -> tuple[list[int], list[int]]:
    return buffer.columns["y"].tolist(), buffer.columns["t"].tolist()


def test_the_samples_of_a_class_are_drawn_not_the_first() -> None:
    torch.manual_seed(0)
    buffer = ClassBuffer(3)
    buffer.keep(torch.arange(50.0).view(-1, 1), torch.zeros(50).long(), torch.zeros(50).long())
    assert buffer.columns["x"].flatten().tolist() != [0, 1, 2]
    split = small_stream().tasks[0].train
    drawn = []
    for _ in range(2):
        buffer = ClassBuffer(3)
        buffer.keep_from(SimpleNamespace(split=split))
        drawn.append(buffer.columns["x"])
    assert not torch.equal(*drawn)


def test_replay_counts_four_bytes_a_number() -> None:
    reservoir = Reservoir(13)
    reservoir.offer(torch.zeros(13, 3, 32, 32), torch.zeros(13).long(), torch.zeros(13).long())
    assert reservoir.memory() == Memory(replay=13 * 3 * 32 * 32 * 4)


def union(new: int, kept: int, batch: int, seed: int = 0) -> list[list[Tensor]]:
    """One pass over `new` samples of task 1 and `kept` samples of task 0, numbered on."""
    torch.manual_seed(seed)
    buffer = Buffer()
    buffer.append(*samples(new, kept))
    x, y, t = samples(0, new, task=1)
    loader = [list(part) for part in zip(*(c.split(5) for c in (x, y, t)), strict=True)]
    batches = Union(loader, new, buffer, batch)
    made = list(batches)
    assert len(batches) == len(made)
    return made


@pytest.mark.parametrize(("new", "kept", "batch"), [(23, 9, 8), (4, 40, 6), (30, 1, 31), (7, 3, 1)])
def test_a_union_gives_every_sample_once_in_full_batches(new: int, kept: int, batch: int) -> None:
    made = union(new, kept, batch)
    sizes = [len(y) for _, y, _ in made]
    assert sizes[:-1] == [batch] * (len(made) - 1)
    x, y, t = map(torch.cat, zip(*made, strict=True))
    numbers = x.flatten().long()
    assert sorted(numbers.tolist()) == list(range(new + kept))
    assert torch.equal(y, numbers % 7)
    assert torch.equal(t, (numbers < new).long())


def test_a_union_replays_at_the_rate_of_the_memory() -> None:
    """Each batch of 10 from 75 new and 25 kept samples has 2.5 kept ones on average."""
    shares = torch.tensor([
        [float((t == 0).sum()) for _, _, t in union(75, 25, 10, seed)] for seed in range(400)
    ])  # fmt: skip
    assert torch.equal(shares.sum(1), torch.full((400,), 25.0))
    # hypergeometric: variance 10 * 1/4 * 3/4 * 90/99, so the mean of 400 is within 4 sigma
    assert (shares.mean(0) - 2.5).abs().max() < 4 * (10 * 0.25 * 0.75 * 90 / 99 / 400) ** 0.5


def test_a_last_batch_that_is_too_small_joins_the_one_before() -> None:
    """Batch normalisation cannot train on one sample."""
    buffer = Buffer()
    buffer.append(*samples(0, 9))
    assert [len(y) for _, y, _ in Replay(buffer, 4, "cpu")] == [4, 4, 1]
    assert [len(y) for _, y, _ in Replay(buffer, 4, "cpu", least=2)] == [4, 5]
    loader = [list(samples(9, 8))]
    assert [len(y) for _, y, _ in Union(loader, 8, buffer, 4, least=2)] == [4, 4, 4, 5]
    assert len(Union(loader, 8, buffer, 4, least=2)) == 4
    assert [len(y) for _, y, _ in Replay(buffer, 20, "cpu", least=30)] == [9]


def test_a_replay_gives_every_sample_once_in_a_new_order() -> None:
    buffer = Buffer("z")
    buffer.append(*samples(0, 9), torch.zeros(9, 2))
    replay = Replay(buffer, 4, "cpu")
    passes = [[torch.cat(column) for column in zip(*replay, strict=True)] for _ in range(2)]
    for x, y, _ in passes:
        assert sorted(x.flatten().tolist()) == list(range(9))
        assert torch.equal(y, x.flatten().long() % 7)
    assert not torch.equal(passes[0][0], passes[1][0])


@pytest.mark.parametrize("method", [ERReservoir, DERPP])
def test_a_reservoir_may_be_given_in_samples(method: Any) -> None:
    stream = small_stream(1)  # of 7 classes
    sizes = {"per_class": 2, "buffer": 30}
    for given, size in ({"per_class": 2}, 14), ({"buffer": 30}, 30), (sizes, 30):
        assert method(**given).build(stream).plugins[1].buffer.size == size


def test_a_gem_divides_its_buffer_among_the_classes_of_all_tasks() -> None:
    stream = small_stream(1)  # of 7 classes
    strategy: Any = AGEM(buffer=30).build(stream)
    for k in range(3):
        strategy.learn(k)
    y, t = (strategy.plugins[1].buffer.columns[c] for c in "yt")
    assert Counter(zip(t.tolist(), y.tolist(), strict=True)) == {
        (k, c): 4 for k, own in enumerate(stream.classes) for c in range(own)
    }
    assert strategy.memory().replay == 28 * 784 * 4
    with pytest.raises(UserError, match=r"buffer=6 has no room .* stream's 7 classes[.]"):
        AGEM(buffer=6).build(stream)


@pytest.mark.parametrize("name", ["agem", "er-res", "derpp"])
def test_a_buffer_that_is_not_given_leaves_the_id_as_it_was(name: str) -> None:
    def spec(text: str) -> Any:
        return make_grid(text, "split-mnist-5k", [0], {})[0].versioned().method.params

    assert "buffer" not in spec(name)
    assert spec(f"{name}[buffer=200]") == spec(name) | {"buffer": 200}
