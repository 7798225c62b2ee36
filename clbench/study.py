"""Studies: a table or figure of a paper as a file that says what to train and how to show it.

A study is a TOML file with `title`, `seeds`, and one or more `[[grid]]` with `methods` and
`benchmarks` as `clbench run` takes them. It may have:

- `paper`, the published paper that its tables stand beside, by default the first that fits;
- `[protocol]`, values of the training protocol, which a grid may change in its own `protocol`;
- `caption`, `columns` and `figure`;
- `[small]`, a smaller budget with `seeds`, values of the training protocol, and `tasks`, the most
  tasks per benchmark. `tasks` needs a benchmark with a parameter of that name. It cuts a stream of
  permutations short; a stream of classes gets more classes per task and keeps all its data.

Instead of a grid a study may have `sizes`: benchmarks whose images are counted. The studies that
come with clbench are in `clbench/studies/`.
"""

import importlib.resources
import os
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from clbench.errors import UserError, unknown
from clbench.files import read_toml
from clbench.grid import MOST_SEEDS, check_count, make_grid
from clbench.labels import protocol_label
from clbench.papers import names
from clbench.protocol import PROTOCOL_FIELDS
from clbench.record_file import in_words
from clbench.registry import check_setting
from clbench.report.columns import COLUMNS
from clbench.report.figures import KINDS
from clbench.spec import Cell

BUDGETS = ("paper", "small")
COUNTS = ("seeds", "tasks")
"""Keys of `[small]` that are no values of the protocol."""
PROSE = ("title", "caption")
"""The only keys that can never name a file to execute."""


class Grid(Struct, frozen=True, forbid_unknown_fields=True):
    """A block of runs, as `clbench run` takes it."""

    methods: str
    benchmarks: str
    protocol: dict[str, Any] = {}
    """Values of the training protocol for this block alone."""


class Study(Struct, frozen=True, kw_only=True):
    """What a study file says."""

    name: str
    title: str
    seeds: Annotated[int, Meta(ge=1, le=MOST_SEEDS)] = 1
    grid: list[Grid] = []
    columns: tuple[str, ...] = ()
    figure: str = ""
    """A kind of figure that `clbench figure` draws; it shows the study's own runs."""
    small: dict[str, Any] = {}
    sizes: str = ""
    """Benchmarks whose images are counted; such a study trains nothing."""
    paper: str = ""
    """The published paper that its tables stand beside."""
    protocol: dict[str, Any] = {}
    """Values of the training protocol, in every budget."""
    caption: str = ""
    """The beginning of captions; the title if there is none."""

    def budget(self, name: str) -> tuple[int, dict[str, Any]]:
        """The number of seeds, and the changes to tasks and protocol."""
        if name == "small" and not self.small:
            raise UserError(f"The study {self.name} declares no small budget, under [small].")
        changes = dict(self.small) if name == "small" else {}
        return changes.pop("seeds", self.seeds), changes

    def cells(self, budget: str, threads: int = 1, device: str = "cpu") -> list[Cell]:
        """All runs of the study."""
        seeds, changes = self.budget(budget)
        tasks = changes.pop("tasks", None)
        how = (threads, device, tasks)
        cells: list[Cell] = []
        for block in self.grid:
            values = self.protocol | block.protocol | changes
            cells += make_grid(block.methods, block.benchmarks, list(range(seeds)), values, *how)
            check_count(len(cells))
        return list({cell.id: cell for cell in cells}.values())

    def note(self, budget: str) -> str:
        """The sentence for the caption."""
        seeds, changes = self.budget(budget)
        words = [_counted(seeds, "seed")]
        if "tasks" in changes:
            words.append(f"at most {_counted(changes.pop('tasks'), 'task')}")
        words += [f"{key}={value}" for key, value in changes.items()]
        whole = _counted(self.seeds, "seed")
        full = "" if budget == "paper" else f"; the full one has {whole} and no cut"
        words += [protocol_label(self.protocol, 1, "cpu")] if self.protocol else []
        about = (self.caption or self.title).rstrip(".")
        return f"{about}. Study {self.name}, budget {budget}: {', '.join(words)}{full}."


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def shipped() -> dict[str, Any]:
    """The study files that come with clbench, by name."""
    folder = importlib.resources.files("clbench.studies")
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {f.name.removesuffix(".toml"): f for f in files if f.name.endswith(".toml")}


def find_study(text: str, files: bool = False) -> Study:
    """A study by name, or by the path of a TOML file; with `files` it may name files to execute."""
    if text.endswith(".toml"):
        file: Any = Path(text)
        if not os.path.exists(file):  # also of a path that can be none
            raise UserError(
                f"There is no file {text}. `clbench study ls` lists the studies of clbench."
            )
    else:
        known = shipped()
        if text not in known:
            raise unknown("study", text, known, "A study of your own ends in .toml.")
        file = known[text]
    return _checked(Path(text).stem, read_toml(file, text), text, files)


def _checked(name: str, content: dict[str, Any], where: str, files: bool) -> Study:
    """The study, if its keys are known and their values of the right type."""
    keys = [key for key in Study.__struct_fields__ if key != "name"]
    for key, value in content.items():
        if key not in keys:
            raise unknown(f"key in {where}:", key, keys)
        may = files or key in PROSE
        check_setting(value, f"{where}: {key}", "" if may else "allow that with --allow-files")
    small = content.get("small")
    if isinstance(small, dict):
        reduced = {key: _reduction(key, value, where) for key, value in small.items()}
        content = content | {"small": reduced}
    content = _with_protocol(content, where)
    if isinstance(grid := content.get("grid"), list):
        content |= {"grid": [_with_protocol(block, f"{where}: grid") for block in grid]}
    try:
        study = msgspec.convert(content | {"name": name}, Study)
    except msgspec.ValidationError as error:
        raise UserError(f"{where}: {in_words(error)}.") from None
    if bool(study.grid) == bool(study.sizes):
        raise UserError(f"{where}: it must have either [[grid]] or sizes.")
    for column in study.columns:
        if column not in COLUMNS:
            raise unknown(f"column in {where}:", column, COLUMNS)
    if study.figure not in ("", *KINDS):
        raise unknown(f"figure in {where}:", study.figure, KINDS)
    if study.paper and study.paper not in names():
        raise unknown(
            f"paper in {where}:", study.paper, names(), "`clbench ls published` lists them."
        )
    return study


def _with_protocol(content: Any, where: str) -> Any:
    """The same with checked values of the training protocol, if it has some."""
    if not isinstance(content, dict) or not isinstance(content.get("protocol"), dict):
        return content
    for key in (protocol := content["protocol"]):
        if key not in PROTOCOL_FIELDS:
            raise unknown(f"value in {where}: protocol.", key, PROTOCOL_FIELDS)
    checked = {k: PROTOCOL_FIELDS[k].check(v, f"{where}: protocol") for k, v in protocol.items()}
    return content | {"protocol": checked}


def _reduction(key: str, value: Any, where: str) -> Any:
    if key in PROTOCOL_FIELDS:
        return PROTOCOL_FIELDS[key].parse(str(value), f"{where}: small.{key}")
    if key not in COUNTS:
        raise unknown(f"value in {where}: small.", key, (*COUNTS, *PROTOCOL_FIELDS))
    if type(value) is not int or not 1 <= value <= MOST_SEEDS:
        words = f"a whole number of at least 1 and at most {MOST_SEEDS}"
        raise UserError(f"{where}: small.{key} must be {words}.")
    return value
