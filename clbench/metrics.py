"""Metrics of an accuracy matrix: pure functions of R, in the units of R (percent).

R[k, i] is the test accuracy on task i after learning task k. Tasks count from 1 in the formulas
and from 0 in the arrays. `None` and NaN both mean "not evaluated". If an input is missing, or a
metric that compares tasks has only one, the result is NaN.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = Sequence[float | None] | NDArray[np.float64]
Matrix: TypeAlias = Sequence[Vector] | NDArray[np.float64]


def accuracy_matrix(R: Matrix) -> NDArray[np.float64]:
    """R as a new float array, NaN where nothing was evaluated; ValueError unless it is T x T."""
    matrix = np.array(R, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ValueError(f"R must be a square matrix of T x T accuracies, got shape {matrix.shape}")
    return matrix


def acc(R: Matrix) -> float:
    """Average accuracy at the end of the stream: ACC = 1/T * sum_{i=1..T} R[T, i]."""
    return float(accuracy_matrix(R)[-1].mean())


def average_incremental(R: Matrix) -> float:
    """Average incremental accuracy: the mean over k of the accuracy on the tasks seen after task k.

    A = 1/T * sum_{k=1..T} 1/k * sum_{i=1..k} R[k, i].
    """
    matrix = accuracy_matrix(R)
    return float(np.mean([matrix[k, : k + 1].mean() for k in range(len(matrix))]))


def bwt(R: Matrix) -> float:
    """Backward transfer (Lopez-Paz and Ranzato, 2017): negative when the method forgets.

    BWT = 1/(T-1) * sum_{i=1..T-1} (R[T, i] - R[i, i]). Some papers divide by T instead.
    """
    matrix = accuracy_matrix(R)
    if len(matrix) == 1:
        return float("nan")
    return float((matrix[-1] - matrix.diagonal())[:-1].mean())


def forgetting(R: Matrix) -> float:
    """Forgetting (Chaudhry et al., 2018): how far each task fell from its best; lower is better.

    F = 1/(T-1) * sum_{i=1..T-1} (max_{i<=k<T} R[k, i] - R[T, i]). A lucky guess before task i was
    learned does not count as something to forget.
    """
    matrix = accuracy_matrix(R)
    last = len(matrix) - 1
    if last == 0:
        return float("nan")
    best = np.array([matrix[i:last, i].max() for i in range(last)])
    return float((best - matrix[-1, :-1]).mean())


def fwt(R: Matrix, R0: Vector) -> float:
    """Forward transfer (Lopez-Paz and Ranzato, 2017): how much earlier tasks help an unseen one.

    FWT = 1/(T-1) * sum_{i=2..T} (R[i-1, i] - R0[i]), with R0 of the untrained network.
    """
    matrix = accuracy_matrix(R)
    untrained = _vector(R0, len(matrix), "R0")
    if len(matrix) == 1:
        return float("nan")
    return float((matrix.diagonal(offset=1) - untrained[1:]).mean())


def intransigence(R: Matrix, reference: Vector) -> NDArray[np.float64]:
    """Intransigence of every task (Chaudhry et al., 2018), in percentage points; lower is better.

    I_k = a*_k - R[k, k], where the reference a*_k is the accuracy on task k of a model trained
    jointly on tasks 1..k. Negative where learning the tasks one by one did better.
    """
    matrix = accuracy_matrix(R)
    return _vector(reference, len(matrix), "reference") - matrix.diagonal()


def kept_everything(R: Matrix) -> bool:
    """Whether R[T, i] = R[i, i] for all i < T. In a BWT of 0, gains and losses may cancel."""
    matrix = accuracy_matrix(R)
    return bool((matrix[-1] == matrix.diagonal())[:-1].all())


def _vector(values: Vector, length: int, name: str) -> NDArray[np.float64]:
    """`values` as a new float array; ValueError unless there is one number per task."""
    vector = np.array(values, dtype=np.float64)
    if vector.shape != (length,):
        raise ValueError(f"{name} must hold one accuracy per task ({length}), got {vector.shape}")
    return vector
