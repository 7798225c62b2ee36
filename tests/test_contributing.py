"""The ways to an own method in CONTRIBUTING.md work as they are written."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clbench import conformance
from clbench.reading import read_declaration
from clbench.registry import read_again

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
FILES = dict(re.findall(r"```(?:python|toml)\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))

pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated function")


Run = Callable[..., Any]


def _ran(clbench: Run, *words: str) -> str:
    result = clbench(*words)
    assert result.code == 0, result.err
    return str(result.out)


def _trained(clbench: Run, method: str) -> str:
    """What one quick run by the command line prints."""
    run = ("run", "--methods", method, "--epochs", "1", "--seeds", "0,", "--out", "results")
    return _ran(clbench, *run)


def test_from_scratch(clbench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _ran(clbench, "new", "method", "my-method")
    assert len(Path("my_method.py").read_text().splitlines()) <= 40
    output = _ran(clbench, "check", "./my_method.py")
    assert "FAIL" not in output
    assert "note" not in output
    assert "my-method" in _trained(clbench, "./my_method.py")


@pytest.mark.parametrize(
    ("file", "remark", "row"),
    [
        ("stock_replay.py", "ReplayPlugin: no memory()", "stock-replay  "),
        ("stock_lwf.py", "LwFPlugin: no memory()", "stock-lwf (loop=Avalanche,"),
    ],
)
def test_a_plugin_or_strategy_of_avalanche(
    clbench: Run, file: str, remark: str, row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(file).write_text(FILES[file])
    found = list(conformance.check(read_declaration(Path(file), "method")))
    assert [f.words for f in found if f.wrong] == []
    assert any(remark in f.words for f in found)
    assert row in _trained(clbench, f"./{file}")


def test_a_package(clbench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    for name in ("pyproject.toml", "my_baselines/shrink.py"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(FILES[name])
    (source / "my_baselines" / "__init__.py").touch()
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(site), str(source)], check=True, capture_output=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", str(site))
    read_again()
    try:
        assert "shrink" in _ran(clbench, "ls", "methods")
        assert "FAIL" not in _ran(clbench, "check", "shrink")
        assert "shrink" in _trained(clbench, "shrink")
    finally:
        read_again()
