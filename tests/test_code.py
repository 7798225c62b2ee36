"""A result belongs to its code: what is hashed, what is imported, and what a report shows."""

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clbench import provenance
from clbench.code import MODULES, Code, code_of
from clbench.editions import Editions
from clbench.errors import BrokenWarning, UserError
from clbench.grid import make_grid
from clbench.reading import read_declaration
from clbench.record import Part
from clbench.record_file import read
from clbench.registry import declarations, import_class, installed, read_again, select
from clbench.runner import run

SCALED = """
from clbench import Method, Strategy, ordinary
{line}

class {name}(Method):
    \"\"\"Trains from scaled weights.\"\"\"

    title = "{name}"
    family = "reference"

    def build(self, stream):
        model = ordinary(stream)
        for parameter in model.parameters():
            parameter.data.mul_(SCALE)
        return Strategy(model=model, stream=stream)
"""


def scaled(line: str = "SCALE = 1.0", name: str = "Mine") -> str:
    return SCALED.replace("{line}", line).replace("{name}", name)


def write(folder: Path, **files: str) -> Path:
    """Files by module name: `sub_in_x` is `sub/x.py`."""
    for name, text in files.items():
        path = folder / (name.replace("_in_", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def names(path: Path) -> list[str]:
    return [name for name, _ in code_of(path, "", "", ()).modules]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from .helper import x", ["helper"]),
        ("from . import helper", ["helper"]),
        ("import helper", ["helper"]),
        ("from helper import x", ["helper"]),
        ("def f():\n    from .helper import x", ["helper"]),
        ("from .sub.deep import x", ["sub", "sub.deep"]),
        ("from .sub import deep", ["sub", "sub.deep"]),
        ("import sub.deep as d", ["sub", "sub.deep"]),
        ("from .sub import *", ["sub", "sub.deep", "sub.up"]),
        ("from .sub import up", ["helper", "sub", "sub.up"]),
        ("from .plain import x", ["plain.x"]),
        ("from importlib import import_module\nimport_module('.helper', __package__)", ["helper"]),
        ("from .circle import x", ["circle"]),
        ("import json, torch, clbench\nfrom clbench.methods.ewc import EWC", []),
        ("from .nothing import x\nfrom ..above import y", []),
        ("from .damaged import x", ["damaged"]),
    ],
)
def test_what_a_file_imports_is_its_code(tmp_path: Path, line: str, found: list[str]) -> None:
    write(
        tmp_path,
        helper="x = 1",
        sub_in___init__="",
        sub_in_deep="x = 1",
        sub_in_up="from ..helper import x",
        plain_in_x="",
        circle="from .mine import y\nfrom .circle import x",
        json="raise RuntimeError",
        damaged="class (",
        mine=line,
    )
    if line == "from .sub import *":
        found = ["helper", *found]
    assert names(tmp_path / "mine.py") == sorted([*found, "mine"])


def test_the_place_of_the_folder_makes_no_difference(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write(tmp_path / folder, mine="from .helper import x", helper="x = 1", other="")
    a, b = (code_of(tmp_path / name / "mine.py", "", "", ()) for name in "ab")
    assert a.digest == b.digest != ""
    write(tmp_path / "b", other="x = 5")
    assert code_of(tmp_path / "b" / "mine.py", "", "", ()) == b
    write(tmp_path / "b", helper="x = 2")
    assert code_of(tmp_path / "b" / "mine.py", "", "", ()).digest != b.digest


def test_code_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clbench.code.MODULES", 3)
    write(tmp_path, mine="from . import a, b, c", a="", b="", c="")
    with pytest.raises(UserError, match=r"more than 3 modules"):
        names(tmp_path / "mine.py")
    assert MODULES > 3
    write(tmp_path, mine="from . import a", a="x = 1\n" * 200_000)
    with pytest.raises(UserError, match=r"a\.py cannot be read: it has 1,200,000 bytes"):
        names(tmp_path / "mine.py")
    write(tmp_path, a="x = " + "(" * 5000)
    assert names(tmp_path / "mine.py") == ["a", "mine"]


def test_clbenchs_own_methods_have_versions_and_no_digest() -> None:
    for kind in ("method", "benchmark"):
        assert {d.digest for d in declarations(kind).values()} == {""}


PINNED = {
    ("finetune", "split-mnist-5k"): "71decfbbda7e",
    ("ewc[strength=500]", "permuted-mnist"): "40ee4389f147",
    ("er-res", "split-cifar100"): "0ba4beaf1583",
}


@pytest.mark.parametrize("what", PINNED, ids=str)
def test_ids_of_clbenchs_own_methods_stay(what: tuple[str, str]) -> None:
    assert make_grid(*what, [0], {})[0].id == PINNED[what]


def test_local_changes_in_a_checkout_count_as_changed_code(
    monkeypatch: pytest.MonkeyPatch, method_file: Callable[..., Path]
) -> None:
    from functools import cache

    line = "from clbench.methods.ewc import EWC\nclass Child(EWC):\n    title = 'c'\n"
    clean = read_declaration(method_file("child", line), "method")
    child = clean.digest
    assert [name for name, _ in clean.code.modules] == ["child"]
    assert import_class(clean).title == "c"
    changed = frozenset({"clbench.methods._acl_net", "clbench.methods.ewc"})
    monkeypatch.setattr(provenance, "changed_modules", cache(lambda: changed))
    read_again()
    try:
        mine = declarations("method")
        digests = {name for name, declaration in mine.items() if declaration.digest}
        assert {"acl", "ewc", "si"} <= digests, "SI imports a part of EWC"
        assert "hat" not in digests
        assert make_grid("ewc", "split-mnist-5k", [0], {})[0].versioned().method.source
        assert import_class(mine["ewc"]).__name__ == "EWC"
        fresh = read_declaration(method_file("child", line), "method")
        assert fresh.digest != child
        assert [name for name, _ in fresh.code.modules] == ["child", "clbench.methods.ewc"]
        assert import_class(fresh).title == "c"
    finally:
        read_again()


def test_git_tells_which_methods_have_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib import reload

    def git(*words: str) -> None:
        who = ("-c", "user.name=x", "-c", "user.email=x@x")
        subprocess.run(["git", *who, "-C", str(tmp_path), *words], check=True, capture_output=True)

    monkeypatch.undo()
    own = reload(provenance).changed_modules
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "clbench" / "provenance.py"))
    write(tmp_path, methods_in_a="", methods_in_b="", benchmarks_in_c="", clbench_in_d="")
    own.cache_clear()
    assert own() == frozenset(), "no checkout"
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "x")
    write(tmp_path, methods_in_b="x = 1", methods_in_new="", clbench_in_d="x = 1")
    own.cache_clear()
    assert own() == {"clbench.methods.b", "clbench.methods.new"}
    own.cache_clear()


def test_a_method_file_imports_its_neighbours(tmp_path: Path) -> None:
    before = list(sys.path)
    line = "from .helper import SCALE\nfrom .sub.deep import x\n"
    write(tmp_path, mine=scaled(line), helper="from .sub.deep import x\nSCALE = x")
    write(tmp_path, sub_in_deep="from ..third import x", third="x = 0.5")
    [(mine, _)] = select("method", str(tmp_path / "mine.py"))
    cls: Any = import_class(mine)
    assert sys.modules[cls.__module__].SCALE == 0.5
    assert sys.path == before
    assert not list(tmp_path.rglob("__pycache__"))
    write(tmp_path, third="x = 0.7")
    [(again, _)] = select("method", str(tmp_path / "mine.py"))
    assert sys.modules[import_class(again).__module__].SCALE == 0.7  # type: ignore[attr-defined]
    write(tmp_path, third="x = 0.8")
    [(late, _)] = select("method", str(tmp_path / "mine.py"))
    assert late.digest not in (mine.digest, again.digest)
    write(tmp_path, third="x = 0.9")
    with pytest.raises(UserError, match="has changed since"):
        import_class(late)


def test_a_folder_that_is_named_by_a_dot_is_that_of_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python keeps what it found in `.` when the current folder was another."""
    for name in ("a", "b"):
        write(tmp_path / name, mine=f"from .{name} import x", **{name: ""})
        monkeypatch.chdir(tmp_path / name)
        assert names(Path("mine.py")) == sorted(["mine", name])


def test_a_neighbour_by_its_plain_name_is_a_sentence(tmp_path: Path) -> None:
    write(tmp_path, mine=scaled("import helper_of_mine"), helper_of_mine="SCALE = 1")
    [(mine, _)] = select("method", str(tmp_path / "mine.py"))
    with pytest.raises(UserError, match=r"write `from \. import helper_of_mine`"):
        import_class(mine)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Install a package `offered` with these modules and entry points; the folder of its files."""
    folder = tmp_path / "site"

    def install(points: str = "mine = offered.plain:Mine", **files: str) -> Path:
        write(folder / "offered", __init__="", **files)
        info = folder / "offered-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[clbench.methods]\n{points}\n")
        monkeypatch.syspath_prepend(folder)
        monkeypatch.setenv("PYTHONPATH", str(folder))
        importlib.invalidate_caches()
        forget()
        return folder / "offered"

    def forget() -> None:
        read_again()
        for name in [name for name in sys.modules if name.partition(".")[0] == "offered"]:
            del sys.modules[name]

    yield install
    forget()


def test_the_code_of_an_entry_point_is_its_package(site: Callable[..., Path]) -> None:
    line = "import offered.helper\nfrom .other import SCALE\nimport json"
    folder = site(plain=scaled(line), helper="", other="SCALE = 1", unused="")
    mine = declarations("method")["mine"]
    assert [name for name, _ in mine.code.modules] == [
        "offered", "offered.helper", "offered.other", "offered.plain"
    ]  # fmt: skip
    assert mine.code.distribution == "offered 1.0"
    assert "offered" not in sys.modules, "nothing is imported to find it"
    (folder / "helper.py").write_text("x = 1")
    read_again()
    assert declarations("method")["mine"].digest != mine.digest
    other = Code(mine.code.modules, "offered 1.1")
    assert other.digest != mine.digest


COMPUTED = "import importlib\nSCALE = importlib.import_module({}, __package__).SCALE"


@pytest.mark.parametrize("kind", ["file", "package"])
def test_a_module_whose_name_is_computed_is_told(
    site: Callable[..., Path], tiny: Path, tmp_path: Path, place: Any, kind: str
) -> None:
    line = COMPUTED.format("'.' + 'helper'")
    site(plain=scaled(line), helper="SCALE = 1.0", other="")
    write(tmp_path, own=scaled(line), helper="SCALE = 1.0")
    [cell] = make_grid(
        "mine" if kind == "package" else str(tmp_path / "own.py"), str(tiny), [0], {}
    )
    record = run(cell, place)
    assert record.decided == {"digest": f"without {'offered.' * (kind == 'package')}helper"}
    known = {"package": {"offered": "1.0"}, "file": {}}[kind]
    assert known.items() <= record.provenance.versions.items()


def test_a_computed_name_of_another_package_is_no_matter(
    tiny: Path, tmp_path: Path, place: Any
) -> None:
    line = COMPUTED.format("'js' + 'on'").replace(".SCALE", "") + "; SCALE = 1.0"
    write(tmp_path, own=scaled(line), helper="")
    [cell] = make_grid(str(tmp_path / "own.py"), str(tiny), [0], {})
    assert run(cell, place).decided == {}


def test_an_installed_module_that_has_changed_since_its_import_is_said(
    site: Callable[..., Path],
) -> None:
    folder = site(plain=scaled("from .helper import SCALE"), helper="SCALE = 1.0")
    import_class(declarations("method")["mine"])
    (folder / "helper.py").write_text("SCALE = 2.0")
    read_again()
    fresh = declarations("method")["mine"]
    assert fresh.digest
    (folder / "helper.py").write_text("SCALE = 3.0")
    with pytest.raises(UserError, match="has changed since"):
        import_class(fresh)
    read_again()
    with pytest.raises(UserError, match="start Python again"):
        import_class(declarations("method")["mine"])


def acc(said: str, name: str) -> str:
    found = re.search(rf"^{re.escape(name)} +(\S+)", said, re.M)
    return found[1] if found else ""


@pytest.mark.parametrize("edited", ["plain", "helper"])
def test_an_edited_package_is_trained_anew_and_the_earlier_record_stays(
    site: Callable[..., Path],
    clbench: Callable[..., Any],
    tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    edited: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"plain": scaled("from .helper import SCALE"), "helper": "SCALE = 1.0"}
    if edited == "plain":
        files = {"plain": scaled()}
    folder = site(**files)
    command = "run --methods mine --benchmarks ./tiny.py --workers 1 --out out"
    before = acc(clbench(command).out, "mine")
    path = folder / f"{edited}.py"
    stat = path.stat()
    path.write_text(path.read_text().replace("SCALE = 1.0", "SCALE = 0.0"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # Python would believe the old .pyc
    read_again()

    reported = clbench("report --out out --format md")
    assert before not in reported.out, "the old number under new code"
    [mark] = re.findall(r"mine(@[0-9a-f]{4})\b", reported.err)
    assert "--methods 'mine@*'" in reported.err
    for text in ("status --out out", "ls results --out out"):
        said = clbench(text)
        assert "mine " not in said.out
        assert f"mine{mark}" in said.err
    assert "missing" in clbench(f"{command} --dry-run").out
    after = clbench(command)
    assert acc(after.out, "mine") not in ("", before)
    records = [read(path) for path in (tmp_path / "out" / "records").glob("*.json")]
    assert {record.status for record in records} == {"done"}
    assert len(records) == 2
    assert not (tmp_path / "out" / "replaced").exists()

    read_again()
    both = clbench("report --out out --format md --methods mine@*").out
    assert acc(both, f"mine{mark}") == before
    assert acc(both, "mine") == acc(after.out, "mine")
    alone = clbench(f"report --out out --format md --methods mine{mark}").out
    assert (acc(alone, f"mine{mark}"), acc(alone, "mine")) == (before, "")
    compared = clbench(f"compare mine{mark} mine --out out")
    assert before in compared.out
    assert f"mine{mark}" in clbench("ls results --out out --methods *@*").out
    assert "code of today" in clbench(f"run --methods mine{mark} --benchmarks ./tiny.py").err


def test_an_edited_helper_of_a_file_and_a_failed_method_that_was_mended(
    tmp_path: Path, tiny: Path, clbench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, mine=scaled("from .helper import SCALE"), helper="SCALE = 1.0")
    command = "run --methods ./mine.py --benchmarks ./tiny.py --workers 1 --out out"
    before = acc(clbench(command).out, "mine")
    write(tmp_path, helper="SCALE = 'x'")
    assert "failed: TypeError" in clbench(command).err
    listed = clbench("ls results --out out").out
    assert "failed" in listed
    assert "done" not in listed, "the newest code has failed"
    assert before not in clbench("report --out out --format md").out
    write(tmp_path, helper="SCALE = 0.0")
    mended = clbench(command)
    assert mended.code == 0
    assert acc(mended.out, "mine") not in ("", before)
    statuses = [read(path).status for path in (tmp_path / "out" / "records").glob("*.json")]
    assert sorted(statuses) == ["done", "done", "failed"]
    assert acc(clbench("report --out out --format md").out, "mine") == acc(mended.out, "mine")
    write(tmp_path, helper="SCALE = 1.0")  # the path tells what the code of today is
    said = clbench("report --out out --format md --methods ./mine.py")
    assert acc(said.out, "mine") == before
    assert "Hidden: 2 runs" in said.err


def test_one_process_that_runs_twice_sees_the_edit(
    tmp_path: Path, tiny: Path, site: Callable[..., Path]
) -> None:
    import clbench

    folder = site(plain=scaled("from .helper import SCALE"), helper="SCALE = 1.0")
    options: dict[str, Any] = {"out": tmp_path / "out", "workers": 1, "progress": False}
    one = clbench.run("mine", str(tiny), **options)
    (folder / "helper.py").write_text("SCALE = 0.0")
    other = clbench.run("mine", str(tiny), **options)
    assert one.records[0].id != other.records[0].id
    assert one.records[0].R != other.records[0].R
    frame = clbench.load(tmp_path / "out")
    assert sorted(name.partition("@")[0] for name in frame["method"]) == ["mine", "mine"]
    assert frame["method"].nunique() == 2


TWO = scaled(name="One") + scaled(name="Two")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("x = no_such_package.sub:X", "'x' = 'no_such_package.sub:X'"),
        ("x = offered.nothing:X", "names no module"),
        ("x = offered.plain:Three", "one class Three derived from Method; found none"),
        ("x = offered.damaged:X", "is not valid Python"),
        ("X! = offered.plain:One", "cannot be the name"),
    ],
)
def test_a_broken_entry_point_costs_itself_and_one_warning(
    site: Callable[..., Path], clbench: Callable[..., Any], entry: str, words: str
) -> None:
    points = f"{entry}\ngood = offered.plain:One"
    site(points, plain=TWO, damaged="class (")
    said = clbench("ls methods")
    assert (said.code, said.err.count("Warning:")) == (0, 1)
    assert words in said.err
    assert "good " in said.out
    read_again()
    assert clbench("run --methods good,ewc --dry-run --out nowhere").code == 0
    name = entry.partition(" ")[0]
    for command in ("run --dry-run --methods", "show", "check"):
        named = clbench(*command.split(), name)
        assert named.code == 2
        assert words in named.err
    read_again()
    info = json.loads(clbench("sys-info --json").out)
    assert [words in text for text in info["broken"]] == [True]
    read_again()
    with pytest.warns(BrokenWarning):
        installed("method")


def test_a_module_that_does_not_import_costs_its_own_runs(
    site: Callable[..., Path], clbench: Callable[..., Any], tiny: Path, tmp_path: Path
) -> None:
    site(plain="1 / 0\n" + scaled())
    command = f"run --methods mine,finetune --benchmarks {tiny} --workers 1 --out {tmp_path}/out"
    said = clbench(command)
    assert said.code == 2, "it was refused"
    assert "ZeroDivisionError" in said.err
    assert acc(said.out, "finetune")
    assert "ZeroDivisionError" in clbench("sys-info").out


def test_of_two_with_one_name_the_built_in_wins(site: Callable[..., Path]) -> None:
    site("ewc = offered.plain:Mine", plain=scaled())
    with pytest.warns(BrokenWarning, match="Two methods are named 'ewc'"):
        assert declarations("method")["ewc"].module == "clbench.methods.ewc"


def test_marks_tell_codes_apart() -> None:
    def part(digest: str | None, version: int = 1) -> Part:
        return Part(name="m", version=version, source=digest)

    a, b, c = part("3f2a0" + "1" * 59), part("3f2a1" + "1" * 59), part("9" * 64)
    seen = [("method", p, "s", f"2026-0{n}-01") for n, p in enumerate((a, b, c, part(None)), 1)]
    marks = Editions.of(seen, {})
    assert [marks.mark("method", p) for p in (a, b, c)] == ["@3f2a0", "@3f2a1", "@9999"]
    assert marks.mark("method", part(None)) == ""
    known = Editions.of(seen, {("method", "m"): (1, "9" * 64)})
    assert (known.mark("method", c), known.mark("method", part(None))) == ("", "@v1")
    assert known.hidden("method", part(None), "s")
    versions = [("method", part(None, v), s, "") for v, s in ((1, "s"), (2, "s"), (1, "t"))]
    newer = Editions.of(versions, {("method", "m"): (2, "")})
    assert newer.mark("method", part(None)) == "@v1"
    assert newer.hidden("method", part(None), "s")
    assert not newer.hidden("method", part(None), "t"), "no newer run is there"
