"""Names -> methods and benchmarks: the built-in folders, entry points, and a path to a file.

Listing and looking up names imports nothing; `import_class` imports the one class that is used.
A package offers its own by entry points in the groups `clbench.methods` and `clbench.benchmarks`,
each `name = "package.module:Class"`.
"""

import fnmatch
import hashlib
import importlib
import importlib.util
import pickle
import re
import sys
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from clbench.declare import SOURCE, Declaration
from clbench.errors import UserError, unknown
from clbench.files import named_path, read_bounded
from clbench.reading import read_declaration

FAMILIES = {
    "regularization": "protects important weights by a penalty",
    "structure": "gives tasks parts of the network of their own",
    "memory": "keeps and reuses samples of past tasks",
    "reference": "a lower or upper bound to compare with",
}


@cache
def declarations(kind: str) -> dict[str, Declaration]:
    """All methods (or benchmarks) that are installed, by name; two of one name are an error."""
    found: dict[str, Declaration] = {}
    package = f"clbench.{kind}s"
    for folder in importlib.import_module(package).__path__:
        for path in sorted(Path(folder).glob("*.py")):
            if not path.name.startswith("_"):
                add(found, read_declaration(path, kind, f"{package}.{path.stem}"))
    for point in entry_points(group=package):
        add(found, _from_entry_point(kind, point.name, point.value))
    return dict(sorted(found.items()))


def add(known: dict[str, Declaration], new: Declaration) -> None:
    """Add a declaration; a UserError if another method or benchmark has the name."""
    old = known.get(new.name)
    if old is not None and old.path.resolve() != new.path.resolve():
        raise UserError(
            f"Two {new.kind}s are named {new.name!r}: {old.path} and {new.path}. "
            'Rename one, for example by `name = "..."` in its class.'
        )
    known[new.name] = new


def _from_entry_point(kind: str, name: str, value: str) -> Declaration:
    module, _, class_name = value.partition(":")
    try:
        spec = importlib.util.find_spec(module)  # imports the packages above the module
    except Exception:
        spec = None
    if spec is None or spec.origin is None:
        raise UserError(
            f"The entry point {name!r} = {value!r} in group clbench.{kind}s names no module: "
            "reinstall or remove the package that offers it."
        )
    return read_declaration(Path(spec.origin), kind, module, name, class_name)


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
        for installed in known.values():
            if installed.path.resolve() == path.resolve():
                return [installed]
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
        raise unknown(kind, name, known, f"`clbench ls {kind}s` lists all.")
    return [known[name]]


@cache
def _module_of_file(path: Path, sha256: str) -> ModuleType:
    """The module in a file with this hash: the very bytes that were hashed are executed."""
    content = read_bounded(path, SOURCE)
    _check_unchanged(path, content, sha256)
    name = f"clbench_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    code = compile(content.decode("utf-8-sig"), str(path), "exec", dont_inherit=True)
    exec(code, vars(module))
    return module


def _check_unchanged(path: Path, content: bytes, sha256: str) -> None:
    """A record that names one code must not have the numbers of another."""
    if hashlib.sha256(content).hexdigest() != sha256:
        raise UserError(f"{path} has changed since this command read it; run the command again.")


@cache
def _unpickled(payload: bytes) -> type[Any]:
    return cast(type[Any], pickle.loads(payload))


def import_class(declaration: Declaration) -> type[Any]:
    """Import the class of a declaration. A file that fails to import is a UserError."""
    if declaration.payload:
        return _unpickled(declaration.payload)
    name, path, sha256 = declaration.module, declaration.path, declaration.sha256
    try:
        module = importlib.import_module(name) if name else _module_of_file(path, sha256)
        if name and sha256:
            _check_unchanged(path, read_bounded(path, SOURCE), sha256)
        return cast(type[Any], getattr(module, declaration.class_name))
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"{path} does not import: {reason}") from error
