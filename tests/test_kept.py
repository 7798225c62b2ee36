"""What a strategy keeps is found: tensors, arrays, networks and samples, each once."""

import collections
import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
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
