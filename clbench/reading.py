"""Reads declarations from source files, with `ast` and without importing them.

`clbench ls`, `show`, `status` and the parsing of `ewc[strength=500]` need titles, parameters and
defaults, but not torch. Only training imports a class.
"""

import ast
import hashlib
import importlib
import re
from bisect import bisect_left
from dataclasses import replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, get_origin

import msgspec

from clbench.declare import META, Declaration, Field
from clbench.errors import UserError
from clbench.files import SOURCE, read_bounded, shown
from clbench.limits import SENTENCE
from clbench.record import Shown
from clbench.record_file import in_words

CLASSES = 300
"""The most classes of a file, as the ancestors of each are searched."""
ROOTS = {"method": "Method", "benchmark": "Benchmark"}


class _LaidOpen(Shown, forbid_unknown_fields=True):
    """An entry of `lays_open`, as a file declares it."""


def read_declaration(
    path: Path, kind: str, module: str = "", name: str = "", class_name: str = ""
) -> Declaration:
    """The declaration of the one method (or benchmark) class in `path`, or of the one named."""
    try:
        return _read(path, kind, module, name, class_name)
    except (RecursionError, MemoryError):
        raise UserError(f"{path} cannot be read: its code is nested too deeply.") from None


def _read(path: Path, kind: str, module: str, name: str, class_name: str) -> Declaration:
    root = ROOTS[kind]
    tree, sha256 = _parse(path)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    if len(classes) > CLASSES:
        raise UserError(f"{path} has {len(classes):,} classes; at most {CLASSES} are read.")
    found = [c for c in classes if root in _ancestors(c, tree, path)[1]]
    several = len(found) > 1
    found = [
        c for c in found if (c.name == class_name if class_name else not c.name.startswith("_"))
    ]
    if len(found) != 1:
        names = ", ".join([c.name for c in found[:5]] + ["..."] * (len(found) > 5)) or "none"
        what = f"class {class_name}" if class_name else "class"
        raise UserError(
            f"{path}: a {kind} file must hold one {what} derived from {root}; found {names}."
        )
    chain, _ = _ancestors(found[0], tree, path)
    usual = kebab(class_name) if class_name and several else path.stem.replace("_", "-").lower()
    return replace(declaration(kind, chain, path, module, name, usual), sha256=sha256)


def declaration(
    kind: str,
    chain: list[tuple[ast.ClassDef, Path]],
    path: Path,
    module: str = "",
    name: str = "",
    usual: str = "",
) -> Declaration:
    """The declaration of a class from its node and those of its ancestors, nearest first. Its
    name is `name`, or else the one in the class, or else the `usual` one."""
    fields: dict[str, Field] = {}
    meta: dict[str, Any] = {}
    for node, origin in reversed(chain):
        body_fields, body_meta = _body(node, origin)
        fields |= body_fields
        meta |= body_meta
    if both := fields.keys() & meta.keys():
        names = ", ".join(sorted(both))
        example = "`lr: float = 0.1`"
        raise UserError(f"{path}: {names} is a parameter: give its type too, like {example}.")
    for key in meta.get("fixed", {}):
        if key not in meta.get("protocol", {}):
            raise UserError(f"{path}: fixed: {key!r} must have its value in `protocol` too.")
    for key, value in meta.get("zero_forgetting_if", {}).items():
        if key not in fields:
            raise UserError(f"{path}: zero_forgetting_if: {key!r} is no parameter.")
        fields[key].check(value, f"{path}: zero_forgetting_if")
    name = name or str(meta.get("name") or usual)
    if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]*", name):
        raise UserError(
            f"{path}: {name!r} cannot be the name of a {kind}: "
            "use small letters, digits, '-', '+' and '.', and begin with a letter or digit."
        )
    doc = next((d for node, _ in chain if (d := ast.get_docstring(node))), "")
    return Declaration(kind, name, path, chain[0][0].name, module, _shown(doc), fields, meta)


def kebab(class_name: str) -> str:
    """`MyMethod` -> `my-method`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", class_name)
    return words.replace("_", "-").strip("-").lower()


def _parse(path: Path) -> tuple[ast.Module, str]:
    """The tree of a file, and the SHA-256 of the bytes that it was made of."""
    try:
        content = read_bounded(path, SOURCE)
        return _tree(content.decode("utf-8-sig")), hashlib.sha256(content).hexdigest()
    except FileNotFoundError:
        raise UserError(f"There is no file {shown(path)}.") from None
    except OSError as error:
        raise UserError(f"{shown(path)} cannot be read: {error.strerror}.") from None
    except SyntaxError as error:
        where = f"line {error.lineno or 1}: {error.msg}"
        raise UserError(f"{shown(path)} is not valid Python: {where}.") from None
    except UnicodeDecodeError:
        raise UserError(f"{shown(path)} is not a text in UTF-8.") from None
    except ValueError:
        raise UserError(f"{shown(path)} is not valid Python: NUL in its path or text.") from None


@cache
def _tree(source: str) -> ast.Module:
    """Several methods may derive from one; it is parsed once."""
    return ast.parse(source)


def _ancestors(
    node: ast.ClassDef, tree: ast.Module, path: Path
) -> tuple[list[tuple[ast.ClassDef, Path]], set[str]]:
    """The class and its ancestors, nearest first, and the names of all bases.

    Ancestors are searched in the same file, in neighbours imported by `from .x import Y`, and in
    clbench's own files, imported by `from clbench.methods.x import Y`. Each is visited once, so
    that a circle of imports ends.
    """
    chain: dict[ast.ClassDef, Path] = {}
    names: set[str] = set()

    def climb(node: ast.ClassDef, tree: ast.Module, path: Path) -> None:
        chain[node] = path
        for base in node.bases:
            base_name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
            names.add(base_name)
            place = _find_class(base_name, tree, path, node)
            if place is not None and place[0] not in chain:
                climb(*place)

    climb(node, tree, path)
    return list(chain.items()), names


def _find_class(
    name: str, tree: ast.Module, path: Path, below: ast.ClassDef
) -> tuple[ast.ClassDef, ast.Module, Path] | None:
    """The class that `name` means above the class `below`, with its module and file."""
    nodes = _defining(tree).get(name, [])
    # the class and what follows it do not exist yet; of what is before it, the last counts
    for node in reversed(nodes[: bisect_left(nodes, below.lineno, key=attrgetter("lineno"))]):
        if isinstance(node, ast.ClassDef):
            return node, tree, path
        if (neighbour := _imported_file(node, path)) is not None:
            original = next(a.name for a in node.names if (a.asname or a.name) == name)
            there, _ = _parse(neighbour)
            own = [n for n in _defining(there).get(original, ()) if isinstance(n, ast.ClassDef)]
            return (own[0], there, neighbour) if own else None
    return None


@cache
def _defining(tree: ast.Module) -> dict[str, list[ast.ClassDef | ast.ImportFrom]]:
    """Name -> the classes and imports of that name in a file, in order."""
    found: dict[str, list[ast.ClassDef | ast.ImportFrom]] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found.setdefault(alias.asname or alias.name, []).append(node)
    return found


def _imported_file(node: ast.ImportFrom, path: Path) -> Path | None:
    """The file of `from .x import ...` or `from clbench.methods.x import ...`; no others."""
    module = node.module or ""
    if node.level == 1 and module:
        return path.parent / f"{module.replace('.', '/')}.py"
    package, _, last = module.rpartition(".")
    if node.level == 0 and package in ("clbench.methods", "clbench.benchmarks"):
        return Path(importlib.import_module(package).__path__[0]) / f"{last}.py"
    return None


def _body(node: ast.ClassDef, path: Path) -> tuple[dict[str, Field], dict[str, Any]]:
    fields: dict[str, Field] = {}
    meta: dict[str, Any] = {}
    for item, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            name, annotation = item.target.id, _unparsed(item.annotation)
            if annotation.startswith(("ClassVar", "typing.ClassVar")):
                if item.value is not None:
                    _note(meta, name, item.value, path)
                continue
            where = f"{path}:{item.lineno}"
            if item.value is None or (default := _literal(item.value)) is _NOT_LITERAL:
                raise UserError(f"{where}: {name} needs a default that is a plain value, like 0.1.")
            fields[name] = Field.of(name, annotation, default, _text(after), where)
        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
            _note(meta, item.targets[0].id, item.value, path)
    return fields, meta


def _note(meta: dict[str, Any], name: str, node: ast.expr, path: Path) -> None:
    """Keep a literal; a fact that clbench reads must be a literal of the right type."""
    value, where = _literal(node), f"{path}:{node.lineno}"
    kind = get_origin(META.get(name)) or META.get(name)
    if kind is not None and type(value) is not kind:
        raise UserError(
            f"{where}: {name} must be a plain {kind.__name__}, written out: it is read "
            "without importing the file."
        )
    if kind is not None:
        try:
            msgspec.convert(value, META[name])
        except msgspec.ValidationError as error:
            raise UserError(f"{where}: {name}: {in_words(error)}.") from None
        if not str(value).isprintable():
            raise UserError(f"{where}: {name} has characters that cannot be printed.")
        if len(str(value)) > SENTENCE:
            raise UserError(f"{where}: {name} has more than {SENTENCE:,} characters.")
    for key, entry in value.items() if name == "lays_open" else ():
        try:
            shown = msgspec.convert(entry, _LaidOpen)
            if shown.kind != "number" and (shown.below is not None or shown.warning):
                raise msgspec.ValidationError("only a number can have `below` and `warning`")
        except msgspec.ValidationError as error:
            raise UserError(f"{where}: lays_open[{key!r}]: {in_words(error)}.") from None
    if value is not _NOT_LITERAL:
        meta[name] = value


_NOT_LITERAL = object()


def _literal(node: ast.expr) -> Any:
    try:
        value = ast.literal_eval(node)
        str(value).encode()  # fails for a number of too many digits, and for half a character
    except (ValueError, TypeError):
        return _NOT_LITERAL
    return value


def _unparsed(node: ast.expr) -> str:
    try:
        return ast.unparse(node)
    except ValueError:  # a number of too many digits
        return "..."


def _text(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return _shown(" ".join(str(node.value.value).split()))
    return ""


def _shown(doc: str) -> str:
    """A doc that cannot steer a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in doc)
