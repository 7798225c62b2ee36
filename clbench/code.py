"""The code of a method or benchmark: its file and the modules that it imports, found by `ast`.

A result belongs to its code. For a user's file, that is the file and the modules of its folder that
it imports, followed through; for an entry point, the modules of its package, and name and version
of its distribution. clbench's own files count only where a git checkout has changed them: else the
`version` of a method or benchmark says what it is. Nothing is imported to find all this. A module
whose name is computed while the code runs is not found; once it is loaded, the record names it.
"""

import ast
import contextlib
import functools
import hashlib
import json
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from clbench.errors import UserError
from clbench.files import SOURCE, absolute, read_bounded, shown

MODULES = 2000
"""The most modules that the code of one method may have."""
BYTES = 10**8
"""The most bytes that they may have together; a compiled module may have as many."""
OWN = ("clbench.methods", "clbench.benchmarks")
"""The packages of clbench's own methods and benchmarks."""


@dataclass(frozen=True)
class Code:
    """Everything that makes a method or benchmark and is not clbench itself."""

    modules: tuple[tuple[str, str], ...] = ()
    """The name of each module and the SHA-256 of its file, by name. Names begin at the folder of a
    user's file, so the place of the folder makes no difference."""
    distribution: str = ""
    """Name and version of the distribution that an entry point comes from."""
    files: dict[str, Path] = field(default_factory=dict, compare=False)
    """The file of each module."""
    computed: bool = field(default=False, compare=False)
    """Whether it imports a module whose name it computes: `modules` may lack that one."""

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of it all; empty for code of clbench itself."""
        if not self.modules:
            return ""
        return hashlib.sha256(json.dumps([self.distribution, self.modules]).encode()).hexdigest()


def code_of(path: Path, module: str, distribution: str, changed: Collection[str]) -> Code:
    """The code of the file `path`, or of the installed `module`; of the modules of clbench, those
    that are `changed` count."""
    if not changed and is_own(module):
        return Code()
    try:
        return _Search(path, module, distribution).code(frozenset(changed))
    except (RecursionError, MemoryError):
        raise UserError(f"{path} cannot be read: its code is nested too deeply.") from None


def located(name: str) -> ModuleSpec | None:
    """Where Python finds a module, without importing the packages above it."""
    parent = name.rpartition(".")[0]
    above = located(parent) if parent else None
    if parent and (above is None or above.submodule_search_locations is None):
        return None
    return _found(name, _folders(above) if above else None)


def _found(name: str, folders: list[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        # a namespace asks for its parent package by name, and that is not imported
        known = name.rpartition(".")[2] if finder is PathFinder and folders else name
        with contextlib.suppress(Exception):
            if (spec := finder.find_spec(known, folders)) is not None:
                return spec
    return None


def _folders(spec: ModuleSpec) -> list[str]:
    return list(spec.submodule_search_locations or ())


def is_own(name: str) -> bool:
    """Whether a module is one of clbench's own methods or benchmarks."""
    return name.startswith(tuple(f"{package}." for package in OWN)) or name in OWN


class _Search:
    """Follows the imports of one file."""

    def __init__(self, path: Path, module: str, distribution: str) -> None:
        self.path, self.distribution = path, distribution
        self.specs: dict[str, ModuleSpec | None] = {}
        self.top = module.partition(".")[0]
        self.start = module or path.stem
        self.folder = absolute(path).parent  # Python keeps what it found in `.` for other folders
        self.computed = False
        self.allowed: Collection[str] | None = None
        """Other top-level modules of the folder that count; None for all."""
        if module and not is_own(module):
            spec = located(self.top)
            self.specs[self.top] = spec
            first = (*_folders(spec), spec.origin) if spec else ()
            self.folder = Path(first[0] or path).parent if first else self.folder
            if any(self.folder.glob("*.dist-info")):  # other distributions are installed there too
                self.allowed = _top_levels(distribution)

    def code(self, changed: frozenset[str]) -> Code:
        modules: dict[str, str] = {}
        files: dict[str, Path] = {}
        # Python executes the packages above a module first
        waiting = _with_packages(self.start) if self.top else [self.start]
        seen, size = set(), 0
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            spec = self._spec(name)
            file = self._file(name, spec)
            if name.endswith(".*"):  # it may import all that is there
                package = self._spec(name.removesuffix(".*"))
                folders = map(Path, _folders(package) if package else ())
                inside = [p.stem for f in folders for p in f.glob("*.py") if p.stem != "__init__"]
                waiting += [f"{name[:-1]}{stem}" for stem in inside]
            if file is None:
                continue
            content = self._read(file)
            if not is_own(name) or name in changed:
                modules[name], files[name] = hashlib.sha256(content).hexdigest(), file
            size += len(content)
            if len(seen) > 10 * MODULES or len(modules) > MODULES or size > BYTES:
                most = f"{MODULES:,} modules or {BYTES / 1e6:.0f} MB"
                raise UserError(f"{shown(self.path)} imports more than {most} of its own.")
            is_package = spec is not None and spec.submodule_search_locations is not None
            package_name = name if is_package else name.rpartition(".")[0]
            for wanted in self._imports(content, package_name, file.suffix):
                if changed or not is_own(wanted):
                    waiting += _with_packages(wanted)
        return Code(tuple(sorted(modules.items())), self.distribution, files, self.computed)

    def _spec(self, name: str) -> ModuleSpec | None:
        if name not in self.specs:
            parent, _, last = name.rpartition(".")
            above = self._spec(parent) if parent else None
            if is_own(name) or name == "clbench":
                spec = located(name)
            elif above is not None and self.top and parent.partition(".")[0] == self.top:
                spec = _found(name, _folders(above)) if _folders(above) else None
            elif above is not None:
                spec = PathFinder.find_spec(last, _folders(above)) if _folders(above) else None
            elif parent or (self.allowed is not None and name not in self.allowed):
                spec = None
            else:
                spec = PathFinder.find_spec(name, [str(self.folder)])
            self.specs[name] = spec
        return self.specs[name]

    def _file(self, name: str, spec: ModuleSpec | None) -> Path | None:
        if name == self.start and (spec is None or not self.top):
            return absolute(self.path)
        return Path(spec.origin) if spec and spec.has_location and spec.origin else None

    def _read(self, file: Path) -> bytes:
        try:
            return read_bounded(file, SOURCE if file.suffix == ".py" else BYTES)
        except OSError as error:
            raise UserError(f"{shown(file)} cannot be read: {error.strerror}.") from None

    def _imports(self, content: bytes, package: str, suffix: str) -> Iterator[str]:
        """The names of what a file may import; none of a file that Python cannot read either."""
        tree = ast.Module([], [])
        if suffix == ".py":
            with contextlib.suppress(SyntaxError, ValueError):
                tree = ast.parse(content)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._absolute(alias.name)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    inside = [node.module] if node.module else []
                    yield from self._named(node.level, [*inside, alias.name], package)
            elif isinstance(node, ast.Call) and _name(node.func) in ("import_module", "__import__"):
                given = node.args[0] if node.args else None
                text = given.value if isinstance(given, ast.Constant) else None
                self.computed |= text is None
                if isinstance(text, str) and text.strip("."):
                    plain = text.lstrip(".")
                    yield from self._named(len(text) - len(plain), [plain], package)

    def _named(self, level: int, inside: list[str], package: str) -> Iterator[str]:
        """What `from ...a import b` names: `a.b`, from the package `level` folders up."""
        if not level:
            yield from self._absolute(".".join(inside))
            return
        above = package.split(".") if package else []
        kept = above[: len(above) - level + 1]
        # a user's file is at the top of its folder; above a package there is nothing to import from
        if level - 1 <= len(above) and (kept or not self.top):
            yield ".".join([*kept, *inside])

    def _absolute(self, name: str) -> Iterator[str]:
        top = name.partition(".")[0]
        if is_own(name) or (top != "clbench" and top not in sys.stdlib_module_names):
            yield name


def _name(function: ast.expr) -> str:
    return str(getattr(function, "attr", getattr(function, "id", "")))


def _with_packages(name: str) -> list[str]:
    """`a.b.c` and the packages on the way: `a`, `a.b`."""
    parts = name.split(".")
    first = 2 if is_own(name) else 1  # the package clbench itself never counts
    return [".".join(parts[:n]) for n in range(first, len(parts) + 1)]


def _top_levels(distribution: str) -> Collection[str]:
    """The top-level modules that a distribution has installed."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        files = metadata.files(distribution.rpartition(" ")[0]) or ()
        return {Path(file.parts[0]).stem for file in files if file.suffix in (".py", ".so")}
    return ()
