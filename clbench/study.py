"""Studies: a table or figure of the paper as a file that says what to train and how to show it.

A study is a TOML file with `title`, `seeds`, and one or more `[[grid]]` with `methods` and
`benchmarks` as `clbench run` takes them. It may have `caption`, `columns`, `figure`, and `[small]`:
a smaller budget with `seeds`, values of the training protocol, and `tasks`, the most tasks per
benchmark. `tasks` needs a benchmark with a parameter of that name. It cuts a stream of permutations
short; a stream of classes gets more classes per task and keeps all its data. Instead of a grid a
study may have `sizes`: benchmarks whose images are counted. Those of the paper are in
`clbench/studies/`.
"""

import importlib.resources
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clbench.errors import UserError, unknown
from clbench.grid import make_grid
from clbench.protocol import PROTOCOL_FIELDS
from clbench.registry import refuse_files
from clbench.report.columns import COLUMNS
from clbench.report.figures import KINDS
from clbench.spec import Cell

BUDGETS = ("paper", "small")
COUNTS = ("seeds", "tasks")
"""Keys of `[small]` that are no values of the protocol."""


@dataclass(frozen=True)
class Study:
    """What a study file says."""

    name: str
    title: str
    seeds: int
    grid: list[dict[str, str]]
    columns: tuple[str, ...] = ()
    figure: str = ""
    """A kind of figure that `clbench figure` draws; it shows the study's own runs."""
    small: dict[str, Any] = field(default_factory=dict)
    sizes: str = ""
    """Benchmarks whose images are counted; such a study trains nothing."""
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
        found: dict[str, Cell] = {}
        for block in self.grid:
            methods, benchmarks = block["methods"], block["benchmarks"]
            for cell in make_grid(
                methods, benchmarks, list(range(seeds)), changes, threads, device, tasks
            ):
                found[cell.id] = cell
        return list(found.values())

    def note(self, budget: str) -> str:
        """The sentence for the caption."""
        seeds, changes = self.budget(budget)
        words = [_counted(seeds, "seed")]
        if "tasks" in changes:
            words.append(f"at most {_counted(changes.pop('tasks'), 'task')}")
        words += [f"{key}={value}" for key, value in changes.items()]
        whole = _counted(self.seeds, "seed")
        full = "" if budget == "paper" else f"; the full one has {whole} and no cut"
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
        if not file.is_file():
            raise UserError(
                f"There is no file {text}. `clbench study ls` lists the paper's studies."
            )
    else:
        known = shipped()
        if text not in known:
            raise unknown("study", text, known, "A study of your own ends in .toml.")
        file = known[text]
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{text} is not valid TOML: {error}") from None
    return _checked(Path(text).stem, content, text, files)


def _checked(name: str, content: dict[str, Any], where: str, files: bool) -> Study:
    """The study, if its keys are known and their values of the right type."""
    kinds: dict[str, Any] = {
        "title": str, "seeds": int, "grid": list, "columns": list, "figure": str, "small": dict,
        "sizes": str, "caption": str,
    }  # fmt: skip
    for key, value in content.items():
        if key not in kinds:
            raise unknown(f"key in {where}:", key, kinds)
        if not isinstance(value, kinds[key]) or isinstance(value, bool):
            raise UserError(f"{where}: {key} must be a {_WORDS[kinds[key]]}.")
        if isinstance(value, str) and not value.replace("\n", " ").isprintable():
            raise UserError(f"{where}: {key} has characters that cannot be printed.")
    if "title" not in content:
        raise UserError(f"{where}: title is missing.")
    if bool(content.get("grid")) == bool(content.get("sizes")):
        raise UserError(f"{where}: it must have either [[grid]] or sizes.")
    for block in content.get("grid", ()):
        if not isinstance(block, dict) or set(block) != {"methods", "benchmarks"}:
            raise UserError(f"{where}: each [[grid]] must have `methods` and `benchmarks` only.")
        if not all(isinstance(value, str) for value in block.values()):
            raise UserError(f"{where}: `methods` and `benchmarks` must be strings, like 'ewc,si'.")
        for value in block.values() if not files else ():
            refuse_files(value, where, "allow that with --allow-files")
    for column in content.get("columns", ()):
        if column not in COLUMNS:
            raise unknown(f"column in {where}:", str(column), COLUMNS)
    if content.get("figure", "") not in ("", *KINDS):
        raise unknown(f"figure in {where}:", content["figure"], KINDS)
    _count(content.get("seeds", 1), f"{where}: seeds")
    small = {
        key: _reduction(key, value, f"{where}: small.{key}")
        for key, value in content.get("small", {}).items()
    }
    return Study(
        name,
        content["title"],
        content.get("seeds", 1),
        content.get("grid", []),
        tuple(content.get("columns", ())),
        content.get("figure", ""),
        small,
        content.get("sizes", ""),
        content.get("caption", ""),
    )


_WORDS = {str: "string", int: "whole number", list: "list", dict: "table"}


def _reduction(key: str, value: Any, where: str) -> Any:
    if key in COUNTS:
        return _count(value, where)
    if key not in PROTOCOL_FIELDS:
        raise unknown(f"value in {where}:", key, (*COUNTS, *PROTOCOL_FIELDS))
    return PROTOCOL_FIELDS[key].parse(str(value), where)


def _count(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UserError(f"{where} must be a whole number of at least 1.")
    return value
