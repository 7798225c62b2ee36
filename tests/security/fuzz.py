"""Damaged and hostile files for everything that clbench reads but data: each becomes a result or a
sentence, with no traceback, in bounded time and memory, and with nothing written elsewhere.

    python tests/security --seconds 600

A case is made from its kind, seed and number alone. Its child process has GIGABYTE more memory than
it starts with, SECONDS of processor time for each case, and an audit hook that knows what is
opened, made, removed, started and connected.
"""

import contextlib
import copy
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

GIGABYTE = 10**9
SECONDS = 10
LONGEST = 200_000
"""Characters that one command may print about one small file."""

WORDS = (
    "1e999", "-1", "0", "NaN", "-Infinity", "9" * 5000, str(2**63), str(2**64), "1e308", "5e-324",
    "true", "null", "[]", "{}", '""',
    '"\\ud800"', '"\\u202e\\u0000\\u001b[2J"', '"' + "x" * 5000 + '"',
    "[" * 3000, "{" * 3000, '{"a":' * 500, "-" * 3000 + "1", "(" * 300, "a." * 3000 + "a = 1\n",
    "inf", "nan", "1979-05-27", "0x7fffffffffffffffff", "'''", '"""', "\\", "#", "\n", "\r", "\0",
    "../../x", "/etc/passwd", "./evil.py", "*", "@all", "~nobody/x", "ewc[strength=1e999]",
    "a" * 300, "ewc," * 500, "1000000000", "lambda: 0", "__import__('os').mkdir('executed')",
    "class A(A): pass\n", "from .subject import *\n", "from . import subject\n", "Literal[foo]",
)  # fmt: skip
TYPES = (
    "Literal[foo]",
    "Literal[()]",
    "Literal[[]]",
    "Literal[1, 'a']",
    "Literal[None]",
    "int | str",
    "list[int]",
    "'int'",
    "a.b.c",
    "None",
    "1",
    "lambda: 0",
    "ClassVar[int]",
    "Optional[int]",
    "None | int",
    "int | None | None",
    "PositiveInt",
    "Fraction | None",
    "Literal['a'] | None",
    "x" + ".x" * 900,
    "int" + " | None" * 900,
    "*int",
)
EXPRESSIONS = (
    "1e999",
    "-1",
    "1 + 1",
    "foo",
    "None",
    "...",
    "b'x'",
    "[[1]]",
    "{1: 2}",
    "{'*': 3}",
    "{'a': [1]}",
    "()",
    "{'split-mnist-5k': 3}",
    "{'split-mnist-5k': {'strength': 'x'}}",
    "{'n': 3}",
    "{'n': {'title': 3}}",
    "{**a}",
    "{(1, 2): {}}",
    "{[]: 1}",
    "{{}: 1}",
    "'\\u202e\\x1b[2J'",
    "'\\ud800'",
    "'a' * 10**9",
    "9" * 5000,
    "- " * 3000 + "1",
    "[" * 90 + "]" * 90,
    "(" * 150 + ")" * 150,
    "1" + " + 1" * 3000,
    "1" + "+1j",
    "'" + "x" * 5000 + "'",
    "f'{x}'",
    "lambda: 0",
    "(yield)",
    "__import__('os').mkdir('executed')",
    "True",
    "{'lr': 'x'}",
    "{'nothing': 1}",
    "1.5",
    "(1,)",
)
BYTES = (b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\x1b]0;x\x07", b"\xe2\x80\xae")

RECORD = {
    "schema": 2, "status": "done", "tasks": 2, "done": 2, "family": "memory", "replay_size": "k",
    "spec": {
        "benchmark": {"name": "split-mnist-5k", "params": {"tasks": 2}, "version": 1},
        "method": {"name": "ewc", "params": {"strength": 5.0, "k": 3}, "version": 1},
        "protocol": {"lr": 0.05, "epochs": 2}, "seed": 0, "threads": 1, "device": "cpu",
    },
    "differs": {"benchmark": {}, "method": {"strength": 5.0}, "protocol": {"epochs": 2}},
    "titles": {"benchmark": "5-Split MNIST", "method": "EWC"},
    "R": [[95.0, 60.0], [85.0, 80.0]], "R0": [50.0, 48.0], "valid": [85.0, 80.0],
    "lays_open": {
        "n": {"title": "N", "kind": "number", "below": 2.0, "warning": "it is {value:.2f}"},
        "l": {"title": "L", "kind": "layers", "unit": "%"}, "w": {"title": "W", "kind": "without"},
        "s": {"title": "S", "kind": "spaces", "names": ["S", "P"]},
    },
    "diagnostics": [{"n": 1.5, "l": [1, 2.5], "w": {"1": {"nothing": 90.0, "part": 80.0}}}] * 2,
    "curve": [
        {"task": t, "epoch": 1, "lr": 0.1, "loss": 1.0, "valid_loss": 1.0, "valid_accuracy": 70.0,
         "samples": 100, "seconds": 1.0} for t in (1, 2)
    ],
    "memory": {"architecture": 1000, "replay": 10, "auxiliary": 0}, "peak_memory": 10**8,
    "seconds": {"total": 4.0, "train": [1.9, 1.9], "eval": [0.1, 0.1], "parts": {"data": 1.0}},
    "data": {"mnist-5k": {"sha256": "ab" * 32, "note": "a part"}},
    "provenance": {"versions": {"torch": "2.4"}, "host": "h", "cpu": "c", "cores": 2, "argv": ["x"],
                   "platform": "p", "git": {"commit": "c" * 40, "dirty": False}},
    "started": "2026-01-01", "finished": "2026-01-02",
    "failure": {"error": "E", "traceback": "Traceback\n  line"},
}  # fmt: skip
STUDY = """
title = "A study"
seeds = 2
columns = ["forgetting", "fwt"]
figure = "matrix"
caption = "About it."
[[grid]]
methods = "ewc[strength=500],finetune,@memory"
benchmarks = "split-mnist-5k[tasks=3]"
[small]
seeds = 1
epochs = 2
lr = 0.1
tasks = 2
"""
CONFIG = """
methods = ["ewc", "finetune"]
benchmarks = "split-mnist-5k"
seeds = 2
epochs = 3
lr = 0.1
out = "made"
[executor]
name = "local"
workers = 1
"""
METHOD = '''
"""A method."""

import os
from typing import Literal

from clbench import Method, Strategy, ordinary

os.mkdir("executed")


class Mine(Method):
    """What it does."""

    title = "Mine"
    family = "memory"
    version = 2
    zero_forgetting = False
    replay_size = "kept"
    protocol = {"lr": 0.1}
    fixed = {"lr": "because"}
    tuned = {"split-mnist-5k": {"strength": 3.0, "lr": 0.2}}
    presets = {"a": {"*": {"strength": 4.0}}}
    lays_open = {"n": {"title": "N", "kind": "number", "below": 2.0, "warning": "{value}"}}
    backbones = ("mlp",)

    preset: Literal["a", "b"] = "a"
    strength: float = 1.0
    """weight of it"""
    kept: int | None = 3
    on: bool = True

    def build(self, stream):
        return Strategy(model=ordinary(stream), stream=stream)
'''


def damaged(content: bytes, chance: random.Random) -> bytes:
    """One to four changes: bits, pieces, numbers, words."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at = chance.randrange(len(content) + 1)
        end = min(len(content), at + chance.choice((1, 4, 40, 400)))
        piece = chance.choice(BYTES) if chance.random() < 0.2 else chance.choice(WORDS).encode()
        tokens = list(re.finditer(rb'"[^"\n]*"|[-\d.]+|\w+', content[:200_000]))
        match chance.randrange(8):
            case 0:
                content = content[:at]
            case 1:
                content = content[:at] + content[end:]
            case 2:
                content = content[:at] + content[at:end] * 2 + content[end:]
            case 3:
                content = content[:at] + piece + content[at:]
            case 4 if at < len(content):
                content = content[:at] + bytes([chance.randrange(256)]) + content[at + 1 :]
            case _ if tokens:
                token = chance.choice(tokens)
                other = piece if chance.random() < 0.8 else chance.choice(tokens)[0]
                content = content[: token.start()] + other + content[token.end() :]
    return content


def changed(tree: Any, chance: random.Random) -> Any:
    """A JSON value with one of its parts replaced, removed, renamed or repeated."""
    places = list(_places(tree))
    parent, key = chance.choice(places)
    match chance.randrange(6):
        case 0:
            del parent[key]
        case 1 if isinstance(parent, dict):
            parent[str(chance.choice(WORDS))] = parent.pop(key)
        case 2 if isinstance(parent, list):
            parent.extend([parent[key]] * chance.choice((1, 2, 1001, 5000)))
        case 3:
            other, there = chance.choice(places)
            parent[key] = copy.deepcopy(other[there])
        case _:
            numbers = (-1, 0, 5e-324, 1e10, 1e100, 1e101, 1e308, 2**53, 2**63, 10**30, 100.1, True)
            texts = (
                "",
                "\u202e\x00\x1b[2J",
                "x" * 300,
                "y" * 4000,
                "=1+1",
                "..",
                "</script>",
                "é" * 9,
            )
            others = (None, [], {}, [[]], {"a": {}}, *WORDS)
            parent[key] = chance.choice(chance.choice((numbers, texts, others)))
    return tree


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from _places(tree[key])


def said(*words: str) -> str:
    """What a command prints, in this process; anything but a sentence and an exit code raises."""
    import click

    from clbench.cli import cli
    from clbench.errors import UserError

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            cli.main(args=list(words), prog_name="clbench", standalone_mode=False)
        except (UserError, click.ClickException) as error:
            out.write(error.message if isinstance(error, click.ClickException) else str(error))
        except (SystemExit, click.exceptions.Exit):
            pass
    return out.getvalue()


def record(chance: random.Random, folder: Path) -> None:
    """Records: two or three in a folder, by every command that reads them."""
    from clbench.record_file import DamagedRecordError, parse

    records = folder / "out" / "records"
    records.mkdir(parents=True)
    run_id, whole = "", 0
    for seed in range(chance.choice((2, 3))):
        run_id = f"{seed:012x}"
        tree = json.loads(json.dumps(RECORD | {"id": run_id}))
        tree["spec"]["seed"] = seed
        for _ in range(chance.choice((0, 1, 1, 2))):
            tree = changed(tree, chance)
        content = json.dumps(tree).encode()
        content = damaged(content, chance) if chance.random() < 0.4 else content
        if chance.random() < 0.05:
            content = content.decode("utf-8", "replace").encode("utf-16")
        (records / f"{run_id}.json").write_bytes(content)
        with contextlib.suppress(DamagedRecordError):
            parse(content, run_id)
            whole += 1
    words = [
        "status",
        "ls results",
        f"show {run_id}",
        "report --columns all --vs-paper",
        "compare ewc ewc",
    ]
    if whole:
        words.append(
            f"figure {chance.choice(('matrix', 'memory', 'capacity', 'replay'))} --format svg"
        )
    words.append(f"run --methods ewc --benchmarks split-mnist-5k --seeds {run_id[-1]}, --dry-run")
    for line in words:
        text = said(*line.split(), "--out", str(folder / "out"))
        expect(all(c.isprintable() or c == "\n" for c in text), f"{line} prints {text[:500]!r}")
        expect(len(text) < LONGEST, f"{line} prints {len(text)} characters")


def toml(chance: random.Random, folder: Path) -> None:
    """Studies and configurations, as far as a dry run goes."""
    name, text = chance.choice((("study", STUDY), ("config", CONFIG)))
    if chance.random() < 0.6:
        content = changed(tomllib.loads(text), chance)
        text = "".join(f"{json.dumps(key)} = {_toml(value)}\n" for key, value in content.items())
    content = text.encode("utf-8", "replace")
    (folder / "mine.toml").write_bytes(
        damaged(content, chance) if chance.random() < 0.5 else content
    )
    (folder / "evil.py").write_text(METHOD)
    words = ["study", "./mine.toml"] if name == "study" else ["run", "--config", "mine.toml"]
    if name == "study" and chance.random() < 0.5:
        words += ["--budget", "small"]
    out = [] if name == "config" else ["--out", "made"]
    text = said(*words, *out, "--dry-run")
    expect(all(c.isprintable() or c in "\n" for c in text), f"it prints {text[:500]!r}")
    expect(len(text) < LONGEST, f"it prints {len(text)} characters")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(k)} = {_toml(v)}' for k, v in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return "''" if value is None else json.dumps(value)


def method(chance: random.Random, folder: Path) -> None:
    """Files of methods, read without being executed."""
    path = folder / "subject.py"
    lines = METHOD.splitlines()
    for _ in range(chance.choice((0, 1, 1, 2))):
        at = chance.choice(
            [n for n, line in enumerate(lines) if line.startswith("    ") and " = " in line]
        )
        name, _, value = lines[at].partition(" = ")
        key, colon, kind = name.partition(": ")
        match chance.randrange(4):
            case 0:
                kind, colon = chance.choice(TYPES), ": "
            case 1:
                kind = colon = ""
            case _:
                value = chance.choice(EXPRESSIONS)
        lines[at] = f"{key}{colon}{kind} = {value}"
    content = "\n".join(lines).encode("utf-8", "surrogatepass")
    path.write_bytes(damaged(content, chance) if chance.random() < 0.4 else content)
    for words in (["show", str(path)], ["show", str(path), "--json"]):
        expect(len(said(*words)) < LONGEST, "a long text")


def checkpoint(chance: random.Random, folder: Path) -> None:
    """Checkpoints, as a resumed run and a figure read them."""
    import torch

    from clbench.errors import UserError
    from clbench.record_file import parse
    from clbench.report.figures.checkpoints import _state

    run_id = "0" * 12
    own = parse(json.dumps(RECORD | {"id": run_id}).encode(), run_id)
    tensor = torch.arange(600.0).reshape(20, 30)
    record = json.dumps(RECORD | {"id": run_id})
    content: dict[str, Any] = {"record": record, "state": {"model": {"w": tensor, "b": tensor[0]}}}
    if chance.random() < 0.3:
        content["record"] = json.dumps(changed(json.loads(record), chance))
    if chance.random() < 0.3:
        content = changed(content, chance) if chance.random() < 0.5 else {"state": [content]}
    file = io.BytesIO()
    torch.save(content, file, _use_new_zipfile_serialization=chance.random() < 0.9)
    path = folder / "c.pt"
    path.write_bytes(damaged(file.getvalue(), chance))
    with contextlib.suppress(UserError):
        _state(path, own)


def expect(right: bool, what: str) -> None:
    if not right:
        raise AssertionError(what)


KINDS: dict[str, Callable[[random.Random, Path], None]] = {
    "record": record, "toml": toml, "method": method, "checkpoint": checkpoint
}  # fmt: skip


class SlowError(BaseException):
    """A case takes more than SECONDS of processor time."""


class Watch:
    """Knows every file written, process started and connection made outside of a folder."""

    def __init__(self) -> None:
        self.folder = ""
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, values: tuple[Any, ...]) -> None:
        if not self.folder:
            return
        written: list[Any] = []
        if event == "open":
            path, _, flags = values
            if isinstance(flags, int) and flags & (
                os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
            ):
                written = [path]
        elif event in ("os.rename", "os.link", "os.symlink"):
            written = list(values[:2])
        elif event in ("os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.chmod"):
            written = [values[0]]
        elif event in (
            "subprocess.Popen",
            "os.system",
            "os.exec",
            "os.posix_spawn",
            "socket.connect",
        ):
            self.seen.append(f"{event} {str(values)[:200]}")
        for path in written:
            if isinstance(path, str | bytes | os.PathLike):
                where = os.path.realpath(os.path.dirname(os.path.abspath(os.fsdecode(path))))
                inside = f"{where}/".startswith(self.folder)
                if not inside or os.path.basename(os.fsdecode(path)) == "executed":
                    self.seen.append(f"{event} {os.fsdecode(path)[:200]}")


def play(kind: str, seed: int, cases: range, folder: Path) -> dict[str, Any]:
    """Run cases in this process, which should be a child; what was found, in words."""
    import torch  # noqa: F401  # before memory is bounded

    from clbench.cli import compare, figure, ls, report, run, show, status, study  # noqa: F401

    def slow(*_: Any) -> None:
        raise SlowError

    sys.dont_write_bytecode = True
    signal.signal(signal.SIGPROF, slow)
    base = Path(os.path.realpath(folder))
    warm = base / "warm"  # libraries write caches when they are used first
    warm.mkdir()
    for name in KINDS:
        _one(name, random.Random(0), warm)
    shutil.rmtree(warm)
    before = _peak()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + GIGABYTE, used + GIGABYTE))
    watch, found, counts = Watch(), [], Counter[str]()
    for number in cases:
        place = base / f"{kind}-{number}"
        place.mkdir()
        watch.folder, watch.seen = f"{place}/", []
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        wrong = ""
        try:
            _one(kind, random.Random(f"{kind} {seed} {number}"), place)
        except BaseException as error:
            frames = traceback.extract_tb(error.__traceback__)[-4:]
            where = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))
            wrong = f"{type(error).__name__}: {str(error)[:600]} ({where})"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            watch.folder = ""
        if wrong or watch.seen:
            words = "; ".join(filter(None, [wrong, *watch.seen[:3]]))
            found.append(f"{kind}, seed {seed}, case {number}: {words}")
        counts["cases"] += 1
        if not (wrong or watch.seen):
            shutil.rmtree(place, ignore_errors=True)
    peak = _peak() - before
    return {"found": found, "cases": counts["cases"], "peak": peak}


def _peak() -> int:
    """Bytes of memory that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _one(kind: str, chance: random.Random, place: Path) -> None:
    before = os.getcwd()
    os.chdir(place)
    try:
        KINDS[kind](chance, place)
    finally:
        os.chdir(before)
    expect(not (place / "executed").exists(), "the file was executed")


def child(kind: str, seed: int, cases: range, folder: Path) -> dict[str, Any]:
    """Run cases in a process of their own; how many there were, what was found, the peak memory."""
    words = [kind, str(seed), str(cases.start), str(cases.stop), str(folder)]
    environment = os.environ | {
        "CLBENCH_CACHE": str(folder), "CLBENCH_DATA": str(folder), "MPLCONFIGDIR": str(folder),
        "OMP_NUM_THREADS": "1", "COLUMNS": "100",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, *words],
        env=environment, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        died = f"{kind}, seed {seed}, cases {cases}: the process died: {done.stderr[-2000:]}"
        return {"found": [died], "cases": len(cases), "peak": 0}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


if __name__ == "__main__":
    which, number, start, stop, where = sys.argv[1:]
    print(json.dumps(play(which, int(number), range(int(start), int(stop)), Path(where))))
