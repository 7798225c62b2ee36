"""`clbench.run`: the grid as a Python call."""

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clbench
from clbench.store import Store


def run(tiny: Path, out: Path, methods: Any = "finetune", **options: Any) -> Any:
    return clbench.run(methods, str(tiny), out=out, **({"progress": False} | options))


def test_it_is_the_command_as_a_call(
    tiny: Path, tmp_path: Path, clbench: Callable[..., Any]
) -> None:
    command = f"run --methods finetune,er-res[per_class=5] --benchmarks {tiny} --seeds 2"
    assert clbench(f"{command} --epochs 1 --out {tmp_path / 'a'}").code == 0
    methods = ["finetune", "er-res[per_class=5]"]
    result = run(tiny, tmp_path / "b", methods, seeds=[0, 1], epochs=1, workers=1)
    by_id = {record.id: record.R for record in Store(tmp_path / "a").records()[0]}
    assert {record.id: record.R for record in result.records} == by_id
    assert len(by_id) == 4
    assert result.failed == []
    assert "4 of 4" in repr(result)


def test_a_frame_has_a_row_per_run_and_a_table_shows_the_columns_asked_for(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(tiny, tmp_path / "out", ["finetune", "er-res[per_class=5]"])
    frame = result.frame().set_index("method")
    assert list(frame.index) == ["er-res[per_class=5]", "finetune"]
    assert frame["method.per_class"]["er-res[per_class=5]"] == 5
    table = result.table(columns=["acc", "forgetting"])
    printed = capsys.readouterr().out
    assert printed == f"{table}\n"
    headings = printed.splitlines()[2].split()
    assert "ACC" in headings
    assert "forgetting" in headings
    assert "BWT" not in headings
    assert "| finetune |" in table._repr_markdown_()
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    result.table()
    assert capsys.readouterr().out == "", "an interactive session shows the value itself"
    with pytest.raises(clbench.UserError, match="'forgetting'"):
        result.table(columns=["forgeting"])


def test_a_failed_run_does_not_raise(
    tiny: Path, tmp_path: Path, method_file: Callable[..., Path]
) -> None:
    result = run(tiny, tmp_path / "out", "finetune,derpp[beta=1e+30]")
    [failed] = result.failed
    assert (failed.cell.labels["method"], failed.status) == ("derpp[beta=1e+30]", "failed")
    assert "FloatingPointError" in failed.error
    assert "Traceback" in failed.traceback
    assert [r.status for r in result.records] == ["done", "failed"]


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"epoch": 3}, "'epochs'"),
        ({"epochs": 0}, "epochs=0"),
        ({"seeds": 0}, "seeds=0"),
        ({"seeds": [0, -1]}, "seeds=[0, -1]"),
        ({"seeds": 1.5}, "seeds=1.5"),
        ({"seeds": None}, "seeds=None"),
        ({"workers": 0}, "workers=0"),
        ({"threads": "two"}, "threads='two'"),
        ({"rerun": "al"}, "'all'"),
        ({"executor": "slrm"}, "'slurm'"),
        ({"methods": "ewcc"}, "'ewc'"),
        ({"methods": []}, "methods"),
        ({"methods": 3}, "3 is no method"),
        ({"methods": [Path("mine.py")]}, "is no method"),
        ({"device": "no-such-device"}, "no-such-device"),
    ],
)
def test_a_mistake_is_a_user_error_and_trains_nothing(
    tiny: Path, tmp_path: Path, options: dict[str, Any], fact: str
) -> None:
    with pytest.raises(clbench.UserError) as caught:
        run(tiny, tmp_path / "out", **({"methods": "finetune"} | options))
    assert fact in str(caught.value)
    assert Store(tmp_path / "out").records() == ([], [])


def test_all_problems_are_in_one_error(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(clbench.UserError) as caught:
        clbench.run(
            "finetune", ["split-mnist", "split-cifar100"], out=tmp_path / "out",
            data_root=tmp_path / "nowhere", device="no-such-device", progress=False,
        )  # fmt: skip
    for fact in ("MNIST/raw", "cifar-100-python", "no-such-device"):
        assert fact in str(caught.value)


SCRIPT = """
import clbench
from clbench import Method, Strategy, ordinary

with open("ran", "a") as file:
    file.write("once\\n")


class Plain(Method):
    title = "Plain"
    family = "reference"

    def build(self, stream):
        return Strategy(model=ordinary(stream), stream=stream)


result = clbench.run(METHODS, "./tiny.py", seeds=2, workers=2)
print([record.status for record in result.records])
"""


@pytest.mark.parametrize("methods", ['"finetune"', "[Plain]"])
def test_a_script_without_a_guard_runs_once(tiny: Path, tmp_path: Path, methods: str) -> None:
    """multiprocessing would import the main module again in every worker."""
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT.replace("METHODS", methods)))
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['done', 'done']\n"
    assert (tmp_path / "ran").read_text() == "once\n"
    assert "[2/2]" in done.stderr, "progress in plain lines"
