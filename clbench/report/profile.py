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
    """A line per method and benchmark: seconds of a run, and the share of each part in percent;
    below the table, the shares of single plugins."""
    rows: dict[tuple[str, str, str], list[tuple[dict[str, float], dict[str, float]]]] = {}
    for record in records:
        if parts := by_part(record):
            labels = record["labels"]
            key = (labels["benchmark"], labels["method"], labels["protocol"])
            rows.setdefault(key, []).append((parts, _plugins(record)))
    lines, notes = [], []
    for (benchmark, method, protocol), runs in rows.items():
        totals = [sum(parts.values()) for parts, _ in runs]
        name = clean(f"{method} ({protocol})" if protocol else method)

        def share(seconds: list[float], totals: list[float] = totals) -> float:
            return statistics.fmean(100 * s / t for s, t in zip(seconds, totals, strict=True))

        shares = [share([parts[part] for parts, _ in runs]) for part in PARTS]
        lines.append(
            [clean(benchmark), name, f"{statistics.fmean(totals):.1f}"]
            + [f"{share:.1f}" for share in shares]
        )
        plugins = {p: share([own.get(p, 0.0) for _, own in runs]) for p in runs[0][1]}
        costly = [f"{clean(p)} {s:.1f}" for p, s in plugins.items() if s >= 0.05]
        notes.append(f"{clean(benchmark)} {name}: {', '.join(costly) or 'none'}")
    head = ["benchmark", "method", "seconds", *(f"{part} %" for part in PARTS)]
    align = ("left", "left", *["right"] * 10)
    table = tabulate(lines, head, disable_numparse=True, colalign=align)
    return "\n".join([table, "", "plugins, %:", *notes] if notes else [table])


def by_part(record: dict[str, Any]) -> dict[str, float]:
    """Seconds of each of PARTS; empty for a record from before they were kept."""
    kept = record["seconds"].get("parts") or {}
    if not kept:
        return {}
    found = {part: float(kept.get(part, 0.0)) for part in PARTS}
    found["plugins"] = sum(_plugins(record).values())
    return found


def _plugins(record: dict[str, Any]) -> dict[str, float]:
    """Seconds of each plugin, by its name."""
    kept = record["seconds"]["parts"].items()
    return {part.removeprefix("plugin "): s for part, s in kept if part.startswith("plugin ")}
