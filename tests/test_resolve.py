"""A method built in Python gets the values of the same spec on the command line."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import clbench
from clbench.build import build
from clbench.errors import UserError
from clbench.grid import make_grid
from clbench.protocol import Protocol
from clbench.registry import declarations, import_class
from clbench.seeding import seed_everything
from clbench.stream import Stream

METHODS = declarations("method")
BENCHMARKS = declarations("benchmark")


def presets() -> Iterator[tuple[str, str]]:
    for name, method in METHODS.items():
        yield from itertools.product([name], method.meta.get("presets", [""]))


@pytest.fixture(scope="module")
def embedded() -> Stream:
    return clbench.open_stream("split-mnist-5k", epochs=1)


def named(stream: Stream, benchmark: str, **protocol: Any) -> Stream:
    """The same images as a stream of another benchmark, whose data may not be here."""
    usual = Protocol().changed(BENCHMARKS[benchmark].meta.get("protocol", {}))
    changed = stream.under(usual.changed(protocol))
    changed.name, changed.given = benchmark, frozenset(protocol)
    return changed


@pytest.mark.parametrize(("name", "preset"), list(presets()))
def test_values_are_those_of_the_command_line(name: str, preset: str, embedded: Stream) -> None:
    given = {"preset": preset} if preset else {}
    text = f"{name}[preset={preset}]" if preset else name
    for benchmark in BENCHMARKS:
        for protocol in ({}, {"lr": 0.7, "valid": 0.2}):
            [cell] = make_grid(text, benchmark, [0], protocol)
            stream = named(embedded, benchmark, **protocol)
            method, own = import_class(METHODS[name])(**given).resolved(stream)
            assert {key: getattr(method, key) for key in cell.spec.method_params} == (
                cell.spec.method_params
            )
            assert own.protocol == cell.spec.protocol


@pytest.mark.parametrize(("name", "preset"), list(presets()))
def test_what_is_built_trains_the_same(name: str, preset: str) -> None:
    given = {"preset": preset} if preset else {}
    text = f"{name}[preset={preset}]" if preset else name
    scenario = next(iter(METHODS[name].meta.get("scenarios", ())), "task")
    benchmark = f"split-mnist-5k[scenario={scenario}]"
    embedded = clbench.open_stream(benchmark, epochs=1)
    [cell] = make_grid(text, benchmark, [0], {"epochs": 1})
    seed_everything(0, "init")
    ours: Any = import_class(METHODS[name])(**given).build(embedded)
    explicit = embedded.under(cell.spec.protocol)
    explicit.given = frozenset(vars(cell.spec.protocol))
    theirs = build(cell, explicit)
    for strategy in (ours, theirs):
        seed_everything(0, "task", 0)
        strategy.learn(0)
    one, other = ours.model.state_dict(), theirs.model.state_dict()
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_a_stream_with_a_protocol_of_the_callers_keeps_it(embedded: Stream) -> None:
    task = embedded.tasks[0]
    hat = import_class(METHODS["hat"])
    protocol = Protocol(lr=0.01, epochs=1)
    stream = Stream(
        embedded._sources, name="split-mnist", backbone="mlp", protocol=protocol, seed=0
    )
    assert hat.tuned["split-mnist"]["lr"] != 0.01
    assert hat().build(stream).stream.protocol == protocol
    assert len(stream.tasks[0].train) == len(task.train)


def test_a_preset_may_change_the_split(embedded: Stream) -> None:
    acl = import_class(METHODS["acl"])(preset="official")
    _, own = acl.resolved(named(embedded, "split-miniimagenet"))
    assert own.protocol.valid == 0.02
    sizes = [(len(s.tasks[0].train), len(s.tasks[0].valid)) for s in (embedded, own)]
    assert sizes == [(680, 120), (784, 16)]
    assert len(own.avalanche.valid_stream[0].dataset) == 16


def test_a_given_value_is_kept_even_if_it_is_the_default(embedded: Stream) -> None:
    acl = import_class(METHODS["acl"])
    assert acl().resolved(embedded)[0].branch_drop == 0.0
    assert acl(branch_drop=0.25).resolved(embedded)[0].branch_drop == 0.25


@pytest.mark.parametrize(
    ("given", "words"), [({"strength": -1}, "strength=-1"), ({"strength": "a"}, "strength=a")]
)
def test_a_wrong_value_is_named(given: dict[str, Any], words: str, embedded: Stream) -> None:
    with pytest.raises(UserError, match=words):
        import_class(METHODS["ewc"])(**given).build(embedded)


def test_a_method_that_cannot_run_says_so_where_it_is_built() -> None:
    stream = clbench.open_stream("split-mnist-5k", weight_decay=0.01)
    with pytest.raises(UserError, match=r"weight_decay=0\.01 must stay at 0"):
        import_class(METHODS["packnet"])().build(stream)


def test_a_stream_is_opened_by_its_spec_or_refused_in_words(tiny: Any) -> None:
    stream = clbench.open_stream(f"{tiny}[tasks=2]", seed=3, lr=1)
    assert (len(stream), stream.seed, stream.name) == (2, 3, "tiny")
    assert (stream.protocol.lr, stream.protocol.epochs, stream.given) == (1.0, 2, {"lr"})
    for text, values, words in [
        ("split-mnist-5kk", {}, "split-mnist-5k"),
        ("split-mnist-5k,split-mnist", {}, "name one"),
        (str(tiny), {"lrr": 1}, "Did you mean 'lr'"),
        (str(tiny), {"lr": -1}, "lr=-1"),
    ]:
        with pytest.raises(UserError, match=words):
            clbench.open_stream(text, **values)
