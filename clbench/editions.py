"""Which code made a run: today's, or an earlier code of the same method or benchmark.

The newest code of a name has no mark. It is that of today, if a file that the user named or an
installed method has the name; else the highest version, and of that the newest record. Earlier code
is marked `mine@3f2a`, by the beginning of its digest, or `acl@v1`, by its version.
"""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise, takewhile
from pathlib import Path
from typing import TypeAlias

from clbench.declare import Declaration
from clbench.errors import UserError
from clbench.reading import read_declaration
from clbench.record import Part
from clbench.registry import declared_as, split_list

KINDS = ("method", "benchmark")
SHORT = 4
"""The fewest digits of a digest that name a code."""
Code: TypeAlias = tuple[int, str]
"""Version and digest."""
Seen: TypeAlias = tuple[str, Part, str, str]
"""Kind, method or benchmark, the benchmark's name, and when the run last learned something."""


def today(names: Iterable[tuple[str, str]], *lists: str | None) -> dict[tuple[str, str], Code]:
    """The code of today by kind and name, as far as it is known: that of the files in these lists
    of methods or benchmarks, and of what is installed."""
    known: dict[tuple[str, str], Declaration] = {}
    for item in (item for text in lists for item in split_list(text or "")):
        path = Path(item.partition("[")[0].strip()).expanduser()
        for kind in KINDS if path.suffix == ".py" and path.is_file() else ():
            with contextlib.suppress(UserError):  # a file of the other kind
                found = read_declaration(path, kind)
                known[kind, found.name] = found
    for kind, name in set(names) - known.keys():
        if (declaration := declared_as(kind, name)) is not None:
            known[kind, name] = declaration
    return {key: (found.version, found.digest) for key, found in known.items()}


@dataclass
class Editions:
    """The codes of the methods and benchmarks of some runs."""

    newest: dict[tuple[str, str], Code] = field(default_factory=dict)
    codes: dict[tuple[str, str], set[Code]] = field(default_factory=dict)
    there: set[tuple[str, str, str]] = field(default_factory=set)
    """Kind, name and benchmark of which there are runs of the newest code."""
    lengths: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    """How much of each digest tells it from the others of its name."""

    @classmethod
    def of(cls, runs: Iterable[Seen], known: Mapping[tuple[str, str], Code]) -> "Editions":
        """From all runs that are shown together, and the codes that are `known` to be newest."""
        seen = list(runs)
        found = cls(dict(known))
        last: dict[tuple[str, str], tuple[int, str, Code]] = {}
        for kind, part, _, finished in seen:
            key, code = (kind, part.name), _code(part)
            found.codes.setdefault(key, set()).add(code)
            now = (code[0], finished, code)
            last[key] = max(last.get(key, now), now)
        found.newest = {key: code for key, (_, _, code) in last.items()} | found.newest
        for kind, part, benchmark, _ in seen:
            if found.newest[kind, part.name] == _code(part):
                found.there.add((kind, part.name, benchmark))
        return found

    def mark(self, kind: str, part: Part) -> str:
        """`@3f2a` or `@v1` for an earlier code, nothing for the newest."""
        code, key = _code(part), (kind, part.name)
        if self.newest.get(key, code) == code:
            return ""
        version, digest = code
        if not digest:
            return f"@v{version}"
        if key not in self.lengths:
            self.lengths[key] = _lengths(other for _, other in self.codes[key])
        return f"@{digest[: self.lengths[key][digest]]}"

    def hidden(self, kind: str, part: Part, benchmark: str) -> bool:
        """Whether a run is shown only if its code is asked for: it has another digest than the
        newest code, or an older version of which there is a newer run."""
        version, digest = self.newest.get((kind, part.name), _code(part))
        if _code(part) == (version, digest):
            return False
        return digest != (part.source or "") or (kind, part.name, benchmark) in self.there


def _lengths(digests: Iterable[str]) -> dict[str, int]:
    """How many digits of each tell it from the others; at least SHORT."""
    listed = sorted(set(digests))
    lengths = dict.fromkeys(listed, SHORT)
    for one, other in pairwise(listed):  # neighbours have the most in common
        same = takewhile(lambda digits: digits[0] == digits[1], zip(one, other, strict=False))
        shared = len(list(same)) + 1
        lengths[one], lengths[other] = max(lengths[one], shared), max(lengths[other], shared)
    return lengths


def _code(part: Part) -> Code:
    return part.version or 1, part.source or ""


@dataclass(frozen=True)
class Made:
    """What a selection looks at: the method or benchmark of one run."""

    name: str
    label: str
    """As the user types it, with its mark."""
    part: Part
    family: str
    hidden: bool


def matches(item: str, made: Made, group: bool = True) -> bool:
    """Whether an item of `--methods` or `--benchmarks` names what made a run. `mine@3f2a` is an
    earlier code and `mine@*` all codes; without these, earlier code that is hidden is not meant."""
    if group and item.startswith("@"):
        return not made.hidden and (item == "@all" or item[1:] == made.family)
    wanted, _, inside = item.partition("[")
    wanted, at, code = wanted.rpartition("/")[2].partition("@")
    if wanted.endswith(".py"):  # the file of a user's own method, as `clbench run` takes it
        wanted = Path(wanted).stem.replace("_", "-").lower()
    if made.hidden and not at:
        return False
    if at and not _has_code(made.part, code):
        return False
    if inside:  # `mine[x=1]`, as its label has it
        plain = made.label.partition("[")
        return wanted == made.name and plain[1:] == ("[", inside)
    return wanted in (made.name, made.label) or fnmatchcase(made.name, wanted)


def hides(text: str | None, made: Made) -> bool:
    """Whether a list of items leaves out what made a run only because its code is an earlier one;
    no list means everything."""
    names = ["*"] if text is None else [i.partition("[")[0] for i in split_list(text)]
    plain = [name for name in names if "@" not in name]
    return made.hidden and any(matches(f"{name}@*", made) for name in plain)


def _has_code(part: Part, wanted: str) -> bool:
    """Whether `*`, `v1` or the beginning of a digest is the code of a run."""
    version, digest = _code(part)
    if wanted == "*":
        return True
    if not digest:
        return wanted == f"v{version}"
    return len(wanted) >= SHORT and digest.startswith(wanted)


def note(hidden: Iterable[tuple[str, str]]) -> list[str]:
    """A sentence for each kind of which earlier code is hidden, with what shows it; from the kind
    and the marked name of each run."""
    found = []
    by_kind: dict[str, list[str]] = {}
    for kind, name in hidden:
        by_kind.setdefault(kind, []).append(name)
    for kind, names in by_kind.items():
        every = list(dict.fromkeys(names))
        few = ", ".join(every) if len(every) < 6 else f"{len(every)} codes"
        ask = ",".join(dict.fromkeys(f"{name.partition('@')[0]}@*" for name in every))
        runs = "1 run" if len(names) == 1 else f"{len(names)} runs"
        found.append(f"Hidden: {runs} by earlier code ({few}). To show: --{kind}s '{ask}'.")
    return found
