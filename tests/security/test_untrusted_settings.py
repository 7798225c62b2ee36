"""A stranger's study, configuration or folder runs no code, and a bad value is a sentence."""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clbench
from clbench.cli.figure import _source
from clbench.errors import UserError
from clbench.grid import seed_list
from clbench.registry import import_class, select, split_list
from clbench.study import find_study

WORKER = """
import operator, sys
sys.path[:0] = {before!r}
import {module}
from clbench.executors.processes import start
process, pipe = start({module}.answer)
print(pipe.recv())
"""
LIBRARY = ("selectors", "signal", "socket", "struct", "threading", "traceback", "tempfile", "queue")


def in_a_worker(folder: Path, script: str, here: Path) -> str:
    """What a worker answers to the script `folder`/script.py, started in the folder `here`."""
    (folder / "script.py").write_text(script)
    (folder / "torch.py").write_text("raise ImportError")  # the fork server starts sooner
    done = subprocess.run(
        [sys.executable, str(folder / "script.py")], cwd=here, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_helper_processes_import_nothing_from_the_current_folder(tmp_path: Path) -> None:
    """The script's own folder stays importable in workers, as in the driver."""
    (here := tmp_path / "here").mkdir()
    (mine := tmp_path / "mine").mkdir()
    proof = tmp_path / "ran"
    for name in (*LIBRARY, "clbench", "torch"):
        (here / f"{name}.py").write_text(f"open({str(proof)!r}, 'w').write({name!r})\n")
    (mine / "neighbour.py").write_text("def answer(pipe): pipe.send(42)\n")
    assert in_a_worker(mine, WORKER.format(before=[], module="neighbour"), here) == "42"
    assert not proof.exists(), proof.read_text()


def test_workers_have_the_clbench_of_their_driver(tmp_path: Path) -> None:
    """As with `python -m clbench` in a checkout, which is not the clbench that is installed."""
    (checkout := tmp_path / "checkout").mkdir()
    os.symlink(Path(clbench.__file__).parent, checkout / "clbench")
    text = "def answer(pipe):\n    import clbench\n    pipe.send(clbench.__file__)\n"
    (checkout / "neighbour.py").write_text(text)
    answer = in_a_worker(
        tmp_path, WORKER.format(before=[str(checkout)], module="neighbour"), tmp_path
    )
    assert Path(answer).parent.parent == checkout


LONG = "x" * 300
STUDY = 'title = "T"\n{0}\n[[grid]]\nmethods = "ewc"\nbenchmarks = "split-mnist-5k"\n'
FILES = {
    "sizes": 'title = "T"\nsizes = "./evil.py"',
    "methods": STUDY.format("").replace('"ewc"', '"ewc, ./evil.py[a=1]"'),
    "benchmarks": STUDY.format("").replace('"split-mnist-5k"', '"evil.py"'),
    "figure": STUDY.format('figure = "./evil.py"'),
    "columns": STUDY.format('columns = ["./evil.py"]'),
    "small": STUDY.format("") + '[small]\nepochs = "./evil.py"',
}


@pytest.fixture
def evil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that exists once evil.py, a benchmark, was executed."""
    proof = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(
        f"from pathlib import Path\nPath({str(proof)!r}).touch()\n"
        "from clbench.benchmark import Benchmark\nclass Evil(Benchmark):\n    datasets = ()\n"
    )
    monkeypatch.chdir(tmp_path)
    return proof


@pytest.mark.parametrize("key", FILES)
@pytest.mark.parametrize("flag", ["", "--dry-run"])
def test_no_key_of_a_study_runs_a_file(
    clbench: Callable[..., Any], evil: Path, key: str, flag: str
) -> None:
    Path("study.toml").write_text(FILES[key])
    result = clbench(f"study study.toml {flag}")
    assert result.code == 2
    assert f"study.toml: {'grid' if key in ('methods', 'benchmarks') else key}" in result.err
    assert "--allow-files" in result.err
    assert not evil.exists()


def test_a_file_is_executed_if_that_is_allowed(evil: Path) -> None:
    Path("study.toml").write_text(FILES["sizes"])
    [(declaration, _)] = select("benchmark", find_study("study.toml", files=True).sizes)
    import_class(declaration)
    assert evil.exists()


def flags() -> list[str]:
    from clbench.cli.run import command

    return [str(option.opts[0]) for option in command.params if option.name != "config"]


@pytest.mark.parametrize("flag", flags())
def test_no_key_of_a_configuration_runs_a_file(
    clbench: Callable[..., Any], evil: Path, flag: str
) -> None:
    """Deny by default: a flag that comes later is behind the same gate."""
    Path("config.toml").write_text(f'{flag.removeprefix("--")} = ["x", "./evil.py"]\n')
    result = clbench("run --config config.toml --dry-run")
    if flag not in ("--out", "--data-root"):
        assert result.code == 2
        assert flag in result.err
    assert not evil.exists()


SENTENCES = {
    "run --methods ~nouser/x.py": "~nouser",
    f"run --methods ./{LONG}.py": "too long",
    f"run --out {LONG}": "--out",
    f"report --out {LONG}": "--out",
    f"ls results --out {LONG}/a": "--out",
    "run --data-root ~nouser": "~nouser",
    f"run --config {LONG}.toml": "--config",
    f"study {LONG}.toml": LONG,
    f"show {LONG}.py": "too long",
    f"new method {LONG}": "too long",
    f"compare {LONG} ewc": "no finished run",
    f"compare ewc {LONG}": "no finished run",
    "run --seeds 20240101": "`--seeds 20240101,`",
    "run --seeds 99999999999999999999,": "--seeds",
    "run --memory-per-run nan": "--memory-per-run",
    "run --memory-per-run inf": "--memory-per-run",
    "run --threads 10000000000000": "--threads",
    "run --threads 2000": "--threads",
    "run --benchmarks permuted-mnist[tasks=1000000000]": "tasks=1000000000",
    "run --batch-size 99999999999999999999": "--batch-size",
    "run --methods @all --seeds 10000": "100,000",
    "run --methods finetune[x=1": "finetune[x=1",
    "run --config nul.toml": "nul.toml",
    "run --config huge.toml": "huge.toml",
    "run --config hex.toml": "hex.toml",
    "run --config nested.toml": "nested.toml",
    "run --config deep.toml": "deep.toml",
    "run --config seeds.toml": "--seeds",
    "study seeds.study.toml": "10000",
    "study small.study.toml": "small",
    "study tasks.study.toml": "small.tasks",
    "study nested.study.toml": "nested.study.toml",
}


@pytest.mark.parametrize("command", SENTENCES, ids=lambda command: command[:40])
def test_an_absurd_value_is_a_sentence(
    clbench: Callable[..., Any], evil: Path, command: str
) -> None:
    for name, text in {
        "nul": 'out = "a\\u0000b"',
        "huge": "seeds = 1" + "0" * 6000,
        "hex": "seeds = 0x" + "f" * 6000,
        "nested": 'methods = [["ewc"]]',
        "deep": "methods = " + "[" * 3000 + "]" * 3000,
        "seeds": "seeds = 1000000000",
        "seeds.study": STUDY.format("seeds = 1000000000"),
        "small.study": STUDY.format("") + "[small]\nepochs = 0x" + "f" * 6000,
        "tasks.study": STUDY.format("") + "[small]\ntasks = 1000000000",
        "nested.study": STUDY.format('columns = [["acc"]]'),
    }.items():
        Path(f"{name}.toml").write_text(text)
    result = clbench(*command.split())
    assert result.code == 2
    assert SENTENCES[command] in result.err
    assert result.err.count("\n") <= 4
    assert not result.out


def test_a_study_of_many_grids_is_bounded(evil: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clbench.grid.MOST_CELLS", 100)
    grid = STUDY.partition("\n[[")[2]
    Path("many.toml").write_text(STUDY.format("seeds = 30") + 3 * f"[[{grid}")
    with pytest.raises(UserError, match="120 runs"):
        find_study("many.toml").cells("paper")


def test_the_python_interface_has_the_same_bounds() -> None:
    for seeds in (20240101, itertools.count()):
        with pytest.raises(UserError, match="10,000 seeds"):
            clbench.run("finetune", seeds=seeds, progress=False)
    with pytest.raises(UserError, match="threads"):
        clbench.run("finetune", threads=10**13, progress=False)
    for bad in (
        {"memory_per_run": float("nan")},
        {"memory_per_run": float("inf")},
        {"memory_per_run": "8"},
        {"workers": 0},
        {"time_limit": -1},
        {"gpus_per_run": 10**20},
        {"partition": "main\ntouch pwned"},
        {"out": "a\0b"},
        {"out": "a" * 300},
        {"data_root": "a\0b"},
        {"data_root": "~nouser"},
    ):
        with pytest.raises(UserError, match=f"{next(iter(bad))}|no such user"):
            clbench.run("finetune", progress=False, **bad)
    for path in ("a\0b", "a" * 300):
        with pytest.raises(UserError, match="a"):
            clbench.load(path)


def test_a_file_of_an_unknown_user_is_a_sentence_in_figures() -> None:
    with pytest.raises(UserError, match="no such user"):
        _source("results", None, None, "~nouser/ewc.py")


def test_a_long_list_is_split_in_linear_time() -> None:
    """The old pattern would take many minutes."""
    many = ",".join(f"ewc[strength={n}]" for n in range(100_000))
    assert len(split_list(many)) == 100_000
    assert len(split_list("," * 10**6)) == 0
    assert len(split_list("a,[" * 10**5)) == 2


def test_a_full_device_and_a_closed_pipe_have_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "clbench", "ls", "methods"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No space left" in done.stderr
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_deleted_folder_is_a_sentence(
    clbench: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    result = clbench("run", "--out", str(tmp_path / "out"))
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert "cd" in result.err


def test_seeds_are_counted_before_repeats_are_dropped() -> None:
    with pytest.raises(UserError, match="10,000 seeds"):
        seed_list([0] * 10_001 + [1], "seeds")


@pytest.mark.parametrize(
    "words", ["show ./{}.py", "run --methods {} --dry-run", "study ./{}.toml", "report --out {}"]
)
def test_a_message_neither_steers_the_terminal_nor_floods_it(
    clbench: Callable[..., Any], words: str
) -> None:
    for text in ("a\u202e\x07", "[" * 100_000):
        result = clbench(*words.format(text).split(" "))
        assert result.code == 2
        assert result.err.replace("\n", "").isprintable()
        assert len(result.err) < 25_000


def test_a_text_of_a_configuration_is_bounded(
    tmp_path: Path, clbench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parser of the command line would print a wrong value whole."""
    monkeypatch.chdir(tmp_path)
    Path("c.toml").write_text(f'rerun = "{"y" * 200_000}"')
    result = clbench("run --methods finetune --config c.toml --dry-run")
    assert result.code == 2
    assert "has more than" in result.err
    assert len(result.err) < 1000
