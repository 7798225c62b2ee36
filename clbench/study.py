"""Studies: a table or figure of the paper as a file that says what to train and how to show it.

A study is a TOML file with `title`, `seeds`, one or more `[[grid]]` (`methods`, `benchmarks` as
`clbench run` takes them), and optionally `columns`, `figure`, and `[small]`, a declared reduction:
`seeds` and any value of the training protocol. Those of the paper are in `clbench/studies/`.
"""

import importlib.resources
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clbench.errors import UserError, unknown
from clbench.grid import make_grid
from clbench.report.columns import COLUMNS
from clbench.report.figures import KINDS
from clbench.spec import PROTOCOL_FIELDS, Cell

BUDGETS = ("paper", "small")


@dataclass(frozen=True)
class Study:
    """What a study file says."""

    name: str
    title: str
    seeds: int
    grid: list[dict[str, str]]
    columns: tuple[str, ...] = ()
    figure: str = ""
    """A kind that `clbench figure` draws, from the study's own runs."""
    small: dict[str, Any] = field(default_factory=dict)

    def budget(self, name: str) -> tuple[int, dict[str, Any]]:
        """How many seeds, and what of the protocol is changed."""
        if name == "small" and not self.small:
            raise UserError(f"The study {self.name} declares no small budget, under [small].")
        changes = dict(self.small) if name == "small" else {}
        return changes.pop("seeds", self.seeds), changes

    def cells(self, budget: str, threads: int = 1, device: str = "cpu") -> list[Cell]:
        """All runs of the study."""
        seeds, changes = self.budget(budget)
        found: dict[str, Cell] = {}
        for block in self.grid:
            for cell in make_grid(
                block["methods"], block["benchmarks"], list(range(seeds)), changes, threads, device
            ):
                found[cell.id] = cell
        return list(found.values())

    def note(self, budget: str) -> str:
        """The sentence for the caption."""
        seeds, changes = self.budget(budget)
        words = [f"{seeds} seeds" if seeds > 1 else "1 seed"]
        words += [f"{key}={value}" for key, value in changes.items()]
        full = "" if budget == "paper" else f"; the full one has {self.seeds} seeds and no cut"
        return f"Study {self.name}, budget {budget}: {', '.join(words)}{full}."


def shipped() -> dict[str, Any]:
    """The files of the studies that come with clbench, by name."""
    folder = importlib.resources.files("clbench.studies")
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {f.name.removesuffix(".toml"): f for f in files if f.name.endswith(".toml")}


def load(text: str) -> Study:
    """A study by name, or by the path of a TOML file."""
    if text.endswith(".toml"):
        file: Any = Path(text)
        if not file.is_file():
            raise UserError(f"There is no file {text}. clbench study ls lists the paper's studies.")
    else:
        known = shipped()
        if text not in known:
            raise unknown("study", text, known, "A study of your own ends in .toml.")
        file = known[text]
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{text} is not valid TOML: {error}") from None
    return _checked(Path(text).stem, content, text)


def _checked(name: str, content: dict[str, Any], where: str) -> Study:
    """The study, if every key is one that studies have and of the right kind."""
    kinds: dict[str, Any] = {
        "title": str, "seeds": int, "grid": list, "columns": list, "figure": str, "small": dict
    }  # fmt: skip
    for key, value in content.items():
        if key not in kinds:
            raise unknown(f"key in {where}:", key, kinds)
        if not isinstance(value, kinds[key]) or isinstance(value, bool):
            raise UserError(f"{where}: {key} must be a {_WORDS[kinds[key]]}.")
    for key in ("title", "grid"):
        if key not in content:
            raise UserError(f"{where}: {key} is missing.")
    if not content["grid"]:
        raise UserError(f"{where}: it has no [[grid]].")
    for block in content["grid"]:
        if not isinstance(block, dict) or set(block) != {"methods", "benchmarks"}:
            raise UserError(f"{where}: each [[grid]] has `methods` and `benchmarks`, nothing else.")
        if not all(isinstance(value, str) for value in block.values()):
            raise UserError(f"{where}: `methods` and `benchmarks` are texts, as for clbench run.")
    for column in content.get("columns", ()):
        if column not in COLUMNS:
            raise unknown(f"column in {where}:", str(column), COLUMNS)
    if content.get("figure", "") not in ("", *KINDS):
        raise unknown(f"figure in {where}:", content["figure"], KINDS)
    small = dict(content.get("small", {}))
    seeds = small.pop("seeds", 1)
    whole = isinstance(seeds, int) and not isinstance(seeds, bool)
    if min(content.get("seeds", 1), seeds if whole else 0) < 1:
        raise UserError(f"{where}: seeds must be a whole number of at least 1.")
    small = {
        key: _protocol(key, value, f"{where}: small.{key}") for key, value in small.items()
    } | ({"seeds": seeds} if "seeds" in content.get("small", {}) else {})
    return Study(
        name,
        content["title"],
        content.get("seeds", 1),
        content["grid"],
        tuple(content.get("columns", ())),
        content.get("figure", ""),
        small,
    )


_WORDS = {str: "text", int: "whole number", list: "list", dict: "table"}


def _protocol(key: str, value: Any, where: str) -> Any:
    if key not in PROTOCOL_FIELDS:
        raise unknown(f"protocol value in {where}:", key, ("seeds", *PROTOCOL_FIELDS))
    return PROTOCOL_FIELDS[key].parse(str(value), where)
