"""What a method declares to be searched, and the values of the trials."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clbench.errors import UserError
from clbench.protocol import Protocol
from clbench.reading import read_declaration
from clbench.registry import declarations
from clbench.tuning.space import MOST, Space, space_of

METHOD = """
from typing import Literal

from clbench import Method, Strategy, ordinary
from clbench.declare import Fraction, PositiveFloat, PositiveInt


class {name}(Method):
    title = "{name}"
    SEARCH

    strength: PositiveFloat = 2.0
    share: Fraction = 0.5
    size: PositiveInt = 7
    batch: PositiveInt | None = None
    kind: Literal["a", "b"] = "a"

    def build(self, stream):
        return Strategy(model=ordinary(stream), stream=stream)
"""
HELD = "'momentum': 'usual', 'weight_decay': 'usual'"


@pytest.fixture
def space(method_file: Callable[..., Path]) -> Callable[..., Space]:
    """The space of a method with these facts."""

    def make(facts: str, given: dict[str, Any] | None = None, **overrides: Any) -> Space:
        path = method_file("mine", METHOD.replace("SEARCH", facts))
        protocol = Protocol().changed(overrides)
        declared = read_declaration(path, "method")
        return space_of(declared, given or {}, protocol, 0.05, overrides, ("mine", "tiny"))

    return make


def test_what_is_declared_and_three_values_of_the_protocol_are_searched(
    space: Callable[..., Space],
) -> None:
    made = space("search = {'strength': 'log 1..1e6', 'size': 'int 1..50'}")
    assert str(made) == (
        "strength: log 1..1000000; size: int 1..50; lr: log 0.005..0.5; momentum: 0, 0.9; "
        "weight_decay: 0, 0.0001, 0.001, 0.003"
    )
    assert str(space("")) == str(made).partition("50; ")[2]


def test_a_range_is_covered_from_end_to_end_and_a_list_evenly(space: Callable[..., Space]) -> None:
    wanted = "'strength': 'log 1..1e4', 'share': '0..0.5', 'size': 'int 1..3', 'batch': '8, none'"
    made = space("search = {" + wanted + "," + HELD + "}")
    by_name = {each.name: each for each in made.dimensions}
    assert [by_name["strength"].at(u) for u in (0.0, 0.25, 0.5, 1.0)] == [1.0, 10.0, 100.0, 1e4]
    assert [by_name["share"].at(u) for u in (0.0, 0.5, 1.0)] == [0.0, 0.25, 0.5]
    assert [by_name["size"].at(u) for u in (0.0, 0.3, 0.34, 0.65, 0.7, 1.0)] == [1, 1, 2, 2, 3, 3]
    assert [by_name["batch"].at(u) for u in (0.0, 0.49, 0.5, 1.0)] == [8, 8, None, None]


def test_what_is_fixed_has_no_effect_or_was_given_is_not_searched(
    space: Callable[..., Space],
) -> None:
    fixed = "protocol = {'weight_decay': 0.0}; fixed = {'weight_decay': 'x'}"
    names = [d.name for d in space(f"search = {{'strength': '1..2'}}; {fixed}").dimensions]
    assert names == ["strength", "lr", "momentum"]
    assert [d.name for d in space("search = {'momentum': 'usual'}").dimensions] == [
        "lr", "weight_decay"
    ]  # fmt: skip
    given = space("search = {'strength': '1..2', 'share': '0..1'}", {"strength": 1.0}, lr=0.1)
    assert [d.name for d in given.dimensions] == ["share", "momentum", "weight_decay"]
    with pytest.raises(UserError, match="nothing to tune"):
        space("", lr=0.1, momentum=0.0, weight_decay=0.0)


def test_adam_has_rates_of_its_own_and_no_momentum(space: Callable[..., Space]) -> None:
    assert str(space("", optimizer="adam")).startswith("lr: log 0.0001..0.01; weight_decay")


@pytest.mark.parametrize(
    ("search", "words"),
    {
        "{'strenght': '1..2'}": "Unknown parameter in .*'strenght'. Did you mean 'strength'",
        "{'strength': 'log 0..1'}": "strength=0.0 is not a number above 0",
        "{'strength': '2..1'}": "from a lower to a higher",
        "{'share': 'log 0..1'}": "and above 0",
        "{'share': '0..2'}": "share=2.0 is not a number of at least 0 and at most 1",
        "{'size': '1..50'}": "write 'int 1..50'",
        "{'strength': 'int 1..5'}": "write '1..5'",
        "{'kind': '0..1'}": "write 'a, b'",
        "{'kind': 'a, c'}": "kind=c is not one of a, b",
        "{'size': '5'}": "no list of different values",
        "{'size': '5, 5'}": "no list of different values",
        "{'lr': 'log 1e-4..1'}": "searched for every method alike",
        "{'strength': '1..2', 'share': '0..1', 'size': 'int 1..2'}": f"6 values .*at most {MOST}",
    }.items(),
)
def test_a_space_that_is_none_is_a_sentence(
    space: Callable[..., Space], search: str, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        space(f"search = {search}")


def test_trials_are_the_same_whenever_and_however_many_are_asked_for(
    space: Callable[..., Space],
) -> None:
    made = space("search = {'strength': 'log 1..1e6'}")
    trials = made.trials(20)
    assert trials[0] == {}  # the usual values
    assert made.trials(7) == trials[:7]
    assert space("search = {'strength': 'log 1..1e6'}").trials(33)[:20] == trials
    assert made.trials(1) == [{}]
    assert len({repr(trial) for trial in trials}) == 20
    momenta = [trial["momentum"] for trial in trials[1:17]]
    assert momenta.count(0.0) == momenta.count(0.9) == 8  # points that cover the space


def test_another_method_benchmark_or_space_has_other_trials(space: Callable[..., Space]) -> None:
    made = space("search = {'strength': 'log 1..1e6'}")
    others = [
        Space("other", "tiny", made.dimensions),
        Space("mine", "other", made.dimensions),
        space("search = {'strength': 'log 1..1e5'}"),
    ]
    assert all(other.trials(3)[1] != made.trials(3)[1] for other in others)


@pytest.mark.parametrize("name", declarations("method"))
def test_every_method_of_clbench_declares_a_space_that_is_one(name: str) -> None:
    method = declarations("method")[name]
    made = space_of(method, {}, Protocol(), 0.05, {}, (name, "split-mnist"))
    assert "lr" in {dimension.name for dimension in made.dimensions}
    # more memory is no better tuning
    assert not {"per_class", "buffer", "coreset"} & {each.name for each in made.dimensions}
    for trial in made.trials(9)[1:]:
        method.checked({key: value for key, value in trial.items() if key in method.fields})
