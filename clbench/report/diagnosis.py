"""What ACL's diagnostics say: how much accuracy each branch carries, and whether S is idle."""

from typing import Any

IDLE = 0.5
"""Percentage points: if taking z_S away costs less than this on average, S carries nothing."""


def branch_costs(record: dict[str, Any]) -> dict[str, list[float]]:
    """Accuracy lost on each task, in points, when a branch is made useless, after the last task.

    Keys: `shared_zeroed`, `shared_shuffled`, `private_zeroed`. Empty for a record without them.
    """
    rows = (record.get("diagnostics") or [{}])[-1].get("without") or {}
    tasks = [rows[key] for key in sorted(rows, key=int)]
    names = ("shared_zeroed", "shared_shuffled", "private_zeroed")
    return {name: [row["nothing"] - row[name] for row in tasks] for name in names if tasks}


def shared_cost(record: dict[str, Any]) -> float:
    """Mean accuracy lost without z_S, in points, the worse of zeroing and shuffling; NaN if
    the record does not say."""
    costs = branch_costs(record)
    if not costs:
        return float("nan")
    return max(sum(costs[k]) / len(costs[k]) for k in ("shared_zeroed", "shared_shuffled"))


def idle_words(cost: float) -> str:
    """The sentence for an S that carries nothing."""
    return (
        f"zeroing or shuffling z_S costs {cost:.2f} points of accuracy on average, so S is idle: "
        "that nothing is forgotten is no evidence of factorisation."
    )
