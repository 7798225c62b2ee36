"""The TOML file of a table of published numbers: what it holds, and the checks of what it says."""

import re
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from clbench.errors import UserError, unknown
from clbench.limits import TASKS, Few, Text
from clbench.protocol import PROTOCOL_FIELDS
from clbench.record import Scenario
from clbench.record_file import in_words
from clbench.registry import check_setting

Short: TypeAlias = Annotated[str, Meta(min_length=1, max_length=120)]
Percent: TypeAlias = Annotated[float, Meta(ge=0, le=100)]
Points: TypeAlias = Annotated[float, Meta(ge=-100, le=100)]
Megabytes: TypeAlias = Annotated[float, Meta(ge=0, le=1e9)]
Mean: TypeAlias = Annotated[list[Percent], Meta(min_length=1, max_length=2)]
Change: TypeAlias = Annotated[list[Points], Meta(min_length=1, max_length=2)]
"""A mean, and its standard deviation if it is published."""
Tasks: TypeAlias = Annotated[int, Meta(ge=1, le=TASKS)]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=2**53)]
Notes: TypeAlias = Annotated[list[Text], Few]
_NAMED = re.compile(r"[a-z][a-z0-9_-]*(\[\w+=[\w.+-]+(,\w+=[\w.+-]+)*\])?", re.ASCII)


class Citation(Struct, frozen=True, forbid_unknown_fields=True):
    """What a paper is."""

    cite: Short
    """As headings and captions name it: `Buzzega et al., 2020`."""
    title: Text
    venue: Text = ""
    url: Text = ""
    tables: Annotated[list[Short], Few] = []
    """The files of its folder. Of two tables with one row, the first gives the numbers."""


class Line(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One row of a table, as it stands in the file."""

    title: Short
    """The row as the paper calls it."""
    method: str = ""
    also: Annotated[list[str], Few] = []
    foreign: bool = False
    benchmark: str = ""
    scenario: Scenario | None = None
    tasks: Tasks | None = None
    protocol: Annotated[dict[str, Any], Few] = {}
    mark: str = ""
    acc: Mean | None = None
    given: Mean | None = None
    bwt: Literal["Zero"] | Change | None = None
    arch: Megabytes | None = None
    replay: Megabytes | None = None
    parameters: Count | None = None
    intransigence: Points | None = None
    note: Text = ""


class Size(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How many images a task has."""

    benchmark: Short
    task: Tasks | None = None
    title: str = ""
    train: Count
    valid: Count
    test: Count
    classes: Count
    note: Text = ""


class Summary(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a stream is, in the paper's table of streams."""

    benchmark: Short
    classes: Count
    tasks: Annotated[list[Tasks], Few]
    input: Annotated[list[Count], Few]
    printed_train: Count | None = None


class Table(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One table, as it stands in a file. What a row can have too holds for rows without it."""

    name: str = ""
    title: Short
    label: str = ""
    benchmark: str = ""
    scenario: Scenario | None = None
    tasks: Tasks | None = None
    setting: Text = ""
    """Network, optimizer and budget, in words."""
    protocol: Annotated[dict[str, Any], Few] = {}
    """The same as values of the training protocol that differ from the benchmark's own."""
    runs: Count | None = None
    """Runs per number."""
    variants: bool = False
    """Its rows are not named after methods, so tables say which row of it is shown."""
    notes: Notes = []
    marks: Annotated[dict[str, Text], Meta(max_length=26)] = {}
    """What the paper's marks say of a number's source."""
    rows: Annotated[list[Line], Few] = []
    summary: Annotated[list[Summary], Few] = []
    sizes: Annotated[list[Size], Few] = []


def converted(content: dict[str, Any], kind: type[Any], where: str) -> Any:
    """The content as a structure; UserErrors begin with `where`."""
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise UserError(f"{where}: {in_words(error)}.") from None


def table_of(content: dict[str, Any], name: str, where: str) -> Table:
    """The table, if its values are of the right type and in range and its rows are whole."""
    table: Table = converted(content, Table, where)
    table = msgspec.structs.replace(
        table, name=name, protocol=_protocol(table.protocol, f"{where}: protocol")
    )
    rows = []
    for number, row in enumerate(table.rows, 1):
        place = f"{where}: row {number} ({row.title})"
        _check(row, table, place)
        rows.append(msgspec.structs.replace(row, protocol=_protocol(row.protocol, place)))
    return msgspec.structs.replace(table, rows=rows)


def _check(row: Line, table: Table, where: str) -> None:
    """A UserError if a row contradicts itself or lacks something."""
    if bool(row.method) == row.foreign:
        raise UserError(
            f"{where}: give its method as clbench has it, or foreign = true if clbench has none."
        )
    benchmark = row.benchmark or table.benchmark
    for kind, text in (
        *(("method", text) for text in (row.method, *row.also) if text),
        ("benchmark", benchmark),
    ):
        if not _NAMED.fullmatch(text):
            raise UserError(
                f"{where}: its {kind} {text!r:.80} must be one name, with values in brackets if "
                "any, like er-res[buffer=200]."
            )
    if re.search(r"\b(tasks|scenario)=", benchmark):
        raise UserError(f"{where}: give tasks and scenario as keys, not inside {benchmark!r}.")
    if not (row.tasks or table.tasks) or not (row.scenario or table.scenario):
        raise UserError(f"{where}: it or its table must say tasks and scenario.")
    if (row.mark or table.marks) and row.mark not in table.marks:
        raise unknown(f"mark in {where}:", row.mark, table.marks)
    numbers = (row.acc, row.bwt, row.given, row.arch, row.replay, row.intransigence)
    if all(number is None for number in numbers):
        raise UserError(f"{where}: it has no number.")
    if isinstance(row.bwt, list) and len(row.bwt) > 1 and row.bwt[1] < 0:
        raise UserError(f"{where}: the standard deviation of bwt is negative.")


def _protocol(values: dict[str, Any], where: str) -> dict[str, Any]:
    """The values of the protocol, checked; a network can only be one that has a name."""
    for key, value in values.items():
        if key not in PROTOCOL_FIELDS:
            raise unknown(f"value in {where}:", key, PROTOCOL_FIELDS)
        check_setting(value, where, "name a built-in network")
    return {key: PROTOCOL_FIELDS[key].check(value, where) for key, value in values.items()}
