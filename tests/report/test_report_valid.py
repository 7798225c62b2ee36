"""The column that hyper-parameters are chosen by."""

import math

from clbench.report.runs import read


def epoch(task: int, loss: float, accuracy: float) -> dict[str, float]:
    return {"task": task, "valid_loss": loss, "valid_accuracy": accuracy}


def test_valid_is_the_accuracy_at_the_least_loss_of_each_task(record):
    curve = [epoch(1, 0.5, 80), epoch(1, 0.3, 90), epoch(1, 0.4, 95), epoch(2, 0.2, 70)]
    [run], _ = read([record(curve=curve)])
    assert run.values["valid"] == 80  # 90 and 70; the 95 came with a higher loss


def test_a_record_without_a_curve_has_none(record):
    [run], _ = read([record(curve=[])])
    assert math.isnan(run.values["valid"])
