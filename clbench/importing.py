"""Imports the modules of methods and benchmarks: what is imported is what was hashed.

A user's file is a module of a package that stands for its folder, so `from .helper import f` works
there. Every module of its code is executed from the very bytes that were hashed: Python would
believe a compiled copy whose source has the same time and size.
"""

import hashlib
import importlib
import importlib.util
import sys
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from clbench.code import Code, code_of, is_own
from clbench.declare import Declaration, changed_since
from clbench.errors import UserError
from clbench.files import SOURCE, absolute, read_bounded


def module_of(declaration: Declaration) -> ModuleType:
    """The module with the class of a declaration. A UserError if it is not the declared code."""
    name, path, code = declaration.module, declaration.path, declaration.code
    if code.modules:
        return _module(name, path, code)
    module = importlib.import_module(name)
    if hashlib.sha256(read_bounded(path, SOURCE)).hexdigest() != declaration.sha256:
        raise changed_since(path)
    return module


def unhashed(declaration: Declaration) -> list[str]:
    """The loaded modules of its folder or package that its digest lacks, because the code computes
    their names. Names are as in the code."""
    code = declaration.code
    if not code.computed:
        return []
    top = module_of(declaration).__name__.partition(".")[0]
    known = {file.resolve() for file in code.files.values()}
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.partition(".")[0] == top and file and Path(file).resolve() not in known:
            found.append(name if declaration.module else name.partition(".")[2])
    return sorted(found)


@cache
def _module(name: str, path: Path, code: Code) -> ModuleType:
    """The module `name`, or that of the user's file `path`, if it and what it imports is `code`."""
    files = _same(name, path, code).files
    for known, sha256 in code.modules:
        _EXACT.hashes[files[known].resolve()] = sha256
    if _EXACT not in sys.meta_path:
        sys.meta_path.insert(0, _EXACT)
    module = importlib.import_module(name) if name else _module_of_file(path, code)
    for known, sha256 in code.modules:
        loader = getattr(getattr(sys.modules.get(known), "__spec__", None), "loader", None)
        if name and isinstance(loader, _ExactLoader) and loader.sha256 != sha256:
            raise UserError(f"{known} was imported before its file changed: start Python again.")
    _same(name, path, code)  # a file may have come while the others were imported
    return module


def _same(name: str, path: Path, code: Code) -> Code:
    """The code as it is now, with its files; a UserError if it is another than `code`."""
    changed = [known for known, _ in code.modules if is_own(known)]
    found = code_of(path, name, code.distribution, changed)
    if found != code:
        raise changed_since(path)
    return found


def _module_of_file(path: Path, code: Code) -> ModuleType:
    """The module of a user's file, in a package that stands for its folder."""
    path = absolute(path)  # the method may change the current folder
    mark = hashlib.sha256(f"{path} {code.digest}".encode()).hexdigest()[:12]
    package = ModuleType(f"clbench_file_{mark}")
    package.__path__ = [str(path.parent)]
    sys.modules[package.__name__] = package
    name = f"{package.__name__}.{path.stem.replace('.', '_')}"
    loader = _ExactLoader(name, str(path), dict(code.modules)[path.stem])
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _ExactLoader(SourceFileLoader):
    """Executes a file if its content has the hash."""

    def __init__(self, name: str, path: str, sha256: str) -> None:
        super().__init__(name, path)
        self.sha256 = sha256

    def get_code(self, fullname: str) -> CodeType:
        content = read_bounded(Path(self.path), SOURCE)
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise changed_since(Path(self.path))
        code: CodeType = compile(content, self.path, "exec", dont_inherit=True)
        return code


class _Exact:
    """Finds modules where Python finds them, and has those of known hashes loaded exactly."""

    def __init__(self) -> None:
        self.hashes: dict[Path, str] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        for finder in [finder for finder in sys.meta_path if finder is not self]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return self._exact(spec)
        return None

    def _exact(self, spec: ModuleSpec) -> ModuleSpec:
        if isinstance(spec.loader, SourceFileLoader) and spec.origin:
            sha256 = self.hashes.get(Path(spec.origin).resolve())
            if sha256:
                spec.loader = _ExactLoader(spec.name, spec.origin, sha256)
        return spec


_EXACT: Any = _Exact()
