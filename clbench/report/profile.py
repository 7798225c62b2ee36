"""How runs spent their time, from the seconds that records keep by part."""

import statistics
from collections.abc import Iterable

from clbench.record import Record
from clbench.report.escape import clean, short
from clbench.width import fitted_table

PARTS = (
    "data", "forward", "backward", "optimizer", "plugins", "validation", "rest of training",
    "tests", "saving",
)  # fmt: skip


def profile(records: Iterable[Record]) -> str:
    """A line per method and benchmark: seconds per run, and the share of each part in percent;
    below the table, the shares of single plugins."""
    rows: dict[tuple[str, str], list[tuple[dict[str, float], dict[str, float]]]] = {}
    for record in records:
        if parts := by_part(record):
            extra = f" ({record.protocol})" if record.protocol else ""
            key = (short(record.benchmark), short(record.method + extra))
            rows.setdefault(key, []).append((parts, _plugins(record)))
    lines, notes = [], []
    for (benchmark, name), runs in rows.items():
        totals = [sum(parts.values()) for parts, _ in runs]

        def share(seconds: list[float], totals: list[float] = totals) -> float:
            return statistics.fmean(100 * s / t for s, t in zip(seconds, totals, strict=True))

        shares = [share([parts[part] for parts, _ in runs]) for part in PARTS]
        lines.append(
            [benchmark, name, f"{statistics.fmean(totals):.1f}"]
            + [f"{share:.1f}" for share in shares]
        )
        plugins = {p: share([own.get(p, 0.0) for _, own in runs]) for p in runs[0][1]}
        costly = [f"{clean(p)} {s:.1f}" for p, s in plugins.items() if s >= 0.05]
        notes.append(f"{benchmark} {name}: {short(', '.join(costly)) or 'none'}")
    head = ["benchmark", "method", "seconds", *(f"{part} %" for part in PARTS)]
    table = fitted_table(lines, head, prose=(), right=head[2:])
    return "\n".join([table, "", "plugins, %:", *notes] if notes else [table])


def by_part(record: Record) -> dict[str, float]:
    """Seconds of each of PARTS; empty for a record from before they were kept."""
    kept = record.seconds.parts
    if not sum(kept.values()):
        return {}
    return {part: kept.get(part, 0.0) for part in PARTS} | {
        "plugins": sum(_plugins(record).values())
    }


def _plugins(record: Record) -> dict[str, float]:
    """Seconds of each plugin, by its name."""
    kept = record.seconds.parts.items()
    return {part.removeprefix("plugin "): s for part, s in kept if part.startswith("plugin ")}
