"""Where the time of runs went, from the seconds that records keep by part."""

import statistics
from collections.abc import Iterable
from typing import Any

from tabulate import tabulate

from clbench.report.escape import clean

PARTS = (
    "data", "forward", "backward", "optimizer", "plugins", "validation", "rest of training",
    "tests", "saving",
)  # fmt: skip


def profile(records: Iterable[dict[str, Any]]) -> str:
    """A line per method and benchmark: seconds of a run, and the share of each part in percent."""
    rows: dict[tuple[str, str, str], list[dict[str, float]]] = {}
    for record in records:
        if parts := by_part(record):
            labels = record["labels"]
            key = (labels["benchmark"], labels["method"], labels["protocol"])
            rows.setdefault(key, []).append(parts)
    lines = []
    for (benchmark, method, protocol), runs in rows.items():
        totals = [sum(parts.values()) for parts in runs]
        name = f"{method} ({protocol})" if protocol else method
        shares = [
            statistics.fmean(
                100 * parts[part] / total for parts, total in zip(runs, totals, strict=True)
            )
            for part in PARTS
        ]
        lines.append(
            [clean(benchmark), clean(name), f"{statistics.fmean(totals):.1f}"]
            + [f"{share:.1f}" for share in shares]
        )
    head = ["benchmark", "method", "seconds", *(f"{part} %" for part in PARTS)]
    return tabulate(lines, head, disable_numparse=True, colalign=("left", "left", *["right"] * 10))


def by_part(record: dict[str, Any]) -> dict[str, float]:
    """Seconds of each of PARTS; empty for a record from before they were kept."""
    kept = record["seconds"].get("parts") or {}
    if not kept:
        return {}
    found = {part: float(kept.get(part, 0.0)) for part in PARTS}
    found["plugins"] = sum(s for part, s in kept.items() if part.startswith("plugin "))
    return found
