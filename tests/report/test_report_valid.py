"""The column that hyper-parameters are chosen by."""

import math

from clbench.report.runs import read


def test_valid_is_the_mean_over_tasks_after_the_last_one(record):
    [run], _ = read([record(valid=[90, 70])])
    assert run.values["valid"] == 80


def test_a_record_from_before_it_was_measured_has_none(record):
    [run], _ = read([record(valid=None)])
    assert math.isnan(run.values["valid"])
