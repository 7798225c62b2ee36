"""A method given as a class: from a file, a script, a notebook's cells, and with no source."""

import importlib
import linecache
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clbench.benchmark import Benchmark
from clbench.errors import UserError
from clbench.notebook import declaration_of
from clbench.registry import declarations, import_class
from clbench.resolve import make_cell

PLUGIN = """
from avalanche.training.plugins import SupervisedPlugin
from clbench import Method, PositiveInt, Strategy, ordinary

FACTOR = 2.0
unused = 1

def twice(x):
    return FACTOR * x

class Doubling(SupervisedPlugin):
    def before_backward(self, strategy, **kwargs):
        strategy.loss = twice(strategy.loss)
"""
METHOD = '''
class Base(Method):
    """Doubles the loss."""
    title = "Doubling"
    n: PositiveInt = 3
    """a number"""

    def build(self, stream):
        return Strategy(model=ordinary(stream), stream=stream, plugins=[Doubling()])

class MyMethod(Base):
    n: PositiveInt = 5
'''


def check(d: Any) -> None:
    assert (d.kind, d.name, d.class_name) == ("method", "my-method", "MyMethod")
    assert d.title == "Doubling"
    assert d.defaults == {"n": 5}
    assert d.doc == "Doubles the loss."
    for part in ("class MyMethod", "class Base", "class Doubling", "def twice", "FACTOR = 2.0"):
        assert d.source.count(part) == 1
    assert "unused" not in d.source


@pytest.fixture
def notebook() -> Iterator[Callable[..., dict[str, Any]]]:
    """Run cells as IPython does: `exec` of code whose text is in linecache."""
    added = []

    def run(*cells: str, registered: bool = True) -> dict[str, Any]:
        names: dict[str, Any] = {"__name__": "__main__"}
        for i, cell in enumerate(cells):
            file = f"<cell {len(added)}.{i}>"
            if registered:
                linecache.cache[file] = (len(cell), None, cell.splitlines(keepends=True), file)
                added.append(file)
            exec(compile(cell, file, "exec"), names)
        return names

    yield run
    for file in added:
        linecache.cache.pop(file, None)


def test_a_class_from_a_notebook(notebook: Callable[..., dict[str, Any]]) -> None:
    declaration = declaration_of(notebook(PLUGIN, METHOD)["MyMethod"])
    check(declaration)
    assert declaration.module == ""
    cls = import_class(pickle.loads(pickle.dumps(declaration)))
    assert (cls.__name__, cls().n, cls.title) == ("MyMethod", 5, "Doubling")


def test_the_hash_follows_what_the_class_uses(notebook: Callable[..., dict[str, Any]]) -> None:
    def source(plugin: str) -> str:
        d = declaration_of(notebook(plugin, METHOD)["MyMethod"])
        benchmark = declarations("benchmark")["split-mnist-5k"]
        return str(make_cell(d, {}, benchmark, {}, 0, {}).versioned().method.source)

    assert source(PLUGIN) == source(PLUGIN) == source(PLUGIN.replace("unused = 1", "unused = 2"))
    assert source(PLUGIN) != source(PLUGIN.replace("FACTOR = 2.0", "FACTOR = 3.0"))
    assert source(PLUGIN) != source(PLUGIN.replace("FACTOR * x", "x * FACTOR"))


def test_a_class_without_a_line_of_code_of_its_own(
    notebook: Callable[..., dict[str, Any]],
) -> None:
    cell = "from clbench.methods.ewc import EWC\nclass Strong(EWC):\n    strength: float = 9.0\n"
    declaration = declaration_of(notebook(cell)["Strong"])
    assert (declaration.name, declaration.defaults) == ("strong", {"strength": 9.0})
    assert import_class(declaration)().strength == 9.0


SCRIPT = """
if __name__ == "__main__":
    import pickle, sys
    from clbench.notebook import declaration_of
    pickle.dump(declaration_of(MyMethod), open(sys.argv[1], "wb"))
"""


def test_a_class_of_a_script_reaches_another_process(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(PLUGIN + METHOD + SCRIPT)
    subprocess.run([sys.executable, tmp_path / "script.py", tmp_path / "made"], check=True)
    declaration = pickle.loads((tmp_path / "made").read_bytes())
    check(declaration)
    import clbench

    strategy = import_class(declaration)(n=7).build(clbench.open_stream("split-mnist-5k", epochs=1))
    assert "Doubling" in [type(p).__name__ for p in strategy.plugins]
    assert len(strategy.learn(0)) == 1


@pytest.mark.parametrize("module", ["own_methods", "own_package.own_methods"])
def test_a_class_of_a_file_is_read_from_the_file(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"{module.replace('.', '/')}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(PLUGIN + METHOD)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    declaration = declaration_of(importlib.import_module(module).MyMethod)
    assert (declaration.name, declaration.path) == ("my-method", path)
    assert (declaration.defaults, declaration.payload) == ({"n": 5}, b"")
    assert declaration.digest
    assert import_class(declaration)().n == 5


def test_an_installed_class_is_the_installed_declaration() -> None:
    for name in ("ewc", "er-res"):
        declaration = declarations("method")[name]
        assert declaration_of(import_class(declaration)) is declaration


def test_a_benchmark_class_too() -> None:
    class Mine(Benchmark):
        title = "Mine"
        tasks: int = 3

    declaration = declaration_of(Mine)
    assert (declaration.kind, declaration.name, declaration.defaults) == (
        "benchmark", "mine", {"tasks": 3}
    )  # fmt: skip


def test_what_cannot_be_declared_is_refused_in_words(
    notebook: Callable[..., dict[str, Any]],
) -> None:
    with pytest.raises(UserError, match=r"source of MyMethod is not available.*\.py"):
        declaration_of(notebook(PLUGIN + METHOD, registered=False)["MyMethod"])
    taken = METHOD.replace("MyMethod", "EWC")
    with pytest.raises(UserError, match=r"named 'ewc'.*name ="):
        declaration_of(notebook(PLUGIN + taken)["EWC"])
    with pytest.raises(UserError, match=r"derived from clbench\.Method"):
        declaration_of(Path)
    locked = "import threading\nLOCK = threading.Lock()\n" + METHOD
    locked += "    def refuses(self, stream):\n        return str(LOCK)\n"
    with pytest.raises(UserError, match=r"MyMethod cannot be sent.*\.py"):
        declaration_of(notebook(PLUGIN + locked)["MyMethod"])
