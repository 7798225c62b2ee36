"""`clbench tune --report`: what searches have found, as a table, and as a figure of slices.

Everything comes from the files in `<out>/tuned`, so a report needs no trial to be there.
"""

import csv
import fnmatch
import io
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from scipy.stats import rankdata

from clbench.errors import UserError, unknown
from clbench.labels import text
from clbench.registry import split_list
from clbench.report.escape import csv_cell, markdown, short, slug
from clbench.report.table import MISSING, number
from clbench.report.write import put
from clbench.tuning.outcome import Entry, Outcome, Tried, read, words
from clbench.tuning.search import EARLY
from clbench.width import fitted_table, terminal_width, wrap

LEAST = 5
"""Trials without which a sensitivity says nothing."""
HEADINGS = (
    "method", "usual %", "best %", "gain", "median gain", "trials", "pruned", "failed", "epochs",
    "sensitivity", "best values",
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """What a table says of one method."""

    entry: Entry
    usual: float
    best: float
    median: float
    """What the median of the trials that came to their end gains, with the first tuning seed."""
    sensitivity: dict[str, float]
    """Parameter -> rank correlation between its values and the scores; NaN if unknown."""

    @classmethod
    def of(cls, entry: Entry) -> "Line":
        whole = [trial.scores[0] for trial in entry.trials if trial.scores]
        usual = entry.trials[0].scores
        median = statistics.median(whole) - usual[0] if usual else math.nan
        told = {name: correlation(entry, name) for name in entry.space}
        return cls(entry, entry.usual, entry.trials[entry.best].score, median, told)

    def cells(self) -> list[str]:
        """The texts of a row."""
        entry = self.entry
        told = [f"{key} {value:+.2f}" for key, value in self.sensitivity.items() if value == value]
        numbers = [self.usual, self.best, self.best - self.usual, self.median]
        counts = [len(entry.trials), entry.count("pruned"), entry.count("failed")]
        values = ", ".join(f"{key}={text(value)}" for key, value in entry.values.items())
        return [
            short(entry.name),
            *(MISSING if math.isnan(value) else number(value, 2) for value in numbers),
            *map(str, counts),
            f"{entry.epochs:g}",
            ", ".join(told) or MISSING,
            short(values),
        ]


def show(out: Path, methods: str | None = None, benchmarks: str | None = None) -> None:
    """Print the tables of some searches, and write them and their figures."""
    folder = out / "tuned"
    found = _wanted([read(path) for path in sorted(folder.glob("*.toml"))], benchmarks, folder)
    for outcome in found:
        entries = [entry for entry in outcome.method if _named(entry, methods)]
        if not entries:
            continue
        lines = [Line.of(entry) for entry in entries]
        rows = [line.cells() for line in lines]
        click.echo(f"Tuning of {short(outcome.benchmark)}\n")
        click.echo(fitted_table(rows, HEADINGS, prose=("sensitivity", "best values")))
        about = caption(outcome, entries)
        click.echo("\n" + "\n".join(wrap(sentence, terminal_width()) for sentence in about) + "\n")
        for path in put(folder, _files(outcome, entries, rows, about), out):
            click.echo(f"wrote {path}")
    if not any(_named(entry, methods) for outcome in found for entry in outcome.method):
        names = {entry.name for outcome in found for entry in outcome.method}
        raise unknown(f"method in {folder}:", methods or "", names)


def _wanted(found: list[Outcome], benchmarks: str | None, folder: Path) -> list[Outcome]:
    if not found:
        raise UserError(f"There is no search in {folder}. `clbench tune` makes one.")
    if benchmarks is None:
        return found
    known = {outcome.benchmark: outcome for outcome in found}
    for name in split_list(benchmarks):
        if name not in known:
            raise unknown(f"benchmark in {folder}:", name, known)
    return [known[name] for name in dict.fromkeys(split_list(benchmarks))]


def _named(entry: Entry, methods: str | None) -> bool:
    wanted = split_list(methods) if methods is not None else ["*"]
    names = entry.name, entry.name.partition("[")[0]
    return any(fnmatch.fnmatchcase(name, item) for item in wanted for name in names)


def correlation(entry: Entry, name: str) -> float:
    """Spearman's rank correlation between a parameter and the score, over the trials that were
    scored alike; NaN for too few, or if one of them never changes."""
    known = [(place(entry, name, trial), score(trial)) for trial in entry.trials]
    pairs = [pair for pair in known if not any(map(math.isnan, pair))]
    columns = list(zip(*pairs, strict=True))
    if len(pairs) < LEAST or any(len(set(column)) < 2 for column in columns):
        return math.nan
    return float(np.corrcoef([rankdata(column) for column in columns])[0, 1])


def score(trial: Tried) -> float:
    """The score that most trials have: the early one, or the final one if none stops early."""
    if trial.early is not None:
        return trial.early
    return trial.scores[0] if trial.scores else math.nan


def place(entry: Entry, name: str, trial: Tried) -> float:
    """Where the value of a trial lies on the axis of its parameter: a number, or a place in the
    list of choices."""
    listed = choices(entry, name)
    value = trial.values.get(name)
    if listed:
        return float(listed.index(text(value))) if text(value) in listed else math.nan
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if plain and value is not None else math.nan


def choices(entry: Entry, name: str) -> list[str]:
    """The choices of a parameter, as texts; none for a range."""
    space = entry.space[name]
    return [] if ".." in space else [choice.strip() for choice in space.split(",")]


def caption(outcome: Outcome, entries: Sequence[Entry]) -> list[str]:
    """What was done, and what the columns are."""
    efforts: dict[str, list[str]] = {}
    for entry in entries:
        efforts.setdefault(words(entry, outcome.benchmark), []).append(entry.name)
    told = [f"{', '.join(names)}: {effort}" for effort, names in efforts.items()]
    seeds = sorted({seed for entry in entries for seed in entry.seeds})
    about = [
        f"Effort: {short('; '.join(told) if len(told) > 1 else next(iter(efforts)))}.",
        "Usual and best: mean validation accuracy on all tasks that were looked at, after the last "
        f"of them, over the tuning seeds {', '.join(map(str, seeds))}; gain is their difference. "
        "Median gain: the median of the trials that came to their end, less the usual values, both "
        f"with seed {entries[0].seeds[0]}.",
        "Best is the highest of many scores, so it is higher than what the same values give on "
        "other seeds. Epochs: over the tasks that were looked at, all runs together.",
        "Sensitivity: Spearman's rank correlation between a parameter and the score "
        f"after task {EARLY}, over all trials that learned it; {LEAST} or more are needed.",
    ]
    if any(entry.looked_at.startswith("all") for entry in entries):
        about.append("A search on all tasks is an upper bound: a learner gets them one by one.")
    return about


def _files(
    outcome: Outcome, entries: list[Entry], rows: list[list[str]], about: list[str]
) -> dict[str, bytes]:
    from clbench.report.figures import FORMATS, style
    from clbench.report.figures.picture import Picture
    from clbench.report.figures.write import render
    from clbench.tuning.slices import draw

    name = slug(outcome.benchmark)
    files = {f"tuning-{name}.md": _markdown(outcome, rows, about), f"tuning-{name}.csv": _csv(rows)}
    with style.styled():
        figure = draw(entries)
        what = (
            "Score against each value that was searched, a row per method. Filled: trials that "
            "came to their end; hollow: those that stopped early; square: the usual values; star: "
            "the best ones. A score is the validation accuracy with the first tuning seed: after "
            f"task {EARLY}, or after the last task where no trial stops early."
        )
        picture = Picture(figure, [f"Tuning of {short(outcome.benchmark)}. {what}", about[0]])
        for kind in FORMATS:
            files[f"figure-tuning-{name}.{kind}"] = render(picture, kind)
        files[f"figure-tuning-{name}.txt"] = picture.text().encode()
    return files


def _markdown(outcome: Outcome, rows: list[list[str]], about: list[str]) -> bytes:
    table = [list(HEADINGS), [":---", *["---:"] * 8, ":---", ":---"]]
    table += [[markdown(cell) for cell in row] for row in rows]
    lines = [f"## Tuning of {markdown(short(outcome.benchmark))}", ""]
    lines += [f"| {' | '.join(row)} |" for row in table]
    return ("\n".join([*lines, "", markdown(" ".join(about))]) + "\n").encode()


def _csv(rows: list[list[str]]) -> bytes:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([list(HEADINGS), *([csv_cell(cell) for cell in row] for row in rows)])
    return file.getvalue().encode()
