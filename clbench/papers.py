"""The papers whose numbers measured ones are compared with.

`results/published/` has one folder per paper: `paper.toml` says what the paper is, and each other
file is one of its tables. A user's own file is a single table with the paper under `[paper]`;
`clbench new published` writes one with comments. A row names its method as a user types it, or is
declared `foreign`: clbench has no such method.
"""

import functools
import importlib.resources
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from clbench.errors import UserError, unknown
from clbench.files import read_toml
from clbench.paper_file import Citation, Line, Table, converted, table_of
from clbench.registry import check_setting

DEFAULT = "acl-2020"
"""The paper that comes first where several have numbers for a stream."""
PLACE = "results/published"


@dataclass(frozen=True)
class Published:
    """One row of a published table."""

    table: str
    title: str
    method: str
    """Empty for a method that clbench does not have."""
    benchmark: str
    scenario: str
    tasks: int
    source: str
    """The paper's own source for the row; empty if it names none."""
    where: str = ""
    """The file and the row, for error messages."""
    protocol: Mapping[str, Any] = field(default_factory=dict)
    acc: float | None = None
    acc_std: float | None = None
    given: float | None = None
    """ACC if only the outputs of the task's own classes compete."""
    given_std: float | None = None
    bwt: float | None = None
    bwt_std: float | None = None
    zero: bool = False
    """BWT is given as Zero: by construction."""
    arch: float | None = None
    replay: float | None = None
    parameters: int | None = None
    """Parameters of the architecture behind the row, by the sizes that fit the paper's counts."""
    intransigence: float | None = None
    """As printed, which may be of unclear unit."""
    intransigence_table: str | None = None
    """The table that it stands in."""
    note: str = ""
    also: tuple[str, ...] = ()
    """Other recipes of the method that the row is compared with."""

    @property
    def stream(self) -> tuple[str, str]:
        """The benchmark without its number of tasks, and the scenario."""
        return self.benchmark, self.scenario


@dataclass(frozen=True, eq=False)
class Paper:
    """A paper with its tables."""

    name: str
    """As `--vs-paper` takes it, or the path of a user's own file."""
    citation: Citation
    tables: dict[str, Table]

    @property
    def cite(self) -> str:
        return self.citation.cite

    @functools.cached_property
    def rows(self) -> tuple[Published, ...]:
        """The rows of all its tables, in their order."""
        return tuple(row for table in self.tables.values() for row in self.rows_of(table.name))

    def rows_of(self, table: str) -> list[Published]:
        """The rows of one table."""
        return _rows(self.tables[table], f"{self.name}, {table}" if table else self.name)

    @functools.cached_property
    def streams(self) -> frozenset[tuple[str, str]]:
        """The benchmarks that it has numbers for, each with its scenario."""
        return frozenset(row.stream for row in self.rows)

    def __str__(self) -> str:
        return f"{self.name} ({'; '.join(map(streamed, sorted(self.streams)))})"


def streamed(stream: tuple[str, str]) -> str:
    """`split-mnist, scenario class`: a stream in a message."""
    return f"{stream[0]}, scenario {stream[1]}"


def names() -> list[str]:
    """The papers that come with clbench, the default first."""
    try:
        folder = importlib.resources.files("clbench.published")
        found = [f.name for f in folder.iterdir() if f.is_dir() and (f / "paper.toml").is_file()]
    except (ModuleNotFoundError, FileNotFoundError):
        return []
    return sorted(found, key=lambda name: (name != DEFAULT, name))


def shipped() -> list[Paper]:
    """The papers that come with clbench, the default first."""
    return [find_paper(name) for name in names() or [DEFAULT]]


@functools.cache
def find_paper(name: str) -> Paper:
    """A paper that comes with clbench, by its name."""
    known = names()
    if DEFAULT not in known:  # results/ is also where runs go by default
        raise UserError(
            f"The published numbers are missing: the folder {PLACE} belongs to clbench. "
            f"Restore it with `git checkout {PLACE}`, or install clbench again."
        )
    if name not in known:
        hint = "`clbench ls published` lists them; --vs takes a file of your own."
        raise unknown("published paper", name, known, hint)
    folder: Any = importlib.resources.files("clbench.published") / name
    citation = converted(_content(folder / "paper.toml", f"{name}, paper.toml"), Citation, name)
    tables = {
        table: table_of(_content(folder / f"{table}.toml", where), table, where)
        for table in citation.tables
        if (where := f"{name}, {table}.toml")
    }
    return Paper(name, citation, tables)


def named_paper(text: str) -> Paper:
    """A paper by its name, or the one in a user's file, which ends in .toml."""
    return own_paper(text) if text.endswith(".toml") else find_paper(text)


def own_paper(text: str) -> Paper:
    """The paper in a user's own file."""
    content = _content(Path(text), text)
    if not isinstance(paper := content.pop("paper", None), dict):
        raise UserError(
            f"{text}: it needs [paper] with cite and title; see `clbench new published`."
        )
    citation = converted(paper, Citation, f"{text}: paper")
    table = table_of(content, "", text)
    if not table.rows:
        raise UserError(f"{text}: it has no [[rows]].")
    return Paper(text, citation, {"": table})


def _content(path: Path, where: str) -> dict[str, Any]:
    content = read_toml(path, where)
    check_setting(content, where)
    return content


def _rows(table: Table, where: str) -> list[Published]:
    return [
        _row(line, table, f"{where}, row {number} ({line.title})")
        for number, line in enumerate(table.rows, 1)
    ]


def _row(line: Line, table: Table, where: str) -> Published:
    row = Published(
        table=table.name,
        title=line.title,
        method=line.method,
        benchmark=line.benchmark or table.benchmark,
        scenario=line.scenario or table.scenario or "",
        tasks=line.tasks or table.tasks or 0,
        source=table.marks.get(line.mark, ""),
        where=where,
        protocol=table.protocol | line.protocol,
        arch=line.arch,
        replay=line.replay,
        parameters=line.parameters,
        intransigence=line.intransigence,
        intransigence_table=None if line.intransigence is None else table.name,
        note=line.note,
        also=tuple(line.also),
        zero=line.bwt == "Zero",
    )
    return replace(
        row,
        **_pair("acc", line.acc),
        **_pair("given", line.given),
        **_pair("bwt", None if isinstance(line.bwt, str) else line.bwt),
    )


def _pair(name: str, printed: list[float] | None) -> dict[str, Any]:
    """The mean, and the standard deviation if there is one."""
    return dict(zip((name, f"{name}_std"), printed or (), strict=False))
