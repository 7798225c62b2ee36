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


COMMANDS = {
    "run --methods ewcc": "Unknown method 'ewcc'. Did you mean 'ewc'",
    "run --benchmarks split-mnist-5": "Did you mean 'split-mnist-5k'",
    "run --methods 'ewc[strenght=5]'": "Did you mean 'strength'",
    "run --methods 'ewc[strength=much]'": "ewc: strength=much is not a number of at least 0",
    "run --methods 'ewc[strength=-1]'": "is not a number of at least 0",
    "run --methods 'er-res[per_class=2.5]'": "is not a whole number of at least 1",
    "run --methods '*zzz*'": "No method matches '*zzz*'",
    "run --methods @memmory": "Did you mean '@memory'",
    "run --methods ''": "--methods names nothing",
    "run --methods ./nowhere.py": "There is no file nowhere.py",
    "run --methods ./syntax.py": "syntax.py is not valid Python: line 3",
    "run --methods ./nothing.py": "one class derived from Method; found none",
    "run --methods ./importing.py,finetune": "importing.py does not import: ModuleNotFoundError",
    "run --methods finetune,./exiting.py": "exiting.py does not import: SystemExit",
    "run --methods ./ewc.py": "Two methods are named 'ewc'",
    "run --benchmarks ./needs_mnist.py --data-root empty": "MNIST is not in the data root empty",
    "run --seeds 0": "--seeds '0'",
    "run --seeds -1": "--seeds '-1'",
    "run --seeds few": "--seeds 'few'",
    "run --seeds ,": "--seeds ','",
    "run --workers 0": "Invalid value for '--workers'",
    "run --workers many": "Invalid value for '--workers'",
    "run --threads 0": "Invalid value for '--threads'",
    "run --epochs 0": "--epochs: epochs=0 is not a whole number of at least 1",
    "run --epochs few": "--epochs: epochs=few is not a whole number",
    "run --lr 0": "--lr: lr=0.0 is not a number above 0",
    "run --lr nan": "--lr: lr=nan is not a number above 0",
    "run --valid 1.5": "--valid: valid=1.5 is not a number of at least 0 and at most 1",
    "run --rerun never": "Invalid value for '--rerun'",
    "run --config unknown.toml": "Unknown key in unknown.toml: 'seedz'. Did you mean 'seeds'",
    "run --config broken.toml": "broken.toml is not valid TOML",
    "run --config nowhere.toml": "--config nowhere.toml: No such file",
    "run --config table.toml": "methods must be a value or a list, not a table",
    "run --config zero.toml": "--seeds '0'",
    "run --config workers.toml": "Invalid value for '--workers'",
    "run --out file": "--out file is a file; name a folder",
    "run --out file/below": "--out file/below cannot be written to",
    "run --method ewc": "No such option",
    "rnu": "No command 'rnu'. Did you mean 'run'",
    "ls method": "Invalid value",
    "ls results --out nowhere": "There is no folder nowhere",
    "status --out nowhere": "There is no folder nowhere",
    "report --out empty": "No records in empty",
    "show ewcc": "'ewcc' is no method, no benchmark and no run",
    "show abc123": "No run in results with an id that starts with 'abc123'",
    "show ./nothing.py": "found none",
    "check ewcc": "Did you mean 'ewc'",
    "check 'ewc[strength=1]'": "check takes one method without parameters",
    "check @all": "check takes one method without parameters",
    "new method Bad!": "cannot be a method's name",
    "new method ewc": "The name 'ewc' is taken",
    "new method strategy": "The name 'strategy' is taken",
    "new method nothing": "nothing.py exists",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistake_is_a_sentence_and_exit_code_2(
    files: Path, clbench: Callable[..., Any], command: str
) -> None:
    before = {p: p.read_bytes() for p in files.rglob("*") if p.is_file()}
    result = clbench(command)
    assert result.code == 2
    assert COMMANDS[command] in " ".join(result.err.split())
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
    assert "--out empty cannot be written to: Permission denied" in result.err


def test_a_file_that_does_not_import_costs_no_result(
    files: Path, method_file: Callable[..., Path], tiny: Path, clbench: Callable[..., Any]
) -> None:
    """Even with --rerun all: what would be replaced is replaced only when training can begin."""
    method_file("mine")
    command = "run --methods ./mine.py --benchmarks ./tiny.py --out out --rerun all"
    assert clbench(command).code == 0
    [record] = (files / "out" / "records").iterdir()
    before = record.read_bytes()
    (files / "mine.py").write_text("import no_such_thing\n" + (files / "mine.py").read_text())
    result = clbench(command)
    assert (result.code, record.read_bytes()) == (2, before)
