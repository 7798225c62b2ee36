"""Two sides of measurements, paired by seed: difference, interval, test, and a word.

For each pair of rows, with d_s the difference B - A of seed s:

    mean of d, its 95 % interval by bootstrap over seeds (with a handful of seeds hardly more than
    their range), and the paired t-test of d = 0, its p corrected over all tests by Holm's rule

A word is `better` or `worse` (of B) if the corrected p is below alpha, else `same`; `untested` if
fewer than two seeds pair up. Against the paper, which has only means and standard deviations, the
test is Welch's, from those.
"""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from clbench.errors import UserError
from clbench.papers import Published
from clbench.report.columns import COLUMNS, Column
from clbench.report.rows import differences
from clbench.report.runs import Facts, Run, made_with

RESAMPLES = 10_000
Key = tuple[str, str]
"""Benchmark, and what else a pair shares (method or protocol), as a user would type them."""


@dataclass(frozen=True)
class Comparison:
    """One line: B against A."""

    benchmark: str
    what: str
    seeds: tuple[int, ...]
    a: float
    b: float
    difference: float
    low: float
    high: float
    p: float | None
    """Holm's; None where nothing could be tested."""
    word: str
    made_with: str
    """Versions and hardware in which its runs differ; empty if in none."""


def by_seed(
    runs: Iterable[Run], key: str, side: str, others: Iterable[Run] = ()
) -> dict[Key, dict[int, Run]]:
    """Counted runs by pair and seed; two runs of one seed are never averaged in silence.

    In a folder, runs of one name that were made with other values (those that a method's file tunes
    have changed) are pairs of their own, named alike on both sides: `others` are the other's.
    """
    mine, theirs = _alike(runs, key), _alike(others, key)
    found: dict[Key, dict[int, Run]] = {}
    for (benchmark, shared), several in mine.items():
        both = [several, theirs.get((benchmark, shared), [])]
        facts = [Facts(run.setting | run.learner) for part in both for run in part]
        twice = any(len({run.seed for run in part}) < len(part) for part in both)
        for run, own in zip(several, facts, strict=False):
            apart = differences(own, facts) if twice and key == "method" else {}
            name = " ".join([shared, ", ".join(apart.values())]).strip()
            seeds = found.setdefault((benchmark, name), {})
            if (other := seeds.get(run.seed)) is not None:
                raise UserError(
                    f"{side} has two runs of {_labelled(run)} on {run.benchmark} with seed "
                    f"{run.seed} ({other.id} and {run.id}), with other values or on other data. "
                    "Leave one in its folder (clbench show RUN tells them apart)."
                )
            seeds[run.seed] = run
    return found


def _alike(runs: Iterable[Run], key: str) -> dict[Key, list[Run]]:
    """Counted runs by benchmark and what a pair shares."""
    found: dict[Key, list[Run]] = {}
    for run in runs:
        if run.counted:
            shared = run.protocol if key == "protocol" else _labelled(run)
            found.setdefault((run.benchmark, shared), []).append(run)
    return found


def _labelled(run: Run) -> str:
    return f"{run.method} ({run.protocol})" if run.protocol else run.method


def unpaired(a: dict[Key, dict[int, Run]], b: dict[Key, dict[int, Run]]) -> list[str]:
    """A sentence for all that A has a result of and B has not, or has under another condition."""
    sentences = []
    for key in sorted(a):
        name = " ".join(word for word in (key[1], "on", key[0]) if word)
        gone = [str(seed) for seed in sorted(a[key].keys() - b.get(key, {}).keys())]
        if gone:
            sentences.append(f"B has no result of {name}, seed {', '.join(gone)}, which A has.")
        for seed in sorted(a[key].keys() & b.get(key, {}).keys()):
            if not _comparable(a[key][seed], b[key][seed]):
                sentences.append(
                    f"{name}, seed {seed}: left out, as data, protocol or version of the benchmark "
                    "differ between A and B."
                )
    return sentences


def _comparable(a: Run, b: Run) -> bool:
    """By one method, all of the setting must be equal; by two, what does not belong to them."""
    return (a.method != b.method or a.setting == b.setting) and a.condition == b.condition


def compare(
    a: dict[Key, dict[int, Run]], b: dict[Key, dict[int, Run]], column: str, alpha: float
) -> list[Comparison]:
    """All pairs that both sides have under one condition, in order."""
    lines = []
    for key in sorted(a.keys() & b.keys()):
        both = sorted(a[key].keys() & b[key].keys())
        seeds = [seed for seed in both if _comparable(a[key][seed], b[key][seed])]
        pairs = {s: (a[key][s].values[column], b[key][s].values[column]) for s in seeds}
        known = {s: pair for s, pair in pairs.items() if not any(map(math.isnan, pair))}
        if known:
            first, second = zip(*known.values(), strict=True)
            gaps = [y - x for x, y in known.values()]
            runs = [side[key][seed] for side in (a, b) for seed in known]
            lines.append(_line(key, list(known), first, second, gaps, _paired(gaps), runs))
    return _judged(lines, COLUMNS[column], alpha)


def against_paper(
    runs: dict[Key, dict[int, Run]],
    rows: dict[Key, tuple[Published, int]],
    column: str,
    alpha: float,
) -> list[Comparison]:
    """Measured ACC or BWT against published rows, each with its number of runs or 0 if that is not
    known; the paper is A."""
    lines = []
    for key in sorted(runs.keys() & rows.keys()):
        row, n = rows[key]
        values = {s: run.values[column] for s, run in sorted(runs[key].items())}
        mean, std = (row.acc, row.acc_std) if column == "acc" else (row.bwt, row.bwt_std)
        std = std if n else None
        if mean is None or any(math.isnan(value) for value in values.values()):
            continue
        measured = list(values.values())
        gaps = [value - mean for value in measured]
        p = _welch(measured, mean, std, n)
        error = std / n**0.5 if std else 0.0
        lines.append(_line(key, list(values), [mean], measured, gaps, p, runs[key].values(), error))
    return _judged(lines, COLUMNS[column], alpha)


def _line(
    key: Key,
    seeds: list[int],
    a: Iterable[float],
    b: Iterable[float],
    gaps: list[float],
    p: float | None,
    runs: Iterable[Run],
    error: float = 0.0,
) -> Comparison:
    low, high = interval(gaps, error)
    mean = statistics.fmean
    apart = made_with(runs, apart=True)
    return Comparison(*key, tuple(seeds), mean(a), mean(b), mean(gaps), low, high, p, "", apart)


def interval(gaps: list[float], error: float = 0.0) -> tuple[float, float]:
    """The 95 % percentile bootstrap of the mean, NaN for one seed; `error` is A's standard error,
    where only that is known. From a fixed seed, so it is always the same."""
    if len(gaps) < 2:
        return math.nan, math.nan
    rng = np.random.default_rng(0)
    draws = rng.integers(0, len(gaps), (RESAMPLES, len(gaps)))
    means = np.asarray(gaps)[draws].mean(1) - error * rng.standard_normal(RESAMPLES)
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def _paired(gaps: list[float]) -> float | None:
    """p of the paired t-test; differences that are all equal leave no doubt."""
    if len(gaps) < 2:
        return None
    if np.allclose(gaps, gaps[0], rtol=0, atol=1e-9):
        return 1.0 if abs(gaps[0]) < 1e-9 else 0.0
    from scipy import stats

    return float(stats.ttest_1samp(gaps, 0.0).pvalue)


def _welch(measured: list[float], mean: float, std: float | None, n: int) -> float | None:
    """p of Welch's test from the published mean, standard deviation and number of runs."""
    if len(measured) < 2 or std is None:
        return None
    from scipy import stats

    mine = statistics.fmean(measured), statistics.stdev(measured), len(measured)
    if mine[1] == std == 0:
        return 1.0 if mine[0] == mean else 0.0
    return float(stats.ttest_ind_from_stats(*mine, mean, std, n, equal_var=False).pvalue)


def holm(ps: list[float]) -> list[float]:
    """Holm's step-down correction, in the order given."""
    corrected, worst = [0.0] * len(ps), 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        worst = max(worst, min(1.0, (len(ps) - rank) * ps[i]))
        corrected[i] = worst
    return corrected


def _judged(lines: list[Comparison], column: Column, alpha: float) -> list[Comparison]:
    corrected = iter(holm([line.p for line in lines if line.p is not None]))
    judged = []
    for line in lines:
        if line.p is None:
            word = "same" if line.difference == 0 else "untested"
            judged.append(replace(line, word=word))
            continue
        p = next(corrected)
        gain = math.copysign(1, line.difference) * (column.best or 1)
        word = "same" if p >= alpha else "better" if gain > 0 else "worse"
        judged.append(replace(line, p=p, word=word))
    return judged
