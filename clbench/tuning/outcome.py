"""What a search has found, as a file of data, and as values for `clbench run --tuned`.

    <out>/tuned/<benchmark>.toml      one entry per method, with all of its trials

The file says all that a reader of a table must know: how many trials, on what, with which seeds,
and by which command. Nothing in it names a file, so it can come from somebody else.
"""

import json
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from clbench.declare import Declaration, Field
from clbench.errors import UserError, unknown
from clbench.files import read_toml, shown, write_atomically
from clbench.labels import label, text
from clbench.limits import Count, Few, Id, Long, Name, Percent, Value, tamed
from clbench.record import Values
from clbench.record_file import in_words
from clbench.registry import check_setting
from clbench.report.escape import slug
from clbench.resolve import Tuned
from clbench.tuning.space import PROTOCOL

Seeds = Annotated[list[Count], Meta(min_length=1, max_length=100)]


_LARGEST = 1e15
"""No end of a range is as large."""


class Tried(Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One trial."""

    id: Id
    """Of its run with the first tuning seed, in `<out>/trials`."""
    state: Literal["finished", "pruned", "failed"]
    values: Values
    early: Percent | None = None
    """Its score after the task at which half of the trials stop."""
    scores: Annotated[list[Percent], Few] = msgspec.field(default_factory=list)
    """Its score after the last task, for each tuning seed that it was trained with."""

    @property
    def score(self) -> float:
        return statistics.fmean(self.scores) if self.scores else math.nan


class Entry(Struct, kw_only=True, forbid_unknown_fields=True):
    """What the search of one method has found."""

    name: Name
    """The method as a user typed it."""
    best: Count
    """Number of the trial, from 0."""
    values: Values
    """Its values."""
    tuned_on: Name
    """The benchmark whose validation data were looked at."""
    looked_at: Name
    """`first 3 tasks` or `all 5 tasks`."""
    seeds: Seeds
    """The tuning seeds: no result may be reported for them."""
    epochs: Annotated[float, Meta(ge=0, le=1e15)]
    """What all runs of the search took, in epochs over the tasks that were looked at."""
    sampler: Name
    space: Annotated[dict[Name, Name], Meta(min_length=1, max_length=100)]
    """What was searched: a range like `log 1..1000`, or choices."""
    protocol: Values
    """What the user changed of the protocol for the search."""
    clbench: Name
    command: Long
    trials: Annotated[list[Tried], Meta(min_length=1, max_length=100_000)]

    @property
    def usual(self) -> float:
        """The score of the usual values."""
        return self.trials[0].score

    def count(self, state: str) -> int:
        return sum(trial.state == state for trial in self.trials)


class Outcome(Struct, kw_only=True, forbid_unknown_fields=True):
    """One file."""

    format: Literal[1] = 1
    """Version of the layout."""
    benchmark: Name
    """The benchmark that the values are for, as a user types it."""
    method: list[Entry] = []


def words(entry: Entry, benchmark: str) -> str:
    """How the values of an entry were found, for records and captions: `20 trials, first 3 tasks,
    3 seeds`."""
    number, seeds = len(entry.trials), len(entry.seeds)
    parts = [f"{number} trial{'s' if number > 1 else ''}", entry.looked_at]
    if entry.tuned_on != benchmark:
        parts[1] += f" of {entry.tuned_on}"
    parts.append(f"{seeds} seed{'s' if seeds > 1 else ''}")
    return ", ".join(parts + [f"{key}={text(value)}" for key, value in entry.protocol.items()])


def place_of(out: Path, benchmark: str) -> Path:
    """The file of a benchmark."""
    return out / "tuned" / f"{slug(benchmark)}.toml"


def read(path: Path) -> Outcome:
    """The content of a file; a UserError says what is wrong with it."""
    content = read_toml(path, shown(path))
    check_setting(content, shown(path))
    try:
        found = msgspec.convert(content, Outcome)
    except msgspec.ValidationError as error:
        raise UserError(f"{shown(path)} is no file of `clbench tune`: {in_words(error)}.") from None
    for entry in found.method:
        where = f"{shown(path)}: {entry.name}"
        if entry.best >= len(entry.trials):
            raise UserError(f"{where}: there is no trial {entry.best}.")
        for name, space in entry.space.items():
            if not name.isprintable():
                raise UserError(f"{where}: the name of a value cannot be printed.")
            if ".." in space and not _is_range(space):
                raise UserError(f"{where}: {name}: {space!r} is no range.")
    return found


def ends(space: str) -> list[float]:
    """The ends of a range."""
    return [float(end) for end in space.split(" ")[-1].split("..")]


def _is_range(space: str) -> bool:
    try:
        low, high = ends(space)
    except ValueError:
        return False
    return -_LARGEST < low < high < _LARGEST and (low > 0 or not space.startswith("log"))


def merged(path: Path, benchmark: str, entries: list[Entry]) -> Outcome:
    """The file's content with new entries; those of other methods stay."""
    old = read(path) if path.exists() else Outcome(benchmark=benchmark)
    if old.benchmark != benchmark:
        raise UserError(f"{shown(path)} is for {old.benchmark}, not for {benchmark}.")
    by_name = {entry.name: entry for entry in [*old.method, *entries]}
    return Outcome(benchmark=benchmark, method=[by_name[name] for name in sorted(by_name)])


def write(path: Path, outcome: Outcome, root: Path) -> None:
    """Write a file; the same outcome gives the same bytes."""
    content = _toml(outcome).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content, root)
    except OSError as error:
        raise UserError(f"{shown(path)} cannot be written: {error.strerror}.") from None


def _toml(outcome: Outcome) -> str:
    lines = [
        "# Written by `clbench tune`, read by `clbench run --tuned`. Scores are validation",
        "# accuracies in percent.",
        *_pairs(outcome, "method"),
    ]
    for entry in outcome.method:
        lines += ["", "[[method]]", *_pairs(entry, "trials")]
        for trial in entry.trials:
            lines += ["[[method.trials]]", *_pairs(trial)]
    return "\n".join(lines) + "\n"


def _pairs(part: Struct, without: str = "") -> list[str]:
    plain = msgspec.to_builtins(part)
    return [f"{key} = {_value(value)}" for key, value in plain.items() if key != without]


def _value(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(key)} = {_value(one)}" for key, one in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool | None):
        return "true" if value is True else "false" if value is False else '"none"'
    if isinstance(value, str):
        return json.dumps(tamed(value), ensure_ascii=False)
    return repr(value)


def name_of(declaration: Declaration, given: Mapping[str, Any]) -> str:
    """A method with the values that a user gave, or a benchmark with those that are no defaults."""
    usual = declaration.defaults if declaration.kind == "benchmark" else {}
    told = {name: given[name] for name in sorted(given) if given[name] != usual.get(name, Ellipsis)}
    return label(declaration.name, told)


class Found:
    """The values for `clbench run --tuned`, from one file or from those of a folder."""

    def __init__(self, out: Path, file: str = "") -> None:
        self.out, self.file = out, file
        self._read: dict[Path, Outcome] = {}

    def __call__(
        self,
        method: Declaration,
        given: Mapping[str, Any],
        benchmark: Declaration,
        benchmark_given: Mapping[str, Any],
        seeds: list[int],
    ) -> Tuned:
        where = name_of(benchmark, benchmark_given)
        path = Path(self.file) if self.file else place_of(self.out, where)
        outcome = self._outcome(path, where)
        entry = _entry(outcome, method, given, path)
        if taken := sorted(set(seeds) & set(entry.seeds)):
            raise UserError(
                f"--tuned: {entry.name} was tuned with seed {taken[0]}, so a result with this seed "
                "would be no result of unseen data. Name other --seeds."
            )
        values = {k: _checked(method, k, v, path) for k, v in entry.values.items()}
        return Tuned(values, words(entry, outcome.benchmark))

    def _outcome(self, path: Path, where: str) -> Outcome:
        if path not in self._read:
            if not path.exists():
                raise UserError(
                    f"--tuned: there is no file {shown(path)}. "
                    f"`clbench tune --benchmarks {where}` writes one."
                )
            self._read[path] = read(path)
        outcome = self._read[path]
        if outcome.benchmark != where:
            raise UserError(f"--tuned: {shown(path)} is for {outcome.benchmark}, not for {where}.")
        return outcome


def _entry(outcome: Outcome, method: Declaration, given: Mapping[str, Any], path: Path) -> Entry:
    """The entry of the method as it was typed, or else without the values in its brackets. These
    count more than tuned ones. A preset decides about other values, so it must have been tuned."""
    known = {entry.name: entry for entry in outcome.method}
    name = name_of(method, given)
    usual = method.defaults.get("preset")
    found = known.get(name)
    if given.get("preset", usual) == usual:
        found = found or known.get(method.name)
    if found is None:
        raise UserError(
            f"--tuned: {shown(path)} has no values for {name}. A comparison needs equal effort for "
            f"all methods: `clbench tune --methods {name} --benchmarks {outcome.benchmark}`, or "
            "leave it out."
        )
    return found


def _checked(method: Declaration, name: str, value: Value, path: Path) -> Any:
    from clbench.protocol import PROTOCOL_FIELDS

    fields: dict[str, Field] = {key: PROTOCOL_FIELDS[key] for key in PROTOCOL} | method.fields
    if name not in fields:
        raise unknown(f"value of {method.name} in {shown(path)}:", name, fields)
    field = fields[name]
    return field.check(None if value == "none" and field.optional else value, shown(path))
