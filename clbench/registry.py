"""Names -> methods and benchmarks: the built-in folders, entry points, and a path to a file.

Listing and looking up names imports nothing; `import_class` imports the one class that is used.
A package offers its own by entry points in the groups `clbench.methods` and `clbench.benchmarks`,
each `name = "package.module:Class"`.
"""

import contextlib
import fnmatch
import importlib
import pickle
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, cast

from clbench import provenance
from clbench.code import located
from clbench.declare import Declaration
from clbench.errors import BrokenWarning, UserError, unknown
from clbench.files import named_path, shown
from clbench.importing import module_of
from clbench.limits import SENTENCE
from clbench.reading import read_declaration

FAMILIES = {
    "regularization": "protects important weights by a penalty",
    "structure": "gives tasks parts of the network of their own",
    "memory": "keeps and reuses samples of past tasks",
    "reference": "a lower or upper bound to compare with",
}


@dataclass(frozen=True)
class Installed:
    """All methods (or benchmarks) that are installed."""

    found: dict[str, Declaration] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    """Name -> why it is left out."""


@cache
def installed(kind: str) -> Installed:
    """The installed methods (or benchmarks). What is broken costs itself and one warning; of two
    with one name the first counts, and clbench's own come first."""
    package, all_of_them = f"clbench.{kind}s", Installed()
    for folder in importlib.import_module(package).__path__:
        for path in sorted(Path(folder).glob("*.py")):
            if not path.name.startswith("_"):
                with _suspected(all_of_them, kind, path.stem.replace("_", "-"), str(path)):
                    add(all_of_them.found, read_declaration(path, kind, f"{package}.{path.stem}"))
    for point in _entry_points(package):
        where = f"the entry point {point.name!r} = {point.value!r}"
        with _suspected(all_of_them, kind, point.name, where):
            add(all_of_them.found, _from_entry_point(kind, point))
    return replace(all_of_them, found=dict(sorted(all_of_them.found.items())))


def declarations(kind: str) -> dict[str, Declaration]:
    """All methods (or benchmarks) that are installed and not broken, by name."""
    return installed(kind).found


def declared_as(kind: str, name: str) -> Declaration | None:
    """The installed method (or benchmark) of a name. Of clbench's own it reads only the one file,
    so `status` stays quick."""
    package, stem = f"clbench.{kind}s", name.replace("-", "_")
    for folder in importlib.import_module(package).__path__ if stem.isidentifier() else ():
        path = Path(folder) / f"{stem}.py"
        with contextlib.suppress(UserError):  # there is none, or it is broken
            if (found := read_declaration(path, kind, f"{package}.{stem}")).name == name:
                return found
    return declarations(kind).get(name)


def read_again() -> None:
    """Forget what was read and hashed: files may have changed since the last command."""
    installed.cache_clear()
    provenance.changed_modules.cache_clear()


@contextlib.contextmanager
def _suspected(all_of_them: Installed, kind: str, name: str, where: str) -> Iterator[None]:
    """Whatever reading a method or benchmark raises makes it a broken one."""
    try:
        yield
    except Exception as error:
        reason = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        sentence = shown(f"The {kind} {name!r} is left out ({where}). {reason}")
        all_of_them.broken[name] = sentence
        warnings.warn(sentence, BrokenWarning, stacklevel=2)


def add(known: dict[str, Declaration], new: Declaration) -> None:
    """Add a declaration; a UserError if another method or benchmark has the name."""
    old = known.get(new.name)
    if old is not None and old.path.resolve() != new.path.resolve():
        hint = 'for example by `name = "..."` in its class'
        if new.distribution:
            hint = "the entry point or the other"
        raise UserError(
            f"Two {new.kind}s are named {new.name!r}: {old.path} and {new.path}. "
            f"Rename one, {hint}."
        )
    known[new.name] = new


def _entry_points(group: str) -> list[metadata.EntryPoint]:
    """The entry points of a group; a distribution whose list cannot be read has none."""
    try:
        return list(metadata.entry_points(group=group))
    except Exception:
        found = []
        for distribution in metadata.distributions():
            with contextlib.suppress(Exception):
                found += [point for point in distribution.entry_points if point.group == group]
        return found


def _from_entry_point(kind: str, point: metadata.EntryPoint) -> Declaration:
    module, _, class_name = point.value.partition(":")
    spec = located(module.strip())
    if spec is None or spec.origin is None or not spec.has_location:
        raise UserError("It names no module: reinstall or remove the package that offers it.")
    path = Path(spec.origin)
    read = read_declaration(path, kind, module.strip(), point.name, class_name.strip())
    dist = point.dist
    return replace(read, distribution=f"{dist.name} {dist.version}" if dist else "")


def split_list(text: str) -> list[str]:
    """Split at commas outside brackets: `a,b[x=1,y=2]` -> [`a`, `b[x=1,y=2]`]."""
    parts = re.findall(r"(?:[^,\[]|\[[^\]]*\]?)+", text)
    return [part.strip() for part in parts if part.strip()]


def check_setting(value: Any, where: str, instead: str = "") -> None:
    """The gate for values of a study or configuration, which may come from a stranger: a UserError
    if a text has control characters or a number has no end. With `instead`, what to do in place of
    it, also if a text names a file as `select` would read it: naming a file executes it."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            check_setting(part, where, instead)
    elif isinstance(value, int) and abs(value) >= 2**63:
        raise UserError(f"{where} has a number of more than 64 bits.")
    elif isinstance(value, str):
        if not value.replace("\n", " ").isprintable():
            raise UserError(f"{where} has characters that cannot be printed.")
        if len(value) > SENTENCE:
            raise UserError(f"{where} has more than {SENTENCE:,} characters.")
        for item in split_list(value) if instead else ():
            if _is_path(name := item.partition("[")[0].strip()):
                raise UserError(
                    f"{where} names the file {name!r}, which would be run as a program: {instead}."
                )


def _is_path(name: str) -> bool:
    # `mine.py:features` names a function in a file, as a backbone
    return bool(re.search(r"\.py(:\w+)?$", name)) or "/" in name or "\\" in name


def select(kind: str, text: str) -> list[tuple[Declaration, dict[str, Any]]]:
    """The declarations that `text` names, each with the values given in brackets.

    An item is a name, a glob (`'*gem*'`), a group (`@memory`, `@all`) or a path (`./mine.py`), and
    may end in parameters (`ewc[strength=500]`). Order is kept, repeats are dropped.
    """
    known = dict(declarations(kind))
    chosen: dict[Any, tuple[Declaration, dict[str, Any]]] = {}
    for item in split_list(text):
        match = re.fullmatch(r"([^\[\]]+)(?:\[(.*)\])?", item)
        if match is None:
            raise UserError(f"--{kind}s: cannot read {item!r}; write NAME or NAME[key=value].")
        name, inside = match[1].strip(), match[2] or ""
        given: dict[str, str] = {}
        for pair in split_list(inside):
            key, equals, value = pair.partition("=")
            if not equals:
                raise UserError(f"--{kind}s: {item!r}: {pair!r} is not of the form key=value.")
            if key.strip() in given:
                raise UserError(f"--{kind}s: {item!r} sets {key.strip()} twice.")
            given[key.strip()] = value.strip()
        for declaration in _named(kind, name, known):
            values = declaration.values(given)
            chosen.setdefault((declaration.name, frozenset(values.items())), (declaration, values))
    if not chosen:
        raise UserError(f"--{kind}s names nothing. `clbench ls {kind}s` lists all.")
    return list(chosen.values())


def _named(kind: str, name: str, known: dict[str, Declaration]) -> list[Declaration]:
    if _is_path(name):
        path = named_path(name, f"--{kind}s", home=True)
        for other in known.values():
            if other.path.resolve() == path.resolve():
                return [other]
        if path.suffix != ".py":
            raise UserError(f"--{kind}s {name}: the file of a {kind} must end in .py.")
        mine = read_declaration(path, kind)
        add(known, mine)  # refuses a file that takes the name of another
        return [mine]
    if name.startswith("@"):
        groups = {"all", *(str(d.meta.get("family", "")) for d in known.values())} - {""}
        if name[1:] not in groups:
            raise unknown(f"group of {kind}s", name, [f"@{g}" for g in groups])
        return [d for d in known.values() if name[1:] in ("all", d.meta.get("family"))]
    if "*" in name or "?" in name:
        matches = [known[n] for n in sorted(known) if fnmatch.fnmatchcase(n, name)]
        if not matches:
            raise UserError(f"No {kind} matches {name!r}. Known: {', '.join(known)}.")
        return matches
    if name not in known:
        if name in (broken := installed(kind).broken):
            raise UserError(broken[name])
        if "@" in name:
            raise UserError(
                f"--{kind}s {name}: only the code of today can be trained: leave out "
                f"{name[name.index('@') :]}. `report`, `figure`, `compare`, `status` and "
                "`ls results` take it."
            )
        raise unknown(kind, name, known, f"`clbench ls {kind}s` lists all.")
    return [known[name]]


@cache
def _unpickled(payload: bytes) -> type[Any]:
    return cast(type[Any], pickle.loads(payload))


def import_class(declaration: Declaration) -> type[Any]:
    """Import the class of a declaration. A file that fails to import is a UserError."""
    if declaration.payload:
        return _unpickled(declaration.payload)
    try:
        return cast(type[Any], getattr(module_of(declaration), declaration.class_name))
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}{_relative(declaration, error)}"
        raise UserError(f"{declaration.path} does not import: {reason}") from error


def _relative(declaration: Declaration, error: BaseException) -> str:
    """What to write for a neighbour that Python does not find by its plain name."""
    name = str(getattr(error, "name", "") or "").partition(".")[0]
    folder = declaration.path.parent
    there = (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()
    if not isinstance(error, ModuleNotFoundError) or not there:
        return ""
    return f". It is in the same folder: write `from . import {name}` or `from .{name} import ...`"
