"""A user's mistake is one sentence and exit code 2; nothing is trained and nothing is lost."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def files(
    tmp_path: Path, method_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder with what the wrong commands name, and a result that must not get lost."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "unknown.toml").write_text('seedz = 3\nout = "elsewhere"\n')
    (tmp_path / "broken.toml").write_text("seeds = = 3\n")
    (tmp_path / "table.toml").write_text("[methods]\nx = 1\n")
    (tmp_path / "zero.toml").write_text("seeds = 0\n")
    (tmp_path / "workers.toml").write_text("workers = 0\n")
    (tmp_path / "file").write_text("precious")
    (tmp_path / "empty").mkdir()
    method_file("ewc")
    method_file("syntax", "\n\ndef (:\n")
    method_file("nothing", "x = 1\n")
    method_file("importing", "import no_such_thing\nclass A(Method): title = 'A'\n")
    method_file("exiting", "raise SystemExit(0)\nclass A(Method): title = 'A'\n")
    method_file(
        "needs_mnist",
        """
        from clbench.benchmark import Benchmark

        class NeedsMnist(Benchmark):
            datasets = ("mnist",)
        """,
    )
    (tmp_path / "results" / "records").mkdir(parents=True)
    (tmp_path / "results" / "records" / "kept.json").write_text("whatever")
    return tmp_path


# command -> what the sentence must name: the flag or file, the value, and what to type instead
COMMANDS = {
    "run --methods ewcc": ["'ewcc'", "'ewc'"],
    "run --benchmarks split-mnist-5": ["'split-mnist-5'", "'split-mnist-5k'"],
    "run --methods 'ewc[strenght=5]'": ["'strenght'", "'strength'"],
    "run --methods 'ewc[strength=much]'": ["ewc", "strength=much", "0"],
    "run --methods 'ewc[strength=-1]'": ["ewc", "strength=-1", "0"],
    "run --methods 'er-res[per_class=2.5]'": ["er-res", "per_class=2.5", "whole number", "1"],
    "run --methods '*zzz*'": ["'*zzz*'"],
    "run --methods @memmory": ["@memmory", "'@memory'"],
    "run --methods ''": ["--methods", "clbench ls methods"],
    "run --methods ./nowhere.py": ["nowhere.py"],
    "run --methods ./syntax.py": ["syntax.py", "line 3"],
    "run --methods ./nothing.py": ["nothing.py", "Method"],
    "run --methods ./importing.py,finetune": ["importing.py", "no_such_thing"],
    "run --methods finetune,./exiting.py": ["exiting.py", "SystemExit"],
    "run --methods ./ewc.py": ["'ewc'", "ewc.py"],
    "run --benchmarks ./needs_mnist.py --data-root empty": ["MNIST", "empty", "--data-root"],
    "run --device no-such-device": ["--device no-such-device"],
    "run --seeds 0": ["--seeds '0'"],
    "run --seeds -1": ["--seeds '-1'"],
    "run --seeds few": ["--seeds 'few'"],
    "run --seeds ,": ["--seeds ','"],
    "run --workers 0": ["'--workers'"],
    "run --workers many": ["'--workers'", "many"],
    "run --threads 0": ["'--threads'"],
    "run --epochs 0": ["--epochs", "epochs=0", "1"],
    "run --epochs few": ["--epochs", "epochs=few"],
    "run --lr 0": ["--lr", "lr=0.0"],
    "run --lr nan": ["--lr", "lr=nan"],
    "run --valid 1.5": ["--valid", "valid=1.5", "0", "1"],
    "run --rerun never": ["'--rerun'", "never", "failed"],
    "run --config unknown.toml": ["unknown.toml", "'seedz'", "'seeds'"],
    "run --config broken.toml": ["broken.toml", "TOML"],
    "run --config nowhere.toml": ["--config nowhere.toml"],
    "run --config table.toml": ["table.toml", "methods", "list"],
    "run --config zero.toml": ["--seeds '0'"],
    "run --config workers.toml": ["'--workers'"],
    "run --out file": ["--out file"],
    "run --out file/below": ["--out file/below"],
    "run --method ewc": ["--method", "--methods"],
    "rnu": ["'rnu'", "'run'"],
    "ls method": ["'method'", "methods"],
    "ls results --out nowhere": ["nowhere"],
    "status --out nowhere": ["nowhere", "--out"],
    "report --out empty": ["empty"],
    "show ewcc": ["'ewcc'"],
    "show abc123": ["'abc123'", "clbench ls results"],
    "show ./nothing.py": ["nothing.py"],
    "check ewcc": ["'ewcc'", "'ewc'"],
    "check 'ewc[strength=1]'": ["check"],
    "check @all": ["check"],
    "new method Bad!": ["Bad!"],
    "new method ewc": ["'ewc'"],
    "new method strategy": ["'strategy'"],
    "new method nothing": ["nothing.py"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistake_is_a_sentence_and_exit_code_2(
    files: Path, clbench: Callable[..., Any], command: str
) -> None:
    before = {p: p.read_bytes() for p in files.rglob("*") if p.is_file()}
    result = clbench(command)
    assert result.code == 2
    said = " ".join(result.err.split())
    for fact in COMMANDS[command]:
        assert fact in said, fact
    assert "Traceback" not in result.err
    assert result.out == ""
    after = {p: p.read_bytes() for p in files.rglob("*") if p.is_file()}
    assert after == before


def test_a_folder_that_cannot_be_written_is_refused(
    files: Path, clbench: Callable[..., Any]
) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    (files / "empty").chmod(0o555)
    result = clbench("run --out empty")
    assert result.code == 2
    assert "--out empty" in result.err


def test_a_file_that_does_not_import_costs_no_result(
    files: Path, method_file: Callable[..., Path], tiny: Path, clbench: Callable[..., Any]
) -> None:
    """Even with --rerun all: a record is replaced only when training can begin."""
    method_file("mine")
    command = "run --methods ./mine.py --benchmarks ./tiny.py --out out --rerun all"
    assert clbench(command).code == 0
    [record] = (files / "out" / "records").iterdir()
    before = record.read_bytes()
    (files / "mine.py").write_text("import no_such_thing\n" + (files / "mine.py").read_text())
    result = clbench(command)
    assert (result.code, record.read_bytes()) == (2, before)
