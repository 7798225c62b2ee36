"""A run's id, its labels, and where the values of a spec come from."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made import record

from clbench.errors import UserError
from clbench.grid import make_grid, state_of, to_run
from clbench.protocol import Protocol
from clbench.record import Failure
from clbench.registry import select
from clbench.resolve import make_cell
from clbench.spec import RunSpec
from clbench.store import Store

SPEC = RunSpec("some-stream", "ewc", 3, {"tasks": 5}, {"strength": 500.0}, Protocol(lr=0.1))


def test_the_id_of_a_spec_never_changes() -> None:
    """Another id would orphan every record made so far."""
    assert SPEC.id == "9dd71b2477e4"


@pytest.mark.parametrize(
    "change",
    [
        {"benchmark": "other"},
        {"method": "agem"},
        {"seed": 4},
        {"benchmark_params": {"tasks": 6}},
        {"method_params": {"strength": 501.0}},
        {"threads": 2},
        {"device": "cuda"},
        *({"protocol": replace(SPEC.protocol, **{k: v})} for k, v in {
            "lr": 0.2, "momentum": 0.1, "weight_decay": 0.1, "batch_size": 1, "epochs": 1,
            "patience": 1, "lr_factor": 2.0, "lr_min": 0.1, "valid": 0.2,
        }.items()),
    ],
    ids=str,
)  # fmt: skip
def test_every_field_changes_the_id(change: dict[str, Any]) -> None:
    assert replace(SPEC, **change).id != SPEC.id


def test_the_order_of_parameters_does_not_change_the_id() -> None:
    one = replace(SPEC, method_params={"a": 1, "b": 2})
    assert one.id == replace(SPEC, method_params={"b": 2, "a": 1}).id


def cell_of(method: str, benchmark: str = "split-mnist-5k", **overrides: Any) -> Any:
    return make_grid(method, benchmark, [0], overrides)[0]


def test_a_value_that_is_the_default_is_the_same_run() -> None:
    assert cell_of("ewc[strength=5000]").id == cell_of("ewc").id
    assert cell_of("ewc", epochs=50).id == cell_of("ewc").id


def test_one_run_named_twice_is_one_cell() -> None:
    cells = make_grid("ewc,ewc[strength=5000],ewc[strength=5e3]", "split-mnist-5k", [0, 1], {})
    assert [cell.spec.seed for cell in cells] == [0, 1]


def test_a_whole_default_of_a_float_and_the_same_by_hand_are_one_run(
    method_file: Callable[..., Path],
) -> None:
    path = method_file(
        "mine",
        """
        from clbench import Method

        class Mine(Method):
            weight: float = 3
        """,
    )
    assert cell_of(str(path)).id == cell_of(f"{path}[weight=3]").id


def test_labels_name_what_differs_from_the_defaults() -> None:
    labels = cell_of("er-res[per_class=5,replay_batch=none]", lr=0.1, epochs=7).labels
    assert labels == {
        "benchmark": "split-mnist-5k",
        "method": "er-res[per_class=5]",
        "protocol": "lr=0.1,epochs=7",
    }
    assert cell_of("joint[each=true]").labels["method"] == "joint[each=true]"
    threads = make_grid("ewc", "split-mnist-5k", [0], {}, threads=2)[0]
    assert threads.labels["protocol"] == "threads=2"


def test_values_come_from_the_file_then_the_benchmark_then_the_user(
    method_file: Callable[..., Path],
) -> None:
    path = method_file(
        "tuned",
        """
        from clbench import Method

        class Tuned(Method):
            protocol = {"momentum": 0.0}
            tuned = {"split-mnist-5k": {"a": 2.0, "lr": 0.5, "epochs": 9}}
            a: float = 1.0
            b: float = 1.0
        """,
    )
    spec = cell_of(f"{path}[b=7]", epochs=3).spec
    assert spec.method_params == {"a": 2.0, "b": 7.0}
    assert (spec.protocol.momentum, spec.protocol.lr, spec.protocol.epochs) == (0.0, 0.5, 3)
    assert spec.protocol.lr_min == 1e-3  # the benchmark's
    assert cell_of(str(path)).labels == {
        "benchmark": "split-mnist-5k", "method": "tuned", "protocol": ""
    }  # fmt: skip


def test_a_tuned_value_that_is_no_parameter_is_named(method_file: Callable[..., Path]) -> None:
    path = method_file(
        "typo",
        """
        from clbench import Method

        class Typo(Method):
            tuned = {"split-mnist-5k": {"strenght": 2.0}}
        """,
    )
    with pytest.raises(UserError, match="'strenght'"):
        cell_of(str(path))


def test_a_protocol_value_out_of_range_is_an_error() -> None:
    with pytest.raises(UserError, match="epochs=0 is not a whole number of at least 1"):
        cell_of("ewc", epochs=0)
    with pytest.raises(UserError, match="'speed'"):
        cell_of("ewc", speed=1)


def test_a_record_of_another_version_is_stale(tmp_path: Path, cell: Callable[..., Any]) -> None:
    made = cell("ewc")
    store = Store(tmp_path / "out")
    store.prepare()
    finished = record(made.id, spec=made.versioned())
    assert state_of(made, store).word == "missing"
    store.write(finished)
    assert state_of(made, store).word == "done"
    assert to_run({made.id: state_of(made, store)}, "missing") == set()
    newer = replace(made, method=replace(made.method, meta=made.method.meta | {"version": 2}))
    assert newer.id == made.id
    assert state_of(newer, store).word == "stale"
    states = {made.id: state_of(newer, store)}
    assert to_run(states, "missing") == {made.id}
    failure = Failure(error="x", traceback="x")
    store.write(record(made.id, spec=made.versioned(), status="failed", failure=failure))
    assert state_of(made, store).word == "failed"
    assert state_of(newer, store).word == "stale", "it may not fail any more"


def test_a_changed_file_of_the_user_is_another_run(
    cell: Callable[..., Any], method_file: Callable[..., Path]
) -> None:
    path = method_file("mine")
    before = cell(str(path))
    path.write_text(path.read_text() + "\n# another line\n")
    after = cell(str(path))
    assert after.id == cell(str(path)).id != before.id
    assert before.versioned().method.params == after.versioned().method.params
    assert before.versioned().method.source != after.versioned().method.source


def test_make_cell_takes_what_select_gives() -> None:
    (method, given), (bench, bench_given) = (
        *select("method", "ewc[strength=1]"),
        *select("benchmark", "split-mnist-5k"),
    )
    made = make_cell(method, given, bench, bench_given, 5, {})
    assert str(made) == "split-mnist-5k ewc[strength=1] seed 5"
