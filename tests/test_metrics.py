"""Every metric against numbers worked out by hand from one 4 x 4 matrix."""

import copy
import math

import numpy as np
import pytest

from clbench import metrics

# Task 2 rises after being learned (90 -> 94) and then falls; task 1 only falls.
R: list[list[float | None]] = [
    [98.0, 55.0, None, None],
    [90.0, 90.0, 40.0, None],
    [84.0, 94.0, 80.0, 65.0],
    [80.0, 92.0, 70.0, 86.0],
]
R0 = [50.0, 52.0, 48.0, 50.0]
JOINT = [98.5, 93.0, 79.0, 88.0]


def test_acc_is_the_mean_of_the_last_row() -> None:
    assert metrics.acc(R) == pytest.approx((80 + 92 + 70 + 86) / 4)  # 82


def test_bwt_divides_by_the_number_of_earlier_tasks() -> None:
    assert metrics.bwt(R) == pytest.approx((-18 + 2 - 10) / 3)


def test_forgetting_is_measured_from_the_best_earlier_row() -> None:
    assert metrics.forgetting(R) == pytest.approx((18 + 2 + 10) / 3)  # task 2: 94 - 92


def test_forgetting_ignores_a_guess_made_before_the_task_was_learned() -> None:
    lucky: list[list[float | None]] = [[90.0, 99.0, None], [90.0, 60.0, 10.0], [90.0, 60.0, 70.0]]
    assert metrics.forgetting(lucky) == 0.0


def test_fwt_compares_with_the_untrained_network() -> None:
    assert metrics.fwt(R, R0) == pytest.approx((3 - 8 + 15) / 3)


def test_intransigence_has_one_value_per_task() -> None:
    assert metrics.intransigence(R, JOINT).tolist() == pytest.approx([0.5, 3.0, -1.0, 2.0])


def test_gains_and_losses_that_cancel_are_not_zero_forgetting() -> None:
    cancels = [[90.0, 0.0, 0.0], [90.0, 80.0, 0.0], [91.0, 79.0, 70.0]]
    assert metrics.bwt(cancels) == 0.0
    assert not metrics.kept_everything(cancels)
    assert metrics.kept_everything([[90.0, 0.0], [90.0, 80.0]])


def test_a_single_task_has_an_accuracy_and_nothing_to_compare() -> None:
    assert metrics.acc([[97.0]]) == 97.0
    assert math.isnan(metrics.bwt([[97.0]]))
    assert math.isnan(metrics.forgetting([[97.0]]))
    assert math.isnan(metrics.fwt([[97.0]], [50.0]))
    assert metrics.intransigence([[97.0]], [98.0]).tolist() == [1.0]


def test_what_was_not_evaluated_makes_a_metric_nan_rather_than_a_partial_mean() -> None:
    only_last_row: list[list[float | None]] = [[None, None], [90.0, 80.0]]
    assert metrics.acc(only_last_row) == 85.0
    assert math.isnan(metrics.bwt(only_last_row))
    assert math.isnan(metrics.forgetting(only_last_row))
    assert math.isnan(metrics.fwt(only_last_row, [50.0, 50.0]))
    assert math.isnan(metrics.acc([[90.0, None], [None, 80.0]]))


def test_no_metric_changes_its_input() -> None:
    lists, array = copy.deepcopy(R), np.array(R, dtype=float)
    before = array.copy()
    for matrix in (lists, array):
        metrics.acc(matrix)
        metrics.bwt(matrix)
        metrics.forgetting(matrix)
        metrics.fwt(matrix, R0)
        metrics.intransigence(matrix, JOINT)[0] = -1.0  # the result is a copy, too
        metrics.accuracy_matrix(matrix)[0, 0] = -1.0
    assert lists == R
    np.testing.assert_array_equal(array, before)
    assert R0 == [50.0, 52.0, 48.0, 50.0]
    assert JOINT == [98.5, 93.0, 79.0, 88.0]


@pytest.mark.parametrize("shape", [[], [[1.0, 2.0]], [1.0, 2.0]])
def test_a_matrix_that_is_not_square_is_an_error(shape: list) -> None:
    with pytest.raises(ValueError, match="square"):
        metrics.acc(shape)


def test_a_reference_of_the_wrong_length_is_an_error() -> None:
    with pytest.raises(ValueError, match="R0 must hold one accuracy per task"):
        metrics.fwt(R, [50.0])
