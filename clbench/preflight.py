"""What would keep cells from being trained: all of it is found before any of them starts.

The driver opens each data set once. Methods and benchmarks are imported in a process of its own,
which has torch. It maps the images that the driver has decoded and opens no data set again.
"""

import importlib
import os
import tempfile
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from clbench.errors import UserError
from clbench.executors import DataSets, Resources
from clbench.executors.processes import start, why_ended
from clbench.files import shown
from clbench.method import declared_refusal
from clbench.provenance import explain_import
from clbench.registry import import_class
from clbench.spec import Cell
from clbench.store import Place, Store

if TYPE_CHECKING:
    from clbench.data import DataSet


SOCKET = 70
"""The most bytes in the path of the folder for temporary files; that of a socket has at most 107,
and multiprocessing appends 32."""


@dataclass(frozen=True)
class OpenedData:
    """The data sets of some cells."""

    sets: DataSets = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    """Data set -> why it cannot be used."""

    @property
    def checksums(self) -> dict[str, str]:
        return {name: dataset.sha256 for name, dataset in self.sets.items()}


@dataclass(frozen=True)
class Findings:
    """What keeps cells from being trained."""

    problems: list[str] = field(default_factory=list)
    """Sentences; with one of these nothing is trained."""
    refused: dict[str, str] = field(default_factory=dict)
    """Id -> why this cell cannot be trained; the others can."""

    def in_words(self) -> str:
        """Everything in one message; empty if nothing was found."""
        found = list(dict.fromkeys([*self.problems, *self.refused.values()]))
        if len(found) < 2:
            return "".join(found)
        return f"{len(found)} problems:" + "".join(f"\n  - {sentence}" for sentence in found)


def open_data(cells: list[Cell], place: Place) -> OpenedData:
    """Find, verify and decode the data sets that the cells need, each once."""
    from clbench import data

    opened = OpenedData()
    for name in dict.fromkeys(name for cell in cells for name in _needs(cell)):
        try:
            opened.sets[name] = data.load(name, place.data_root, place.accept_data)
        except UserError as error:
            opened.problems[name] = str(error)
    return opened


def check(
    cells: list[Cell],
    opened: OpenedData,
    place: Place,
    executor: str,
    resources: Resources,
    dry: bool = False,
) -> Findings:
    """All problems of the cells that are to be trained. A `dry` run makes no folder, and imports
    torch only to check a device that is not the CPU."""
    needed = {name for cell in cells for name in _needs(cell)}
    problems = [text for name, text in opened.problems.items() if name in needed]
    problems += importlib.import_module(f"clbench.executors.{executor}").problems(resources)
    problems += _temporary_problems()
    if not dry or place.out.is_file():
        try:
            Store(place.out).prepare()
        except UserError as error:
            problems.append(str(error))
    # nodes of a cluster may have devices that this machine lacks
    devices = {cell.spec.device for cell in cells} if executor == "local" else set()
    if dry and not devices - {"cpu"}:
        return Findings(problems, _declared_refusals(cells))
    ready = [cell for cell in cells if not any(name in opened.problems for name in _needs(cell))]
    found = _look_ahead(cells, ready, sorted(devices), opened)
    return Findings(problems + found.problems, found.refused)


def count_tasks(cells: list[Cell], opened: OpenedData) -> list[int]:
    """The tasks of each cell's stream, counted in a process with torch; no test data are opened."""
    needed = {name for cell in cells for name in _needs(cell)}
    problems = [text for name, text in opened.problems.items() if name in needed]
    if problems := problems + _temporary_problems():
        raise UserError(Findings(problems).in_words())
    name_of = attrgetter("filename")
    files = {name: _with_arrays(dataset, name_of) for name, dataset in opened.sets.items()}
    process, pipe = start(_count, cells, files)
    try:
        found = pipe.recv()
    except EOFError:
        process.join()
        found = f"The benchmarks cannot be imported: {why_ended(process.exitcode)}."
    finally:
        process.kill()
        process.join()
    if isinstance(found, str):
        raise UserError(found)
    return cast(list[int], found)


def _count(cells: list[Cell], files: DataSets, pipe: Connection) -> None:
    import numpy as np

    try:
        import clbench.build  # noqa: F401 - torch, which benchmarks import
    except Exception as error:
        pipe.send(explain_import(error))
        return
    from clbench.tuning.closed import closed

    mapped, counts = partial(np.load, mmap_mode="r"), []
    for cell in cells:
        datasets = {name: _with_arrays(files[name], mapped) for name in _needs(cell)}
        try:
            benchmark = import_class(cell.benchmark)(**cell.spec.benchmark_params)
            counts.append(len(benchmark.sources(closed(datasets), cell.spec.seed)))
        except Exception as error:
            words = (
                str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            )
            pipe.send(f"{cell.labels['benchmark']}: {words}")
            return
    pipe.send(counts)


def _temporary_problems() -> list[str]:
    """Worker processes are reached by a socket in the folder for temporary files."""
    try:
        folder = tempfile.gettempdir()
    except FileNotFoundError:
        return ["There is no folder for temporary files that can be written to: set TMPDIR."]
    if len(os.fsencode(folder)) <= SOCKET:
        return []
    text = f"TMPDIR is {shown(Path(folder))}: its path has more than {SOCKET} bytes, too many for"
    return [f"{text} the sockets of worker processes. Name a shorter one."]


def _needs(cell: Cell) -> tuple[str, ...]:
    return tuple(cell.benchmark.meta.get("datasets", ()))


def _declared_refusals(cells: list[Cell]) -> dict[str, str]:
    """Why methods refuse cells, by id, as far as their classes declare it."""
    found = {}
    for cell in cells:
        known = cell.network.name, cell.spec.protocol, cell.scenario
        if reason := declared_refusal(cell.method.meta, *known):
            where = f"{cell.labels['method']} cannot run on {cell.spec.benchmark}"
            found[cell.id] = f"{where}: {reason}"
    return found


def _look_ahead(
    cells: list[Cell], ready: list[Cell], devices: list[str], opened: OpenedData
) -> Findings:
    """Let a process with torch import the cells' classes, try the devices, and ask the methods of
    the `ready` cells whether they refuse their stream."""
    # the names of the mapped files stand for the arrays, so that sending them is cheap
    name_of = attrgetter("filename")
    files = {name: _with_arrays(dataset, name_of) for name, dataset in opened.sets.items()}
    process, pipe = start(_look, cells, ready, devices, files)
    try:
        return cast(Findings, pipe.recv())
    except EOFError:
        process.join()
        reason = why_ended(process.exitcode)
        return Findings([f"The methods and benchmarks cannot be imported: {reason}."])
    finally:
        process.kill()
        process.join()


def _look(
    cells: list[Cell], ready: list[Cell], devices: list[str], files: DataSets, pipe: Connection
) -> None:
    import numpy as np

    try:
        from clbench.build import device_problem, refusals
    except Exception as error:
        pipe.send(Findings([explain_import(error)]))
        return
    problems, broken = [], dict[tuple[str, str], str]()
    used = {(d.kind, d.name): d for cell in cells for d in (cell.method, cell.benchmark)}
    for key, declaration in used.items():
        try:
            import_class(declaration)
        except UserError as error:
            broken[key] = str(error)
            if not declaration.module:  # a file that the user named
                problems.append(str(error))
    refused: dict[str, str] = {}
    for cell in cells:
        for declaration in (cell.method, cell.benchmark):
            if (key := (declaration.kind, declaration.name)) in broken:
                refused[cell.id] = broken[key]
    problems += [text for device in devices if (text := device_problem(device))]
    sound = [cell for cell in ready if cell.id not in refused]
    mapped = partial(np.load, mmap_mode="r")
    datasets = {name: _with_arrays(dataset, mapped) for name, dataset in files.items()}
    pipe.send(Findings(problems, refused | refusals(sound, datasets)))


def _with_arrays(dataset: "DataSet", change: Any) -> "DataSet":
    parts = {
        name: replace(part, images=change(part.images), labels=change(part.labels))
        for name, part in dataset.parts.items()
    }
    return replace(dataset, parts=parts)
