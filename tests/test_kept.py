"""What a strategy keeps is found: tensors, arrays, networks and samples, each once."""

import array
import collections
import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from avalanche.benchmarks.utils.utils import concat_datasets
from avalanche.training.plugins import SupervisedPlugin
from torch import nn

from clbench.conformance import small_stream
from clbench.memory import Memory, of_model
from clbench.networks import ordinary
from clbench.training import Strategy
from clbench.training.kept import find, memory_of

STREAM = small_stream()
MODEL = ordinary(STREAM)
SAMPLE = 4 * 28 * 28


def _memory(**roots: Any) -> Memory:
    return memory_of(find(roots, MODEL, STREAM))


def test_numbers_in_any_container_count_four_bytes_each() -> None:
    a, b = torch.zeros(3), np.zeros((2, 5), np.uint8)
    held = {"x": [(a,), collections.deque([b])], "y": SimpleNamespace(z={7: torch.zeros(2, 2)})}
    assert _memory(held=held) == Memory(auxiliary=4 * (3 + 10 + 4))


def test_what_is_held_twice_counts_once() -> None:
    a = torch.zeros(6)
    assert _memory(a=a, again=[a, a.view(2, 3)]) == Memory(auxiliary=24)


def test_labels_counters_and_the_network_itself_do_not_count() -> None:
    held = [torch.zeros(9, dtype=torch.long), 5, "text", MODEL, next(MODEL.parameters()).data]
    assert _memory(held=held, step=torch.optim.SGD(MODEL.parameters(), lr=1)) == Memory()


IMAGE = torch.rand(1, 28, 28)
LEARNED_FROM = 280  # images of the stream


@pytest.mark.parametrize(
    ("held", "counted"),
    [
        (IMAGE.flatten().tolist(), 4 * 784),
        ([row.tolist() for row in IMAGE[0]], 4 * 784),
        (dict.fromkeys(range(2000)), 4 * 2000),
        (dict(enumerate(IMAGE.flatten().tolist())), 4 * 784 + 4 * 784),
        (IMAGE.numpy().tobytes(), 4 * 784),
        ([bytearray(400), memoryview(bytes(400)), array.array("f", range(100))], 1200),
        ("x" * 3000, 3000),
        (np.array([torch.zeros(2, 500), 1.0], dtype=object), 4000),
        (np.array([b"abcd"] * 500), 2000),
        (torch.zeros(500, dtype=torch.complex64), 2000),
        (torch.zeros(2 * LEARNED_FROM + 1, dtype=torch.uint8), 4 * (2 * LEARNED_FROM + 1)),
        ([torch.zeros(99, dtype=torch.uint8) for _ in range(9)], 4 * 99 * 9),
        (SimpleNamespace(**{f"x{i}": 0.5 for i in range(400)}), 1600),
    ],
)
def test_numbers_count_in_whatever_they_are_held(held: Any, counted: int) -> None:
    found = _memory(held=held)
    assert found.replay + found.auxiliary == counted


@pytest.mark.parametrize(
    "held",
    [
        SimpleNamespace(rate=0.5, name="mine", sizes=(3, 3), losses=[0.1] * 20, key=b"abc"),
        dict.fromkeys(range(100), 0.1),
        torch.zeros(2 * LEARNED_FROM, dtype=torch.long),  # a label and a task for each image
        nn.Sequential(*(nn.Conv2d(1, 1, 3, bias=False) for _ in range(100))),
    ],
)
def test_settings_labels_and_counters_do_not_count(held: Any) -> None:
    assert _memory(held=held).auxiliary in (0, 4 * 9 * 100)


def test_a_copy_of_the_network_counts() -> None:
    assert _memory(old=copy.deepcopy(MODEL)) == Memory(auxiliary=of_model(MODEL))


def test_tensors_of_the_shape_of_a_sample_are_replay() -> None:
    assert _memory(x=torch.zeros(5, 1, 28, 28, dtype=torch.uint8)) == Memory(replay=5 * SAMPLE)


def test_samples_of_data_sets_count_once_however_they_are_held() -> None:
    first, second = (STREAM.avalanche.train_stream[k].dataset for k in (0, 1))
    some = first.subset([0, 1, 2])
    both = concat_datasets([some, second.subset([4])])
    subset = torch.utils.data.Subset(first, [2, 3])
    assert _memory(some=some) == Memory(replay=3 * SAMPLE)
    assert _memory(some=some, both=both, subset=subset) == Memory(replay=5 * SAMPLE)


def test_an_experience_that_is_kept_is_all_its_samples() -> None:
    experience = STREAM.avalanche.train_stream[0]
    assert _memory(kept=experience) == Memory(replay=len(experience.dataset) * SAMPLE)


class _Keeps(SupervisedPlugin):
    derived = ("cache",)

    def __init__(self) -> None:
        super().__init__()
        self.table, self.cache = torch.zeros(10), torch.zeros(1000)


class _Counts(_Keeps):
    def memory(self) -> Memory:
        return Memory(auxiliary=1)


def test_a_strategy_counts_what_plugins_say_and_finds_the_rest() -> None:
    plugins = [_Keeps(), _Counts()]
    strategy = Strategy(model=MODEL, stream=STREAM, plugins=plugins)
    strategy.more = nn.Linear(2, 1)  # type: ignore[attr-defined]
    expected = Memory(architecture=of_model(MODEL), auxiliary=40 + 1 + 12)
    assert strategy.memory() == expected
    assert list(strategy.uncounted()) == ["_Keeps", "more"]
