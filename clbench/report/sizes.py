"""How many images the tasks of a benchmark have: counted, and as the paper prints them."""

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from tabulate import tabulate

from clbench import data
from clbench.errors import UserError
from clbench.grid import make_grid
from clbench.paper_file import Size, Table
from clbench.papers import DEFAULT, find_paper
from clbench.report.escape import csv_cell
from clbench.report.write import put

_COUNTS = ("train", "valid", "test")
_HEAD = ("benchmark", "task", "classes", "input", *_COUNTS, *(f"paper {c}" for c in _COUNTS), "is")


def sizes(benchmarks: str, root: Path, accept: bool) -> tuple[list[list[str]], list[str]]:
    """A row per task, equal tasks in one, and a sentence for each benchmark that has no data."""
    from clbench.build import make_stream

    rows: list[list[str]] = []
    problems = []
    for cell in make_grid("finetune", benchmarks, [0], {}):
        name = cell.labels["benchmark"]
        try:
            found = {d: data.load(d, root, accept) for d in cell.benchmark.meta["datasets"]}
        except UserError as error:
            problems.append(f"{name} is not counted: {error}")
            for size in _printed(cell.spec.benchmark):
                which = str(size.title or size.task or "each")
                numbers = [f"{getattr(size, part):,}" for part in _COUNTS]
                rows.append([name, which, str(size.classes), *[""] * 4, *numbers, "no data"])
            continue
        stream = make_stream(cell, found)
        shape = "x".join(map(str, stream.input_shape))
        for k, task in enumerate(stream.tasks, 1):
            counted = [len(getattr(task, part)) for part in _COUNTS]
            paper = _published(cell.spec.benchmark, k, task.title)
            printed = [getattr(paper, part, None) for part in _COUNTS]
            word = "" if not paper else "same" if printed == counted else "differs"
            numbers = ["" if n is None else f"{n:,}" for n in [*counted, *printed]]
            rows.append([name, str(k), str(len(task.classes)), shape, *numbers, word])
    return _merged(rows), problems


def _paper() -> Table:
    """The table of data sets of the ACL paper."""
    return find_paper(DEFAULT).tables["datasets"]


def _printed(benchmark: str) -> list[Size]:
    return [row for row in _paper().sizes if row.benchmark == benchmark]


def _published(benchmark: str, k: int, title: str) -> Size | None:
    """The paper's counts of task k; of 5-Datasets, whose order is drawn, by the data set's name."""
    for row in _printed(benchmark):
        here = _plain(row.title) == _plain(title) if row.title else row.task in (k, None)
        if here:
            return row
    return None


def _plain(title: str) -> str:
    return title.replace("-", "").lower()


def _merged(rows: list[list[str]]) -> list[list[str]]:
    """Neighbouring rows that differ only in the task become one row, `1-10`."""
    merged: list[list[str]] = []
    for row in rows:
        last = merged[-1] if merged else None
        if last and [last[0], *last[2:]] == [row[0], *row[2:]]:
            last[1] = f"{last[1].partition('-')[0]}-{row[1]}"
        else:
            merged.append(list(row))
    return merged


def render(rows: Iterable[list[str]], form: str) -> str:
    """The table as `txt`, `md`, `tex` or `csv`, with notes on the paper's mistakes."""
    if form == "csv":
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(
            [csv_cell(value) for value in row] for row in (_HEAD, *rows)
        )
        return out.getvalue()
    style = {"txt": "simple", "md": "github", "tex": "latex_booktabs"}[form]
    align = ("left", *["right"] * 9, "left")
    grid = tabulate(rows, _HEAD, tablefmt=style, disable_numparse=True, colalign=align)
    notes = "\n".join([f"paper: {find_paper(DEFAULT).cite}.", *_paper().notes])
    return f"{grid}\n\n{notes}\n"


def write(rows: list[list[str]], folder: Path, root: Path) -> list[Path]:
    """`table-datasets.md`, `.tex` and `.csv` into a folder below `root`; the paths."""
    files = {f"table-datasets.{form}": render(rows, form).encode() for form in ("md", "tex", "csv")}
    return put(folder, files, root)
