"""Which network ordinary methods train: found by name, without importing torch.

    mlp, mlp-100, alexnet, resnet18   built in
    torchvision:resnet50              a classification model of torchvision, without its classifier
    timm:convnext_tiny                a model of timm (`pip install 'clbench[timm]'`)
    torchvision:resnet18[weights=/path/to/file.pth]    with weights from a local file
    ./mynet.py, ./mynet.py:features   a function in a user's file
    a name                            a function that a package offers as an entry point in the
                                      group `clbench.backbones`

A function takes the shape of an input and returns an `nn.Module` of features; the harness adds the
heads. `clbench.networks.backbone` builds what is found here.
"""

import ast
import hashlib
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from clbench.code import located
from clbench.declare import Declaration
from clbench.errors import UserError, unknown
from clbench.files import SOURCE, absolute, named_path, opened, read_bounded, shown
from clbench.limits import CHECKPOINT

BUILT_IN = ("mlp", "mlp-100", "alexnet", "resnet18")
LIBRARIES = ("torchvision", "timm")
GROUP = "clbench.backbones"
USUAL = "mlp"
"""The network of a benchmark that names none."""
DIGITS = 12
"""Digits of a hash in a name."""


@dataclass(frozen=True)
class Network:
    """A network by its name, and where it comes from."""

    name: str
    """As a spec and a label have it: `torchvision:resnet18`, `mynet@3f2a9c1b2d4e`."""
    library: str = ""
    """`torchvision` or `timm`; empty for a built-in network and for a user's own."""
    model: str = ""
    """The name of the library's model."""
    code: Declaration | None = None
    """The user's function: its file, its name and the hash of its code."""
    weights: Path | None = None
    weights_sha256: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 of what is not clbench's or a library's; empty if all of it is."""
        return self.code.digest if self.code else self.weights_sha256


MLP = Network(USUAL)


def find(text: str, where: str = "--backbone", folder: Path | None = None) -> Network:
    """The network that a text names; the path of a file begins at `folder`. A UserError that
    begins with `where` says what is wrong."""
    match = re.fullmatch(r"([^\[\]]+)(?:\[(.*)\])?", text) if isinstance(text, str) else None
    if match is None:
        raise UserError(
            f"{where} {text!r:.80} is no backbone: give a name, like mlp, torchvision:resnet18 or "
            "./mynet.py."
        )
    name, inside = match[1].strip(), match[2]
    library, colon, model = name.partition(":")
    if colon and library in LIBRARIES:
        return _of_library(library, model, inside, f"{where} {shown(text)}", folder)
    if inside is not None:
        raise UserError(f"{where} {shown(text)}: only models of torchvision and timm take [...].")
    if re.search(r"\.py(:\w+)?$", name) or "/" in name or "\\" in name:
        return _of_file(name, where, folder)
    if name in BUILT_IN:
        return Network(name)
    for point in entry_points(group=GROUP):
        if point.name == name:
            dist = point.dist
            owner = f"{dist.name} {dist.version}" if dist else ""
            return _of_entry_point(name, point.value, where, owner)
    known = [*BUILT_IN, *(point.name for point in entry_points(group=GROUP))]
    raise unknown(
        f"backbone in {where}:" if where != "--backbone" else "backbone",
        name,
        known,
        "Others are torchvision:NAME, timm:NAME and ./FILE.py.",
    )


def of_benchmark(benchmark: Declaration, params: Mapping[str, Any]) -> Network:
    """The network that a benchmark declares, or has as a parameter; a path begins at its file."""
    text = params.get("backbone", benchmark.meta.get("backbone", USUAL))
    folder = None if benchmark.payload else benchmark.path.parent
    return find(text, f"{shown(benchmark.path)}: backbone", folder)


def recorded(name: str) -> Network:
    """The network of a record, which may come from a stranger: no file is opened or executed."""
    library, colon, model = name.partition(":")
    if name in BUILT_IN or (colon and library in LIBRARIES and re.fullmatch(r"[\w.-]+", model)):
        return find(name, "the record's backbone")
    raise UserError(
        f"Its backbone {name!r:.80} was a file of its user, which a record cannot name."
    )


def _of_library(
    library: str, model: str, inside: str | None, where: str, folder: Path | None
) -> Network:
    if not re.fullmatch(r"[\w.-]+", model):
        raise UserError(f"{where}: name a model, like {library}:resnet18.")
    if library == "timm" and importlib.util.find_spec("timm") is None:
        raise UserError(f"{where} needs timm, which is not here: pip install 'clbench[timm]'")
    known = models_of(library)
    if known and model.partition(".")[0] not in known:  # timm: `resnet18.a1_in1k`
        raise unknown(f"{library} model", model, known)
    name = f"{library}:{model}"
    if inside is None:
        return Network(name, library, model)
    key, equals, value = inside.partition("=")
    if key.strip() != "weights" or not equals:
        raise UserError(f"{where}: write {name}[weights=FILE]; there is no other option.")
    path = _path(value.strip(), where, folder)
    if "://" in value or not path.is_file():
        raise UserError(
            f"{where}: weights={shown(value.strip())} is no file here. A run downloads nothing: "
            "give a file of weights on this machine."
        )
    sha256 = _hash_of_weights(path, where)
    name = f"{name}[weights={sha256[:DIGITS]}]"
    return Network(name, library, model, weights=path, weights_sha256=sha256)


@cache
def models_of(library: str) -> frozenset[str]:
    """The names of a library's models, read from its source, because importing it takes seconds;
    none if they are not found there."""
    spec = importlib.util.find_spec(library)
    folders = spec.submodule_search_locations if spec else None
    files = [file for folder in folders or () for file in Path(folder, "models").glob("*.py")]
    pattern = re.compile(r"^@register_model\b.*?^def (\w+)", re.MULTILINE | re.DOTALL)
    older = re.compile(r"""^ +['"]([\w.]+)['"]: ['"][\w.]+['"],$""", re.MULTILINE)
    found: set[str] = set()
    for file in files:
        text = file.read_text("utf-8", "replace")
        found.update(pattern.findall(text))
        if "register_model_deprecations" in text:  # timm's names of earlier versions
            found.update(name.partition(".")[0] for name in older.findall(text))
    return frozenset(found)


def _path(text: str, where: str, folder: Path | None) -> Path:
    path = named_path(text, where, home=True)
    return absolute(path if folder is None else folder / path)


def _hash_of_weights(path: Path, where: str) -> str:
    found = path.stat()
    return _hashed(path, where, found.st_mtime_ns, found.st_size)


@cache
def _hashed(path: Path, where: str, changed: int, size: int) -> str:
    """Every cell of a grid asks for it, and the file may be large."""
    digest = hashlib.sha256()
    try:
        with opened(path, CHECKPOINT) as file:
            while part := file.read(2**20):
                digest.update(part)
    except OSError as error:
        raise UserError(f"{where}: {shown(path)} cannot be read: {error.strerror}.") from None
    return digest.hexdigest()


def _of_file(name: str, where: str, folder: Path | None) -> Network:
    text, _, function = re.fullmatch(r"(.*?)(:(\w+))?", name, re.DOTALL).groups()  # type: ignore
    path = _path(text, where, folder)
    if path.suffix != ".py":
        raise UserError(f"{where} {shown(name)}: the file of a backbone must end in .py.")
    return _own(path, function or "", path.stem.replace("_", "-").lower(), where)


def _of_entry_point(name: str, value: str, where: str, distribution: str) -> Network:
    module, _, function = value.partition(":")
    spec = located(module)
    if spec is None or spec.origin is None:
        raise UserError(
            f"The entry point {name!r} = {value!r} in group {GROUP} names no module: reinstall or "
            "remove the package that offers it."
        )
    return _own(Path(spec.origin), function, name, where, module, distribution)


def _own(
    path: Path, function: str, name: str, where: str, module: str = "", distribution: str = ""
) -> Network:
    try:
        content = read_bounded(path, SOURCE)
        tree = ast.parse(content.decode("utf-8-sig"))
    except FileNotFoundError:
        raise UserError(f"{where}: there is no file {shown(path)}.") from None
    except OSError as error:
        raise UserError(f"{where}: {shown(path)} cannot be read: {error.strerror}.") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"{where}: {shown(path)} is not valid Python: {error}.") from None
    function = function or _function_in(tree, path, where)
    sha256 = hashlib.sha256(content).hexdigest()
    code = Declaration(
        "backbone", name, path, function, module, "", {}, {}, sha256, distribution=distribution
    )
    return Network(f"{name}@{code.digest[:DIGITS]}", code=code)


def _function_in(tree: ast.Module, path: Path, where: str) -> str:
    """The function of a file: the one named `backbone`, or else the only public one."""
    functions = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]
    if "backbone" in functions or len(functions) == 1:
        return "backbone" if "backbone" in functions else functions[0]
    raise UserError(
        f"{where}: {shown(path)} must hold a function backbone(input_shape) that returns an "
        f"nn.Module; to use another function, write {shown(path.name)}:NAME."
    )
