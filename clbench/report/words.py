"""The sentences around a table: what it was made with, and what is not in it."""

import math
from collections import Counter
from collections.abc import Callable, Iterable

from clbench.protocol import PROTOCOL_DEFAULTS
from clbench.report.cells import Cell
from clbench.report.columns import Column
from clbench.report.diagnosis import IDLE, idle_words
from clbench.report.runs import Run


def caption(cells: list[Cell], normal: Run, row: str = "A row", zero: bool = True) -> list[str]:
    """Tasks, protocol, data and machine of the usual setting; `row` is what names a method, and
    `zero` says whether BWT may be shown as Zero."""
    protocol = {
        key.removeprefix("protocol."): value
        for key, value in normal.setting.items()
        if key.startswith("protocol.")
    }
    known = [key for key in PROTOCOL_DEFAULTS if key in protocol]
    order = known + sorted(protocol.keys() - set(known))
    listing = ", ".join(f"{key}={protocol[key]}" for key in order)
    changed = f" (changed by the user: {normal.protocol})" if normal.protocol else ""
    facts = [f"T = {normal.tasks} tasks.", f"Protocol{changed}: {listing}."]
    if any(cell.mark for cell in cells):
        facts.append(f"{row} made with anything else says so in parentheses.")
    if normal.data:
        named = [
            f"{name} ({note})" if (note := normal.notes.get(name)) else name
            for name in sorted(normal.data)
        ]
        facts.append(f"Data: {', '.join(named)}.")
    if zero and any(cell.zero for cell in cells):
        facts.append("Zero: free of forgetting by construction, and measured so.")
    threads = normal.setting.get("threads", "?")
    plural = "" if threads == "1" else "s"
    facts.append(f"Run on {normal.setting.get('device', '?')} with {threads} thread{plural}.")
    return facts


def spread(cells: list[Cell], shown: str) -> str:
    """What the number after each mean is; `shown` is how this format prints it."""
    counts = sorted({len(cell.counted) for cell in cells if cell.counted})
    seeds = {tuple(cell.seeds) for cell in cells if cell.counted}
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
    cells: list[Cell], columns: list[Column], skipped: int, name: Callable[[Cell], str]
) -> list[str]:
    """All that a reader of the numbers alone would get wrong; `name` is what rows are called."""
    found: list[str] = []
    for cell in cells:
        found += _not_counted(cell, name)
        if cell.head.zero_forgetting and cell.value("bwt") is not None and not cell.zero:
            found.append(
                f"{name(cell)}: declared free of forgetting, yet the accuracy on an earlier task "
                f"changed (BWT {_bwt(cell)})."
            )
        cost = cell.value("shared-cost")
        if cost is not None and cost.mean < IDLE:
            found.append(f"{name(cell)}: {idle_words(cost.mean)}")
    found += _other_seeds(cells, name)
    keys = {column.key for column in columns}
    if keys & {"intransigence", "intransigence-fraction"}:
        found += _no_reference(cells, name, "intransigence", "joint")
    if keys & {"mean-intransigence", "mean-intransigence-fraction"}:
        found += _no_reference(cells, name, "mean-intransigence", "joint[each=true]")
    if any("intransigence" in key for key in keys):
        found += _which_reference(cells, name)
    if skipped:
        files = "1 record" if skipped == 1 else f"{skipped} records"
        found.append(f"{files} could not be read and may be missing here.")
    return found


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


def _not_counted(cell: Cell, name: Callable[[Cell], str]) -> list[str]:
    """`ewc: 1 of 3 seeds failed (seed 1), 1 unfinished (seed 2: 3 of 5 tasks).`"""
    total = len(cell.counted) + len(cell.others)
    failed = [run.seed for run in cell.others if run.status == "failed"]
    partial = [run for run in cell.others if run.status == "partial"]
    seeds = "seed" if total == 1 else "seeds"
    words = []
    if failed:
        words.append(f"{len(failed)} of {total} {seeds} failed ({_seeds(failed)})")
    if partial:
        where = ", ".join(f"seed {r.seed}: {r.done} of {r.tasks} tasks" for r in partial)
        of = "" if failed else f" of {total} {seeds}"
        words.append(f"{len(partial)}{of} unfinished ({where})")
    sentences = [f"{name(cell)}: {', '.join(words)}."] if words else []
    for run in cell.others:
        if run.status == "done":
            sentences.append(f"{name(cell)}: seed {run.seed} (run {run.id}) left out: {run.fault}.")
    return sentences


def _other_seeds(cells: list[Cell], name: Callable[[Cell], str]) -> list[str]:
    """`The seeds are 0-2, but for ewc: 0, 1.`"""
    counts = Counter(tuple(cell.seeds) for cell in cells if cell.counted)
    if len(counts) < 2:
        return []
    most = min(counts, key=lambda seeds: (-counts[seeds], seeds))
    odd = [f"{name(c)}: {listed(c.seeds)}" for c in cells if c.counted and tuple(c.seeds) != most]
    return [f"The seeds are {listed(most)}, but for {'; '.join(odd)}."]


def _no_reference(
    cells: list[Cell], name: Callable[[Cell], str], key: str, reference: str
) -> list[str]:
    rows = []
    for cell in cells:
        lacking = [r.seed for r in cell.counted if math.isnan(r.values[key])]
        if lacking:
            rows.append(f"{name(cell)} ({_seeds(lacking)})")
    if not rows:
        return []
    return [
        f"No {key.replace('-', ' ')} without a finished run of {reference} on the same benchmark, "
        f"protocol and seed: {'; '.join(rows)}."
    ]


def _which_reference(cells: list[Cell], name: Callable[[Cell], str]) -> list[str]:
    """Which rows of joint intransigence is measured against, where there are several to choose."""
    joint = [c for c in cells if c.counted and c.head.method_name == "joint"]
    if len({c.head.condition for c in joint}) == len(joint):
        return []
    used = {run.reference for cell in cells for run in cell.counted}
    rows = [name(c) for c in joint if used & {run.id for run in c.counted}]
    return [f"Intransigence is measured against {' and '.join(rows)}, not the other rows of joint."]


def _seeds(seeds: list[int]) -> str:
    return f"{'seed' if len(seeds) == 1 else 'seeds'} {listed(seeds)}"


def _bwt(cell: Cell) -> str:
    value = cell.value("bwt")
    assert value is not None
    return f"{value.mean:.4g}"
