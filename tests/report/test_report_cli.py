"""`clbench report` as a user meets it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from clbench.cli.report import command
from clbench.errors import UserError
from clbench.record import Record

Save = Callable[[list[Record]], Path]


def report(*arguments: str | Path) -> Result:
    """Run it in this process; a UserError comes through, as `main` prints it."""
    return CliRunner().invoke(
        command, [str(a) for a in arguments], catch_exceptions=False, standalone_mode=False
    )


def test_it_prints_the_table_and_the_files_it_wrote(grid: list[Record], save: Save) -> None:
    out = save(grid)
    result = report("--out", out)
    assert "pnn                88.25 ± 0.35           Zero" in result.stdout
    for name in ("md", "tex", "csv", "json"):
        path = out / "tables" / f"table-two-tasks.{name}"
        assert f"wrote {path}" in result.stdout
        assert path.stat().st_size > 0
    assert f"wrote {out / 'tables' / 'report.html'}" in result.stdout


def test_twice_gives_the_same_files(grid: list[Record], save: Save, tmp_path: Path) -> None:
    out = save(grid)
    for folder in ("a", "b"):
        report("--out", out, "--to", tmp_path / folder)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_format_and_to_choose_what_is_written(
    grid: list[Record], save: Save, tmp_path: Path
) -> None:
    report("--out", save(grid), "--format", "tex", "--to", tmp_path / "t", "--standalone")
    (path,) = (tmp_path / "t").iterdir()
    assert path.read_text().startswith(r"\documentclass")


@pytest.mark.parametrize(
    ("methods", "rows"),
    [
        ("ewc", ["ewc[strength=500]"]),
        ("ewc[strength=500],joint", ["ewc[strength=500]", "joint"]),
        ("*e*", ["ewc[strength=500]", "agem", "finetune"]),
        ("@memory,pnn", ["pnn", "agem"]),
    ],
)
def test_methods_chooses_rows(
    grid: list[Record], save: Save, methods: str, rows: list[str]
) -> None:
    out = save(grid)
    report("--out", out, "--methods", methods)
    document = json.loads((out / "tables" / "table-two-tasks.json").read_text())
    assert [row["method"] for row in document["rows"]] == rows


def test_columns_adds_columns(grid: list[Record], save: Save) -> None:
    result = report("--out", save(grid), "--columns", "fwt,aux")
    assert "FWT %" in result.stdout
    assert "aux MB" in result.stdout
    assert "forgetting %" not in result.stdout


def test_a_damaged_file_is_named_and_the_rest_reported(grid: list[Record], save: Save) -> None:
    out = save(grid)
    (out / "records" / "0000deadbeef.json").write_text('{"schema": 1, "id"')
    result = report("--out", out)
    assert "Warning:" in result.stderr
    assert "0000deadbeef.json" in result.stderr
    assert "1 record could not be read" in result.stdout
    assert "88.25 ± 0.35" in result.stdout


def test_no_records_says_where_it_looked_and_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"No records in .*nowhere.* clbench run .*--out"):
        report("--out", tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("flag", "value", "words"),
    [
        ("--format", "latex", "Unknown format 'latex'.*Did you mean 'tex'"),
        ("--format", ",", "--format names nothing"),
        ("--columns", "forgeting", "Unknown column 'forgeting'.*Did you mean 'forgetting'"),
        ("--methods", "agen", "Unknown method in the records: 'agen'.*Did you mean 'agem'"),
        ("--benchmarks", "two-task", "Did you mean 'two-tasks'"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(
    grid: list[Record], save: Save, flag: str, value: str, words: str
) -> None:
    out = save(grid)
    with pytest.raises(UserError, match=words):
        report("--out", out, flag, value)
    assert not (out / "tables").exists()


def test_it_never_imports_torch(grid: list[Record], save: Save) -> None:
    program = (
        "import sys\nfrom clbench.cli import cli\n"
        "cli(['report', '--out', sys.argv[1]], standalone_mode=False)\n"
        "print(sorted({'torch', 'avalanche', 'pandas'} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(save(grid))], capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == "[]"


def test_help_ends_in_examples_that_run(grid: list[Record], save: Save, tmp_path: Path) -> None:
    out = save(grid)
    shown = CliRunner().invoke(command, ["--help"]).stdout
    examples = [
        line.split("clbench report", 1)[1]
        for line in shown.splitlines()
        if "  clbench report" in line
    ]
    assert len(examples) == 8
    assert examples.pop() == " --serve"  # test_page_serve.py runs that one
    examples.remove(" --vs my_paper.toml")  # tests/report/test_papers.py has that one
    for example in examples:
        words = example.replace("'", "").split()
        if "--to" in words:
            words[words.index("--to") + 1] = str(tmp_path / "t")
        assert "wrote" in report(*words, "--out", out).stdout
