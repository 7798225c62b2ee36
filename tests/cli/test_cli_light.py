"""`ls`, `show`, `status`, `report` and dry runs: without torch, in words and in JSON."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from clbench.record import Failure, Record, Shown
from clbench.record_file import parse
from clbench.registry import declarations
from clbench.store import Store


@pytest.fixture
def results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cell: Callable[..., Any], place: Any
) -> dict[str, Record]:
    """A finished run, one at task 2 of 3, and one that failed in the first task."""
    from clbench.runner import run

    monkeypatch.chdir(tmp_path)
    made = {"done": run(cell("ewc"), place), "partial": run(cell("finetune"), place)}
    made["failed"] = run(cell("finetune", seed=10), place)
    failure = Failure(error="E: x", traceback="Traceback: x")
    made["partial"] = shortened(made["partial"], "partial", 2)
    made["failed"] = structs.replace(shortened(made["failed"], "failed", 0), failure=failure)
    for record in made.values():
        Store(place.out).write(record)
    return made


def shortened(record: Record, status: Any, done: int) -> Record:
    """The record as it was after `done` tasks."""
    R, diagnostics = record.R[:done], record.diagnostics[:done]
    return structs.replace(record, status=status, done=done, R=R, diagnostics=diagnostics)


def test_status_says_done_partial_at_task_k_failed_and_running(
    results: dict[str, Record], clbench: Callable[..., Any], place: Any
) -> None:
    said = clbench("status --out out")
    assert said.code == 0
    assert "0: partial 2/3, 10: failed 0/3" in said.out
    assert "0: done" in said.out
    assert "out: 1 done, 1 partial, 1 failed." in said.out
    with Store(place.out).lease(results["partial"].id):
        running = clbench("status --out out")
        as_json = json.loads(clbench("status --out out --json").out)
    assert "0: running 2/3" in running.out
    assert "out: 1 done, 1 running, 1 failed." in running.out
    states = {(r["method"], r["seed"]): (r["status"], r["done"]) for r in as_json["runs"]}
    assert states[("finetune", 0)] == ("running", 2)


def test_ls_results_and_show_a_run(results: dict[str, Record], clbench: Callable[..., Any]) -> None:
    listed = clbench("ls results --out out")
    assert listed.code == 0
    assert [row["seed"] for row in json.loads(clbench("ls results --out out --json").out)] == [
        0, 0, 10,
    ]  # fmt: skip
    done = results["done"]
    assert done.id in listed.out
    shown = clbench(f"show {done.id[:8]} --out out")
    assert "status          done, 3 of 3 tasks" in shown.out
    assert f"{done.R[2][0]:.2f}" in shown.out
    as_json = clbench(f"show {done.id} --out out --json").out
    assert parse(as_json.encode(), done.id) == done
    assert "Traceback: x" in clbench(f"show {results['failed'].id} --out out").out


def test_a_run_in_its_first_task_is_shown(
    results: dict[str, Record], clbench: Callable[..., Any], place: Any
) -> None:
    """It has no diagnostics yet, though its method declares some."""
    begun = shortened(results["done"], "partial", 0)
    shown = {"used": Shown(title="Used", kind="layers"), "cost": Shown(title="C", kind="number")}
    Store(place.out).write(structs.replace(begun, lays_open=shown))
    said = clbench(f"show {begun.id} --out out")
    assert said.code == 0
    assert "partial, 0 of 3 tasks" in said.out


def test_ls_and_show_name_every_method_and_benchmark(clbench: Callable[..., Any]) -> None:
    for kind in ("method", "benchmark"):
        names = {row["name"] for row in json.loads(clbench(f"ls {kind}s --json").out)}
        assert names == set(declarations(kind))
        for name, declaration in declarations(kind).items():
            shown = clbench(f"show {name}")
            assert shown.code == 0
            assert declaration.title in shown.out
            assert all(f"\n{field} " in shown.out for field in declaration.fields)
            assert json.loads(clbench(f"show {name} --json").out)["name"] == name


def test_show_takes_the_file_of_a_method_or_a_benchmark(
    clbench: Callable[..., Any], method_file: Callable[..., Path], tiny: Path
) -> None:
    assert "kind            method" in clbench(f"show {method_file('mine')}").out
    assert "kind            benchmark" in clbench(f"show {tiny}").out


LIGHT = [
    "--help", "--version", "run --help", "check --help", "new --help", "ls methods",
    "ls benchmarks", "ls results --out out", "show ewc", "show split-mnist-5k",
    "show {id} --out out", "status --out out", "report --out out",
    "run --methods @all --benchmarks @all --seeds 3 --dry-run", "run --methods ewcc",
]  # fmt: skip

SCRIPT = """
import shlex, sys
from clbench.cli import main
for command in sys.argv[1:]:
    sys.argv = ["clbench", *shlex.split(command)]
    try:
        main()
    except SystemExit:
        pass
    heavy = {"torch", "avalanche", "torchvision"} & set(sys.modules)
    print(f"MODULES {command}: {sorted(heavy)}")
"""


def test_light_commands_do_not_import_torch(results: dict[str, Record]) -> None:
    commands = [command.format(id=results["done"].id) for command in LIGHT]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *commands], capture_output=True, text=True, check=True
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("MODULES")]
    assert said == [f"MODULES {command}: []" for command in commands]


def test_the_package_offers_its_names_lazily() -> None:
    code = """
import sys, clbench
assert "torch" not in sys.modules
from clbench import Method, PositiveInt
assert "torch" not in sys.modules
assert set(clbench.__all__) >= {"Method", "Strategy", "UserError"}
try:
    clbench.nothing
except AttributeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "module 'clbench' has no attribute 'nothing'\n"


def test_sys_info_names_versions_and_hardware(clbench: Callable[..., Any]) -> None:
    info = json.loads(clbench("sys-info --json").out)
    assert info["problem"] == ""
    assert info["devices"][0] == "cpu"
    assert {"versions", "cpu", "cores", "memory GB", "torch threads"} <= info.keys()


def test_a_torch_that_does_not_fit_is_named_with_what_to_install() -> None:
    from clbench.provenance import explain_import

    said = explain_import(RuntimeError("operator torchvision::nms does not exist"))
    assert "torch and torchvision do not fit each other" in said
    assert "pip install --force-reinstall torch torchvision" in said
