"""The report says in words when S of ACL is idle."""

import pytest

from clbench.report import tables, terminal
from clbench.report.diagnosis import branch_costs, shared_cost


def entry(nothing: float, zeroed: float, shuffled: float) -> dict[str, float]:
    return {
        "nothing": nothing,
        "shared_zeroed": zeroed,
        "shared_shuffled": shuffled,
        "private_zeroed": 50.0,
    }


def diagnosed(*rows: dict[str, float]) -> dict:
    return {"diagnostics": [{}, {"without": {str(i): row for i, row in enumerate(rows, 1)}}]}


def test_costs_are_what_is_lost_on_each_task():
    record = diagnosed(entry(99, 90, 95), entry(98, 97, 88))
    assert branch_costs(record) == {
        "shared_zeroed": [9, 1],
        "shared_shuffled": [4, 10],
        "private_zeroed": [49, 48],
    }
    assert shared_cost(record) == pytest.approx(7)  # the mean of shuffling, the worse of the two


def test_a_record_without_diagnostics_has_no_cost():
    assert branch_costs({"diagnostics": []}) == {}
    assert shared_cost({}) != shared_cost({})  # NaN


def test_the_table_warns_of_an_idle_s_and_only_then(record):
    idle = diagnosed(entry(99, 98.9, 99), entry(98, 98, 97.9))["diagnostics"]
    alive = diagnosed(entry(99, 70, 80), entry(98, 90, 90))["diagnostics"]
    words = "S is idle: that nothing is forgotten is no evidence of factorisation"
    assert words in " ".join(terminal(tables([record("acl", diagnostics=idle)])).split())
    assert words not in " ".join(terminal(tables([record("acl", diagnostics=alive)])).split())
    assert words not in " ".join(terminal(tables([record("ewc")])).split())
