"""Reads what a method or benchmark declares from its source, without importing it.

`clbench ls`, `show`, `status` and the parsing of `ewc[strength=500]` need titles, hyper-parameters
and defaults, but not torch. A declaration is the literal part of a class body:

    class EWC(Method):
        \"\"\"Elastic Weight Consolidation.\"\"\"
        title = "EWC"                            # meta: a plain assignment of a literal
        strength: NonNegativeFloat = 5000.0      # field: annotated, with a literal default
        \"\"\"Weight of the quadratic penalty.\"\"\"

so it is read with `ast`. The classes are imported only by what trains.
"""

import ast
import importlib.util
import math
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from clbench.errors import UserError, unknown

# Types of hyper-parameters. To a type checker they are int and float; here they carry their range.
PositiveInt: TypeAlias = Annotated[int, ">= 1"]
NonNegativeInt: TypeAlias = Annotated[int, ">= 0"]
PositiveFloat: TypeAlias = Annotated[float, "> 0"]
NonNegativeFloat: TypeAlias = Annotated[float, ">= 0"]
Fraction: TypeAlias = Annotated[float, "0 to 1"]

# annotation -> (type, lowest, highest, whether lowest itself is excluded)
_KINDS: dict[str, tuple[type, float, float, bool]] = {
    "int": (int, -math.inf, math.inf, False),
    "float": (float, -math.inf, math.inf, False),
    "bool": (bool, -math.inf, math.inf, False),
    "str": (str, -math.inf, math.inf, False),
    "PositiveInt": (int, 1, math.inf, False),
    "NonNegativeInt": (int, 0, math.inf, False),
    "PositiveFloat": (float, 0, math.inf, True),
    "NonNegativeFloat": (float, 0, math.inf, False),
    "Fraction": (float, 0, 1, False),
}
# what a class declares by plain assignment and clbench reads -> its type
_META = {
    "name": str,
    "title": str,
    "family": str,
    "paper": str,
    "version": int,
    "zero_forgetting": bool,
    "protocol": dict,
    "tuned": dict,
    "presets": dict,
    "datasets": tuple,
}
_TRUE, _FALSE = {"true", "yes", "on", "1"}, {"false", "no", "off", "0"}


@dataclass(frozen=True)
class Field:
    """One hyper-parameter: its type, range, default and one-line doc."""

    name: str
    annotation: str
    type: type
    low: float
    high: float
    above: bool
    choices: tuple[Any, ...]
    optional: bool
    default: Any
    doc: str

    def parse(self, text: str, where: str) -> Any:
        """The value of `text`, or a UserError that quotes it and says what is allowed."""
        if self.optional and text.lower() == "none":
            return None
        value: Any = text
        try:
            if self.type is bool:
                if text.lower() not in _TRUE | _FALSE:
                    raise ValueError
                value = text.lower() in _TRUE
            elif self.type is int:
                value = int(text)
            elif self.type is float:
                value = float(text)
        except ValueError:
            raise UserError(f"{where}: {self.name}={text} is not {self.expected}.") from None
        return self.check(value, where)

    def check(self, value: Any, where: str) -> Any:
        """`value` with the field's type, or a UserError if its type or range is wrong."""
        if value is None and self.optional:
            return None
        if self.type is float and type(value) is int:
            value = float(value)
        wrong_type = type(value) is not self.type
        wrong_choice = bool(self.choices) and value not in self.choices
        if not (wrong_type or wrong_choice) and self.type in (int, float):
            inside = self.low < value if self.above else self.low <= value
            wrong_type = not (inside and value <= self.high and abs(value) != math.inf)
        if wrong_type or wrong_choice:
            raise UserError(f"{where}: {self.name}={value} is not {self.expected}.")
        return value

    @property
    def expected(self) -> str:
        """What a value must be, in words."""
        if self.choices:
            return "one of " + ", ".join(map(str, self.choices))
        word = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
        words = word[self.type]
        if self.low != -math.inf:
            words += f" {'above' if self.above else 'of at least'} {self.low:g}"
        if self.high != math.inf:
            words += f" and at most {self.high:g}"
        return words + (" or none" if self.optional else "")


@dataclass(frozen=True)
class Declaration:
    """What a file says of the one method or benchmark in it."""

    kind: str
    """`method` or `benchmark`."""
    name: str
    path: Path
    class_name: str
    module: str
    """Dotted name to import, or empty for a file that the user named by its path."""
    doc: str
    fields: dict[str, Field]
    meta: dict[str, Any]

    @property
    def title(self) -> str:
        return str(self.meta.get("title") or self.name)

    @property
    def version(self) -> int:
        return int(self.meta.get("version", 1))

    def values(self, given: dict[str, str]) -> dict[str, Any]:
        """Typed values of what the user wrote in brackets; unknown names get a suggestion."""
        values = {}
        for key, text in given.items():
            if key not in self.fields:
                hint = "" if self.fields else "It has none."
                raise unknown(f"parameter of {self.name}", key, self.fields, hint)
            values[key] = self.fields[key].parse(text, self.name)
        return values

    @property
    def defaults(self) -> dict[str, Any]:
        return {name: field.default for name, field in self.fields.items()}


def read_declaration(
    path: Path, kind: str, module: str = "", name: str = "", class_name: str = ""
) -> Declaration:
    """The declaration of the one method (or benchmark) class in `path`, or of the one named."""
    root = {"method": "Method", "benchmark": "Benchmark"}[kind]
    tree = _parse(path)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    found = [
        c for c in classes if not c.name.startswith("_") and root in _ancestors(c, tree, path)[1]
    ]
    if class_name:
        found = [c for c in found if c.name == class_name]
    if len(found) != 1:
        names = ", ".join(c.name for c in found) or "none"
        what = f"class {class_name}" if class_name else "class"
        raise UserError(
            f"{path}: a {kind} file holds one {what} derived from {root}; found {names}."
        )
    chain, _ = _ancestors(found[0], tree, path)
    fields: dict[str, Field] = {}
    meta: dict[str, Any] = {}
    for node, origin in reversed(chain):
        body_fields, body_meta = _body(node, origin)
        fields |= body_fields
        meta |= body_meta
    if both := fields.keys() & meta.keys():
        raise UserError(
            f"{path}: {', '.join(sorted(both))} is a parameter: change its default with its type, "
            "like `lr: float = 0.1`."
        )
    name = name or str(meta.get("name") or path.stem.replace("_", "-").lower())
    if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]*", name):
        raise UserError(
            f"{path}: {name!r} cannot be the name of a {kind}: "
            "use small letters, digits, '-', '+' and '.', and begin with a letter or digit."
        )
    doc = next((d for node, _ in chain if (d := ast.get_docstring(node))), "")
    return Declaration(kind, name, path, found[0].name, module, doc, fields, meta)


def fields_of(path: Path, class_name: str) -> dict[str, Field]:
    """The fields of one class in a source file of clbench itself."""
    tree = _parse(path)
    node = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == class_name)
    return _body(node, path)[0]


def _parse(path: Path) -> ast.Module:
    try:
        return _tree(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"There is no file {path}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}.") from None
    except SyntaxError as error:
        raise UserError(f"{path} is not valid Python: line {error.lineno}: {error.msg}.") from None


@cache
def _tree(source: str) -> ast.Module:
    """Several methods may derive from one; it is parsed once."""
    return ast.parse(source)


def _ancestors(
    node: ast.ClassDef, tree: ast.Module, path: Path
) -> tuple[list[tuple[ast.ClassDef, Path]], set[str]]:
    """The class and its ancestors, nearest first, and all names of bases on the way.

    Ancestors are looked for in the same file, in neighbours imported by `from .x import Y`, and in
    clbench's own, imported by `from clbench.methods.x import Y`.
    """
    chain, names = [(node, path)], set()
    for base in node.bases:
        base_name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
        names.add(base_name)
        place = _find_class(base_name, tree, path, node)
        if place is not None:
            more, more_names = _ancestors(*place)
            chain += more
            names |= more_names
    return chain, names


def _find_class(
    name: str, tree: ast.Module, path: Path, below: ast.ClassDef
) -> tuple[ast.ClassDef, ast.Module, Path] | None:
    """The class that `name` means above the class `below`, with its module and file."""
    found = None
    for node in tree.body:
        if node is below:  # what stands after it, and it itself, is not yet there
            break
        if isinstance(node, ast.ClassDef) and node.name == name:
            found = node, tree, path
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                neighbour = _imported_file(node, path)
                if (alias.asname or alias.name) == name and neighbour is not None:
                    there = _parse(neighbour)
                    found = _class_in(there, alias.name, neighbour)
    return found


def _class_in(
    tree: ast.Module, name: str, path: Path
) -> tuple[ast.ClassDef, ast.Module, Path] | None:
    classes = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name)
    return next(((node, tree, path) for node in classes), None)


def _imported_file(node: ast.ImportFrom, path: Path) -> Path | None:
    """The file of `from .x import ...` and `from clbench.methods.x import ...`, of no other."""
    module = node.module or ""
    if node.level == 1 and module:
        return path.parent / f"{module.replace('.', '/')}.py"
    package, _, last = module.rpartition(".")
    if node.level == 0 and package in ("clbench.methods", "clbench.benchmarks"):
        spec = importlib.util.find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            return Path(folder) / f"{last}.py"
    return None


def _body(node: ast.ClassDef, path: Path) -> tuple[dict[str, Field], dict[str, Any]]:
    fields: dict[str, Field] = {}
    meta: dict[str, Any] = {}
    for i, item in enumerate(node.body):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            annotation = ast.unparse(item.annotation)
            if annotation.startswith(("ClassVar", "typing.ClassVar")):
                if item.value is not None:
                    _note(meta, item.target.id, item.value, path)
                continue
            after = node.body[i + 1] if i + 1 < len(node.body) else None
            fields[item.target.id] = _field(item, annotation, _text(after), path)
        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
            _note(meta, item.targets[0].id, item.value, path)
    return fields, meta


def _note(meta: dict[str, Any], name: str, node: ast.expr, path: Path) -> None:
    """Keep a literal; what clbench itself reads must be one, and of the right type."""
    value = _literal(node)
    if name in _META and type(value) is not _META[name]:
        raise UserError(
            f"{path}:{node.lineno}: {name} must be a plain {_META[name].__name__}, written out: it "
            "is read without importing the file."
        )
    if value is not _NOT_LITERAL:
        meta[name] = value


_NOT_LITERAL = object()


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return _NOT_LITERAL


def _text(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return " ".join(str(node.value.value).split())
    return ""


def _field(item: ast.AnnAssign, annotation: str, doc: str, path: Path) -> Field:
    assert isinstance(item.target, ast.Name)
    name, where = item.target.id, f"{path}:{item.lineno}"
    if item.value is None or (default := _literal(item.value)) is _NOT_LITERAL:
        raise UserError(f"{where}: {name} needs a default that is a plain value, like 0.1.")
    base = annotation.removesuffix("| None").strip()
    optional = base != annotation
    choices: tuple[Any, ...] = ()
    if match := re.fullmatch(r"(?:typing\.)?Literal\[(.*)\]", base):
        choices = tuple(ast.literal_eval(f"({match[1]},)"))
        kind: tuple[type, float, float, bool] = (type(choices[0]), -math.inf, math.inf, False)
    elif base.rsplit(".", 1)[-1] in _KINDS:
        kind = _KINDS[base.rsplit(".", 1)[-1]]
    else:
        known = ", ".join(_KINDS)
        raise UserError(f"{where}: the type of {name} must be one of {known} or Literal[...].")
    field = Field(name, annotation, *kind, choices, optional, default, doc)
    return replace(field, default=field.check(default, where))
