"""The sentences around a table: the setting, the runs that are left out, and the warnings."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from clbench.labels import text
from clbench.protocol import PROTOCOL_DEFAULTS
from clbench.record import Shown
from clbench.report.columns import Column
from clbench.report.escape import short
from clbench.report.installed import upper_bounds
from clbench.report.rows import Row, usual_effort
from clbench.report.runs import Run, made_with
from clbench.scenario import WORDS


def caption(rows: Sequence[Row], normal: Run, what: str = "A row", zero: bool = True) -> list[str]:
    """Tasks, protocol, data and machine of the usual setting; `what` is the word for one method's
    place in the output, and `zero` says whether BWT may be shown as Zero."""
    protocol = normal.spec.protocol
    known = [key for key in PROTOCOL_DEFAULTS if key in protocol]
    order = known + sorted(protocol.keys() - set(known))
    listing = short(", ".join(f"{key}={text(protocol[key])}" for key in order))
    changed = f" (changed by the user: {normal.protocol})" if normal.protocol else ""
    scenario = WORDS.get(normal.scenario, "")
    facts = [f"T = {normal.tasks} tasks. {scenario}", f"Protocol{changed}: {listing}."]
    if any(row.head.tuned for row in rows):
        effort = usual_effort(rows)
        facts.append(
            f"Each row has the best values of a search on validation data: {effort}."
            if effort
            else "Some rows have the best values of a search on validation data, and say of which."
        )
    if any(row.mark for row in rows):
        facts.append(f"{what} made with anything else says so in parentheses.")
    if normal.data:
        named = [
            f"{name} ({note})" if (note := normal.notes.get(name)) else name
            for name in sorted(normal.data)
        ]
        facts.append(f"Data: {short(', '.join(named))}.")
    if zero and any(row.zero for row in rows):
        facts.append("Zero: free of forgetting by construction, and measured so.")
    plural = "" if normal.spec.threads == 1 else "s"
    facts.append(f"Run on {normal.setting['device']} with {normal.spec.threads} thread{plural}.")
    return facts


def spread(rows: list[Row], shown: str) -> str:
    """What the number after each mean is; `shown` is how this format prints it."""
    counts = sorted({len(row.counted) for row in rows if row.counted})
    seeds = {tuple(row.seeds) for row in rows if row.counted}
    if not counts:
        return "No run is done yet."
    if counts == [1]:
        which = f" (seed {next(iter(seeds))[0]})" if len(seeds) == 1 else ""
        return f"One seed each{which}, so there is no standard deviation."
    if len(counts) > 1:
        return (
            f"{shown}: mean and sample standard deviation over the number of seeds given; "
            "none for one seed."
        )
    which = f" ({listed(next(iter(seeds)))})" if len(seeds) == 1 else ""
    return f"{shown}: mean and sample standard deviation over {counts[0]} seeds{which}."


def warnings(
    rows: list[Row], columns: list[Column], skipped: int, name: Callable[[Row], str]
) -> list[str]:
    """Warnings that the numbers alone do not show; `name` gives the name of a row."""
    found: list[str] = []
    for row in rows:
        found += _not_counted(row, name)
        bwt = row.value("bwt")
        if row.head.zero_forgetting and bwt is not None and not row.zero:
            found.append(
                f"{name(row)}: declared free of forgetting, yet the accuracy on an earlier task "
                f"changed (BWT {bwt.mean:.4g})."
            )
        own = shown_warnings(row.head.lays_open, [run.numbers for run in row.counted])
        found += [f"{name(row)}: {sentence}" for sentence in own]
    if shown_memory := {"arch", "replay", "aux"} & {column.key for column in columns}:
        guessed = [name(row) for row in rows if any(run.memory_found for run in row.counted)]
        if guessed and shown_memory - {"arch"}:
            found.append(
                f"Replay and auxiliary memory of {few(guessed, 'rows')} were found by clbench, as "
                "the method does not count them itself."
            )
    found += _other_seeds(rows, name)
    found += _other_origins(rows, name)
    found += _intransigence(
        rows, {column.key.removesuffix("-fraction") for column in columns}, name
    )
    if skipped:
        files = "1 record" if skipped == 1 else f"{skipped} records"
        found.append(f"{files} could not be read and may be missing here.")
    return found


def few(names: list[str], what: str) -> str:
    """Up to three names, or the number of them."""
    return "; ".join(names) if len(names) < 4 else f"{len(names)} {what}"


def listed(seeds: Iterable[int]) -> str:
    """0,1,2,7 -> `0-2, 7`."""
    parts: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ", ".join(
        f"{p[0]}-{p[-1]}" if len(p) > 2 else ", ".join(str(seed) for seed in p) for p in parts
    )


def _not_counted(row: Row, name: Callable[[Row], str]) -> list[str]:
    """`ewc: 1 of 3 seeds failed (seed 1), 1 unfinished (seed 2: 3 of 5 tasks).`"""
    total = len(row.counted) + len(row.others)
    failed = [run.seed for run in row.others if run.status == "failed"]
    partial = [run for run in row.others if run.status == "partial"]
    seeds = "seed" if total == 1 else "seeds"
    words = []
    if failed:
        words.append(f"{len(failed)} of {total} {seeds} failed ({_seeds(failed)})")
    if partial:
        where = ", ".join(f"seed {r.seed}: {r.done} of {r.tasks} tasks" for r in partial)
        of = "" if failed else f" of {total} {seeds}"
        words.append(f"{len(partial)}{of} unfinished ({where})")
    sentences = [f"{name(row)}: {', '.join(words)}."] if words else []
    for run in row.others:
        if run.status == "done":
            sentences.append(f"{name(row)}: seed {run.seed} (run {run.id}) left out: {run.fault}.")
    return sentences


def _other_seeds(rows: list[Row], name: Callable[[Row], str]) -> list[str]:
    """`The seeds are 0-2, but for ewc: 0, 1.`"""
    counts = Counter(tuple(row.seeds) for row in rows if row.counted)
    if len(counts) < 2:
        return []
    most = min(counts, key=lambda seeds: (-counts[seeds], seeds))
    odd = [f"{name(c)}: {listed(c.seeds)}" for c in rows if c.counted and tuple(c.seeds) != most]
    return [f"The seeds are {listed(most)}, but for {'; '.join(odd)}."]


def _other_origins(rows: list[Row], name: Callable[[Row], str]) -> list[str]:
    """`Not all runs were made alike: torch 2.14 and 2.15 (even inside a row: ewc).`"""
    apart = made_with((run for row in rows for run in row.counted), apart=True)
    if not apart:
        return []
    mixed = [name(row) for row in rows if made_with(row.counted, apart=True)]
    inside = f" (even the seeds averaged in {few(mixed, 'rows')})" if mixed else ""
    return [f"Not all runs were made alike: {apart}{inside}."]


def _intransigence(rows: list[Row], keys: set[str], name: Callable[[Row], str]) -> list[str]:
    """Which rows have no intransigence and why, and which upper bound the others are measured
    against where there are several."""
    keys &= _TESTED.keys()
    if not keys:
        return []
    bounds = [row for row in rows if row.counted and row.head.upper_bound]
    names = sorted({row.head.method_name for row in bounds}) or upper_bounds()
    found = []
    for key in sorted(keys):
        lacking = [
            f"{name(row)} ({_seeds(seeds)})"
            for row in rows
            if (seeds := [run.seed for run in row.counted if math.isnan(run.values[key])])
        ]
        if lacking:
            found.append(
                f"No {key.replace('-', ' ')} without a finished run of "
                f"{' or '.join(names) or 'an upper bound'}, {_TESTED[key]}, on the same benchmark, "
                f"protocol and seed: {'; '.join(lacking)}."
            )
    if len({row.head.condition for row in bounds}) < len(bounds):
        used = {run.reference for row in rows for run in row.counted}
        chosen = [name(row) for row in bounds if used & {run.id for run in row.counted}]
        found.append(
            f"Intransigence is measured against {' and '.join(chosen)}, not against the other "
            f"rows of {' and '.join(names)}."
        )
    return found


_TESTED = {
    "intransigence": "tested after the last task",
    "mean-intransigence": "tested after every task",
}
"""Column -> what it needs of an upper bound."""


def shown_warnings(
    lays_open: Mapping[str, Shown], numbers: Sequence[Mapping[str, Any]]
) -> list[str]:
    """What a method's diagnostics warn of; `numbers` are those of each seed after the last task."""
    found = []
    for key, shown in lays_open.items():
        if shown.kind != "number":
            continue
        values = [own[key] for own in numbers if own.get(key) is not None]
        if shown.below is None or not shown.warning or not values or len(values) < len(numbers):
            continue
        if (mean := statistics.fmean(values)) < shown.below:
            found.append(_filled(shown.warning, mean))
    return found


def _filled(warning: str, value: float) -> str:
    """The value in place of `{value}` or `{value:.2f}`. Nothing else is replaced: the text comes
    from a record, and `str.format` would obey whatever stands in it."""
    return re.sub(
        r"\{value(?::\.(\d)f)?\}",
        lambda found: f"{value:.{found[1]}f}" if found[1] else f"{value:g}",
        warning,
    )


def _seeds(seeds: list[int]) -> str:
    return f"{'seed' if len(seeds) == 1 else 'seeds'} {listed(seeds)}"
