"""The declaration of a class that the caller hands over in Python, from a notebook or a script.

A class in a file that can be imported is read from that file. For any other class, its code is
collected (with the functions and classes of its module that it uses), so that a record can tell
one version from another, and the class is pickled by value for worker processes.
"""

import ast
import dis
import inspect
import linecache
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import CodeType
from typing import Any

from clbench.declare import DEFINED, Declaration
from clbench.errors import UserError
from clbench.reading import ROOTS, declaration, kebab, read_declaration
from clbench.registry import add, declarations


def declaration_of(cls: type[Any]) -> Declaration:
    """The declaration of a method or benchmark class; the installed one if it is installed. A
    UserError if the source of the class is not available."""
    kind, chain = _kind_and_chain(cls)
    known = declarations(kind)
    for installed in known.values():
        if (installed.module, installed.class_name) == (cls.__module__, cls.__qualname__):
            return installed
    file = Path(DEFINED[cls][0])
    if _is_importable(cls, file):
        package_module = cls.__module__ if "." in cls.__module__ else ""  # may import neighbours
        found = read_declaration(file, kind, package_module, class_name=cls.__name__)
    else:
        nodes = [(_definition(c)[0], Path(DEFINED[c][0])) for c in chain]
        found = declaration(kind, nodes, file, usual=kebab(cls.__name__))
        found = replace(found, source=_code(cls), payload=_pickled(cls))
    add(dict(known), found)  # refuses a class that takes the name of another
    return found


def _kind_and_chain(cls: Any) -> tuple[str, list[type[Any]]]:
    """`method` or `benchmark`, and the class with its ancestors below `Method` or `Benchmark`."""
    for kind, root in ROOTS.items():
        for ancestor in getattr(cls, "__mro__", ())[1:]:
            if (ancestor.__module__, ancestor.__name__) == (f"clbench.{kind}", root):
                below = cls.__mro__[: cls.__mro__.index(ancestor)]
                return kind, [c for c in below if c in DEFINED]
    raise UserError(
        f"{cls!r} is no method: give a name, like 'ewc', or a class derived from clbench.Method."
    )


def _is_importable(cls: type[Any], file: Path) -> bool:
    module_file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    inside = cls.__module__ == "__main__" or "." in cls.__qualname__
    return not inside and module_file is not None and Path(module_file).resolve() == file.resolve()


def _pickled(cls: type[Any]) -> bytes:
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(cls))
    except Exception as error:
        raise UserError(
            f"{cls.__name__} cannot be sent to worker processes ({type(error).__name__}: {error}). "
            "Put it in a file and name that file: methods='./my_method.py'."
        ) from None


def _code(cls: type[Any]) -> str:
    """The text of the class and of everything that it uses from its module, sorted by name."""
    own = [c for c in cls.__mro__ if c.__module__ == cls.__module__]
    names: dict[str, Any] = next((f.__globals__ for c in own for f in _functions(c)), {})
    texts: dict[str, str] = {}
    for c in own:
        texts[c.__name__] = texts.get(c.__name__, "") + _definition(c)[1]
    waiting = list(texts)
    while waiting:
        for name in _global_names(compile(texts[waiting.pop()], "", "exec")):
            if name not in texts and name in names and not name.startswith("__"):
                texts[name] = _text_of(name, names[name], cls.__module__)
                waiting.append(name)
    return "\n".join(texts[name] for name in sorted(texts) if texts[name])


def _text_of(name: str, value: Any, module: str) -> str:
    """The text of a function, class or plain value of the module; empty for anything else."""
    if isinstance(value, bool | int | float | complex | str | bytes | None):
        return f"{name} = {value!r}\n"
    value = inspect.unwrap(value) if callable(value) else value
    if not (inspect.isclass(value) or inspect.isfunction(value)) or value.__module__ != module:
        return ""
    try:
        return _definition(value)[1]
    except UserError:
        return ""


def _functions(cls: type[Any]) -> Iterator[Any]:
    """The functions in the class's own text; those that a dataclass generates have no file."""
    for value in vars(cls).values():
        inner = getattr(value, "__func__", getattr(value, "fget", value))
        function = inspect.unwrap(inner) if callable(inner) else inner
        written = inspect.isfunction(function) and function.__module__ == cls.__module__
        if written and function.__code__.co_filename != "<string>":
            yield function


def _global_names(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def _definition(value: Any) -> tuple[Any, str]:
    """The node and the text of a class or function; a UserError if its source is not available."""
    file, line = _place(value)
    lines = linecache.getlines(file)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        tree = ast.Module([], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == value.__name__:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            end = node.end_lineno or first
            if first <= line <= end:
                return node, textwrap.dedent("".join(lines[first - 1 : end]))
    raise UserError(
        f"The source of {value.__name__} is not available, so a record could not tell its versions "
        "apart. Put it in a file and name that file: methods='./my_method.py'."
    )


def _place(value: Any) -> tuple[str, int]:
    """The file (or the notebook's cell) and a line of the definition."""
    if value in DEFINED:
        return DEFINED[value]
    for function in _functions(value) if inspect.isclass(value) else [value]:
        return function.__code__.co_filename, function.__code__.co_firstlineno
    return "", 0
