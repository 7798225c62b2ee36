"""The state of plugins that cannot save themselves: what comes back is what was saved."""

import collections
import copy
import io
import random
import sys
import types
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from avalanche.benchmarks.utils import make_avalanche_dataset
from avalanche.benchmarks.utils.data_attribute import DataAttribute
from avalanche.training.plugins import SupervisedPlugin
from avalanche.training.storage_policy import ReservoirSamplingBuffer
from torch import nn
from torch.optim import SGD, Adam

from clbench.conformance import small_stream
from clbench.networks import ordinary
from clbench.seeding import seed_everything
from clbench.training import Strategy
from clbench.training.state import NotResumable, save
from clbench.training.state_load import load


class Plain:
    """An object with attributes, as plugins have them."""

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)


def _strategy(plugins: Sequence[Any] = ()) -> Strategy:
    stream = small_stream()
    seed_everything(0, "init")
    return Strategy(model=ordinary(stream), stream=stream, plugins=plugins)


def _through_a_file(node: Any) -> Any:
    file = io.BytesIO()
    torch.save(node, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=True)


Make = Callable[[Strategy], Any]


def _restored(make: Make, fresh: Make | None = None) -> Any:
    """What is made with one strategy, saved, and loaded into another that was built alike."""
    one, other = _strategy(), _strategy()
    state = _through_a_file(save({"it": make(one)}, one, one.stream))
    beside = {"it": fresh(other) if fresh else None}
    return load(beside, state, other, other.stream)["it"], other


def test_values_and_containers() -> None:
    value = {
        "plain": [1, -2.5, "text", None, True, 2**80],
        ("a", 1): (1, (2,)),
        "set": {3, 1},
        "deque": collections.deque([1, 2], 5),
        "counts": collections.defaultdict(list, {1: [2]}),
        "dtype": torch.float16,
        "size": torch.Size([2, 3]),
    }
    back, _ = _restored(lambda s: value)
    assert back == value
    assert back["deque"].maxlen == 5
    back["counts"]["new"].append(1)


def test_tensors_arrays_and_generators() -> None:
    generator, dice = torch.Generator().manual_seed(3), random.Random(4)
    torch.rand(2, generator=generator)
    value = {
        "t": torch.rand(2, 3).half(),
        "p": nn.Parameter(torch.rand(2), requires_grad=False),
        "a": np.arange(3, dtype=np.int16),
        "s": np.float32(0.1),
        "g": generator,
        "r": dice,
    }
    expected = copy.deepcopy({k: v for k, v in value.items() if k != "g"})
    state = generator.get_state().clone()
    back, _ = _restored(lambda s: value)
    assert torch.equal(back["t"], expected["t"])
    assert back["t"].dtype == torch.float16
    assert isinstance(back["p"], nn.Parameter)
    assert not back["p"].requires_grad
    assert back["a"].dtype == np.int16
    assert back["a"].tolist() == [0, 1, 2]
    assert (back["s"], type(back["s"])) == (np.float32(0.1), np.float32)
    assert torch.equal(back["g"].get_state(), state)
    assert back["r"].random() == expected["r"].random()


def test_what_is_shared_stays_shared() -> None:
    def make(s: Strategy) -> Any:
        a = torch.zeros(2)
        plain = Plain(first=a, again=[a], own=None)
        plain.own = plain
        return plain

    back, _ = _restored(make, lambda s: Plain())
    assert back.first is back.again[0]
    assert back.own is back


def test_what_belongs_to_the_strategy_is_that_of_the_new_one() -> None:
    def make(s: Strategy) -> Any:
        parameter = next(s.model.parameters())
        return [parameter, s, s.model, s.stream.avalanche.train_stream[1]]

    back, other = _restored(make)
    expected = [next(other.model.parameters()), other, other.model]
    assert all(a is b for a, b in zip(back, expected, strict=False))
    assert back[3] is other.stream.avalanche.train_stream[1]


def test_a_copy_of_the_network_and_a_network_that_is_there_already() -> None:
    def make(s: Strategy) -> Any:
        old = copy.deepcopy(s.model)
        with torch.no_grad():
            next(old.parameters()).fill_(7)
        old.requires_grad_(False)
        return {"old": old, "own": nn.Linear(2, 2)}

    value = {}

    def remembered(s: Strategy) -> Any:
        value.update(make(s))
        return value

    back, other = _restored(remembered, lambda s: {"own": nn.Linear(2, 2)})
    assert back["old"] is not other.model
    assert float(next(back["old"].parameters()).detach().flatten()[0]) == 7
    assert not next(back["old"].parameters()).requires_grad
    assert torch.equal(back["own"].weight, value["own"].weight)


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_an_optimizer_goes_on_as_if_nothing_had_happened(kind: Any) -> None:
    options = {"lr": 0.1} | ({"momentum": 0.9} if kind is SGD else {})

    def step(s: Strategy, optimizer: Any) -> None:
        for n, parameter in enumerate(s.model.parameters(), 1):
            parameter.grad = torch.full_like(parameter, 1 / n)
        optimizer.step()

    one, other = _strategy(), _strategy()
    optimizer = kind(one.model.parameters(), **options)
    step(one, optimizer)
    state = _through_a_file(save({"it": optimizer}, one, one.stream))
    other.model.load_state_dict(one.model.state_dict())
    back = load({"it": None}, state, other, other.stream)["it"]
    step(one, optimizer)
    step(other, back)
    assert all(map(torch.equal, one.model.parameters(), other.model.parameters()))


def test_a_buffer_of_avalanche_is_rows_of_the_stream() -> None:
    kept = {}

    def make(s: Strategy) -> Any:
        buffer = ReservoirSamplingBuffer(7)
        for k in (0, 1):
            buffer.update_from_dataset(s.stream.avalanche.train_stream[k].dataset)
        logits = [torch.tensor([float(i), 1.0]) for i in range(7)]
        column = DataAttribute(logits, name="logits", use_in_getitem=True)
        kept["more"] = make_avalanche_dataset(buffer.buffer, data_attributes=[column])
        kept["buffer"] = buffer
        return kept

    back, _ = _restored(make)
    assert torch.equal(back["buffer"]._buffer_weights, kept["buffer"]._buffer_weights)
    for i in range(7):
        one, other = kept["buffer"].buffer[i], back["buffer"].buffer[i]
        assert torch.equal(one[0], other[0])
        assert one[1:] == other[1:]
        assert torch.equal(kept["more"][i][-1], back["more"][i][-1])


class Counter(collections.Counter[str]):
    """A container that has more than its attributes."""


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda s: (i for i in range(3)), "a generator, which clbench cannot save"),
        (lambda s: Counter("ab"), "a Counter, which clbench cannot save"),
        (lambda s: lambda: s, "a function that keeps values of its own"),
        (lambda s: next(s.model.parameters()).data, "shares its memory with another tensor"),
        (lambda s: [t := torch.zeros(4), t[1:]], "1 shares its memory with another tensor"),
        (lambda s: torch.ones(1, requires_grad=True) * 2, "a tensor with a gradient history"),
        (lambda s: np.array(["a"]), "an array of <U1"),
        (lambda s: torch.utils.data.DataLoader([1]), "DataLoader, whose position cannot be saved"),
    ],
)
def test_what_cannot_be_saved_is_named(make: Make, why: str) -> None:
    strategy = _strategy()
    with pytest.raises(NotResumable, match=why):
        save({"it": make(strategy)}, strategy, strategy.stream)


def test_what_is_made_in_training_and_is_of_no_known_class_is_not_put_back() -> None:
    with pytest.raises(NotResumable, match="it is a Plain, which the method makes while it trains"):
        _restored(lambda s: Plain(a=1))


def test_a_state_names_no_other_class() -> None:
    """As a stranger's checkpoint might."""
    strategy = _strategy()
    for name in ("subprocess:Popen", "avalanche.training.storage_policy:Module", "os:_wrap_close"):
        state = ("mapping", 0, "dict", "", [(("plain", "it"), ("object", 1, name, {}))])
        with pytest.raises(NotResumable, match="which the method makes while it trains"):
            load({"it": None}, state, strategy, strategy.stream)


def test_a_function_is_that_of_the_fresh_object() -> None:
    back, _ = _restored(lambda s: Plain(f=torch.relu), lambda s: Plain(f=torch.relu))
    assert back.f is torch.relu
    with pytest.raises(NotResumable, match=r"it\.f is the function or class"):
        _restored(lambda s: Plain(f=torch.relu), lambda s: Plain(f=torch.tanh))


def test_the_namespace_of_a_fresh_object_loses_what_was_not_saved() -> None:
    back, _ = _restored(lambda s: Plain(a=1), lambda s: Plain(b=2))
    assert vars(back) == {"a": 1}
    assert SimpleNamespace(**vars(back)).a == 1


LEFT = {"module": 0}


@pytest.mark.parametrize("where", ["module", "class", "hook", "loss"])
def test_what_no_state_holds_is_compared(where: str) -> None:
    """Values of a module or class, hooks and the loss are not put back."""

    class Plugin(SupervisedPlugin):
        """Keeps something where no state looks."""

    def change(strategy: Strategy) -> None:
        if where == "module":
            LEFT["module"] += 1
        elif where == "class":
            Kept.count += 1
        elif where == "hook":
            next(strategy.model.parameters()).register_hook(lambda g: g)
        else:
            strategy._criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

    Plugin.__module__ = __name__
    one, other = _strategy([Plugin()]), _strategy([Plugin()])
    other.load_state_dict(_through_a_file(one.state_dict()))
    kept = LEFT["module"], Kept.count
    change(one)
    state = _through_a_file(one.state_dict())
    LEFT["module"], Kept.count = kept  # as in a fresh process
    with pytest.raises(NotResumable, match="training changes a value of a module or a class"):
        other.load_state_dict(state)


def test_a_plugin_that_is_added_to_watch_a_strategy_keeps_it_resumable() -> None:
    strategy = _strategy()
    strategy.begin(Plain)

    class Watches(SupervisedPlugin):
        """Of a module that the strategy does not know."""

        def state_dict(self) -> dict[str, Any]:
            return {}

    Watches.__module__ = "clbench_watches"
    sys.modules["clbench_watches"] = types.ModuleType("clbench_watches")
    strategy.plugins.append(Watches())
    assert "outside" in strategy.state_dict()
    del sys.modules["clbench_watches"]


class Kept:
    """A class with a value."""

    count = 0
