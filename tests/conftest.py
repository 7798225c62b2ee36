"""What tests share: a small stream, files of methods and benchmarks, and the command line."""

import os
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TINY = '''
"""Some tasks of made-up 6x6 images, not easy enough to be told apart without a mistake."""

from typing import Literal

import numpy as np

from clbench.benchmark import Benchmark
from clbench.data import Images
from clbench.declare import PositiveInt
from clbench.stream import Source


class Tiny(Benchmark):
    """Made-up images."""

    title = "Tiny"
    protocol = {"lr": 0.1, "batch_size": 16, "epochs": 2}
    added = ("scenario",)
    tasks: PositiveInt = 3
    """number of tasks"""
    scenario: Literal["task", "class", "domain"] = "task"
    """what the labels are; in domain, all tasks are the same"""

    def sources(self, data, seed):
        rng = np.random.default_rng(7)
        patterns = rng.integers(0, 60, (2 * self.tasks, 1, 6, 6))

        def images(n):
            labels = np.arange(n * len(patterns)) % len(patterns)
            noise = rng.integers(0, 196, (len(labels), 1, 6, 6))
            return Images((patterns[labels] + noise).astype(np.uint8), labels.astype(np.int64))

        train, test = images(40), images(20)
        pairs = [(2 * k, 2 * k + 1) for k in range(self.tasks)]
        if self.scenario == "domain":
            pairs = [(0, 1)] * self.tasks
        return [Source(train, test, pair, (0.5,), (0.25,)) for pair in pairs]
'''

PLAIN = '''
from clbench import Method, Strategy, ordinary


class {name}(Method):
    """A method of a test's own."""

    title = "{name}"
    family = "reference"

    def build(self, stream):
        return Strategy(model=ordinary(stream), stream=stream)
'''


def pytest_configure(config: pytest.Config) -> None:
    # two test processes with two threads each on two cores are several times slower
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # raised while Avalanche is imported, by a package that one of its packages needs
    config.addinivalue_line("filterwarnings", "ignore:JAXopt is no longer:DeprecationWarning")


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session", autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test sees the user's folders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _as_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No id depends on what is not yet committed in the checkout that is tested."""
    from functools import cache

    from clbench import provenance

    monkeypatch.setattr(provenance, "changed_modules", cache(frozenset))


@pytest.fixture
def clbench(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Run `clbench WORDS` in this process; a single text is split as a shell would."""

    def run(*words: str) -> Result:
        from clbench.cli import main

        arguments = shlex.split(words[0]) if len(words) == 1 else list(words)
        monkeypatch.setattr(sys, "argv", ["clbench", *arguments])
        capfd.readouterr()
        code: Any = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        out, err = capfd.readouterr()
        return Result(code, out, err)

    return run


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """The file of a benchmark that needs no data and a moment to learn."""
    path = tmp_path / "tiny.py"
    path.write_text(TINY)
    return path


@pytest.fixture
def method_file(tmp_path: Path) -> Callable[..., Path]:
    """Write NAME.py with a method; without a text, one that trains plainly."""

    def write(name: str, text: str = PLAIN) -> Path:
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).replace("{name}", Path(name).stem.title()))
        return path

    return write


@pytest.fixture
def cell(tiny: Path) -> Callable[..., Any]:
    """One cell on the tiny benchmark, in the first scenario that the method declares."""

    def make(method: str = "finetune", seed: int = 0, benchmark: str = "", **overrides: Any) -> Any:
        from clbench.grid import chosen, make_grid

        declaration, _ = chosen("method", method)[0]
        scenario = next(iter(declaration.meta.get("scenarios", ())), "task")
        own = f"{tiny}[scenario={scenario}]" if scenario != "task" else str(tiny)
        return make_grid(method, benchmark or own, [seed], overrides)[0]

    return make


@pytest.fixture
def place(tmp_path: Path) -> Any:
    from clbench.store import Place

    return Place(tmp_path / "out", tmp_path / "no-data")


@pytest.fixture
def make_stream(cell: Callable[..., Any]) -> Callable[..., Any]:
    """A stream of the tiny benchmark."""

    def make(tasks: int = 3, seed: int = 0, benchmark: str = "", **overrides: Any) -> Any:
        import clbench.build

        made = cell("finetune", seed, benchmark, **overrides)
        if not benchmark:
            made.spec.benchmark_params["tasks"] = tasks
        return clbench.build.make_stream(made, {})

    return make
