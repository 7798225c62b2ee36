"""No valid record breaks a report or steers what shows it; what numbers were made with is said."""

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clbench.record import Git, Part, Provenance, Record, Spec, Titles, encode
from clbench.report import terminal, write
from clbench.report.escape import csv_cell
from clbench.report.figures.write import write as draw
from clbench.report.table import tables
from clbench.report.write import TABLES, render

OTHERS: dict[str, dict[str, Any]] = {
    "torch 2.14 and 2.15": {"versions": {"torch": "2.15"}},
    "host a and b": {"host": "b"},
    "processor X and Y": {"cpu": "Y"},
    "clbench commit 1111 and 2222": {"git": Git(commit="2222", dirty=False)},
}
ORIGIN: dict[str, Any] = {
    "versions": {"torch": "2.14"},
    "host": "a",
    "cpu": "X",
    "git": Git(commit="1111", dirty=False),
}


def a_run(method: str = "ewc", seed: int = 0, **changes: Any) -> Record:
    """A finished run of two tasks."""
    spec = Spec(
        benchmark=Part(name="two-tasks", version=1),
        method=Part(name=method, version=1),
        protocol={"lr": 0.1},
        seed=seed,
        threads=1,
        device="cpu",
    )
    run_id = hashlib.sha256(repr((method, seed, changes)).encode()).hexdigest()[:12]
    fields: dict[str, Any] = {
        "status": "done", "tasks": 2, "done": 2, "R": [[95.0, 60.0], [85.0 + seed, 80.0]],
        "R0": [50.0, 50.0], "family": "regularization",
    }  # fmt: skip
    return Record(id=run_id, spec=spec, **(fields | changes))


def made(method: str, seed: int, **origin: Any) -> Record:
    return a_run(method, seed, provenance=Provenance(**(ORIGIN | origin)))


@pytest.fixture
def save(tmp_path: Path) -> Callable[[list[Record]], Path]:
    """Write records where `clbench run --out` would; the folder."""

    def write(records: list[Record]) -> Path:
        folder = tmp_path / "out" / "records"
        folder.mkdir(parents=True, exist_ok=True)
        for one in records:
            (folder / f"{one.id}.json").write_bytes(encode(one))
        return tmp_path / "out"

    return write


def texts(records: list[Record]) -> dict[str, str]:
    """All that is said around a table, by format, on one line."""
    (table,) = tables(records)
    found = {name: render(table, name) for name in TABLES if name != "csv"}
    found["terminal"] = terminal([table], 100)
    return {name: re.sub(r"[\s\\]+", " ", text) for name, text in found.items()}


@pytest.mark.parametrize("words", OTHERS)
def test_every_format_says_that_a_row_averages_runs_made_otherwise(
    words: str, tmp_path: Path
) -> None:
    records = [made("ewc", 0), made("ewc", 1, **OTHERS[words]), made("si", 0)]
    for name, text in texts(records).items():
        assert re.search(rf"alike: {words} \([^)]*ewc\)", text, re.I), name
    write(tables(records), tmp_path, ["html"], records=records)
    assert f"{words} (even" in (tmp_path / "report.html").read_text()
    draw("accuracy", tables(records), tmp_path, ["svg"])
    assert f"{words} (even" in " ".join(next(tmp_path.glob("*.txt")).read_text().split())
    (table,) = tables(records)
    rows = list(csv.DictReader(io.StringIO(render(table, "csv"))))
    assert [words in row["made_with"] for row in rows] == [True, False]


def test_rows_made_otherwise_are_told_apart_from_averages(tmp_path: Path) -> None:
    other = {"versions": {"torch": "2.15"}}
    for text in texts([made("ewc", 0), made("si", 0, **other)]).values():
        assert "torch 2.14 and 2.15." in text


def test_nothing_is_said_of_runs_made_alike_or_of_what_a_record_does_not_know() -> None:
    unknown = a_run("ewc", 1)
    for text in texts([made("ewc", 0), made("si", 1), unknown]).values():
        assert "made alike" not in text


def test_compare_says_that_the_sides_were_made_otherwise(
    save: Callable[..., Path], clbench: Callable[..., Any]
) -> None:
    records = [made("ewc", seed) for seed in (0, 1)]
    records += [made("si", seed, versions={"torch": "2.15"}) for seed in (0, 1)]
    out = save(records)
    assert "torch 2.14 and 2.15" in clbench(f"compare ewc si --out {out}").out
    (line,) = json.loads(clbench(f"compare ewc si --json --out {out}").out)
    assert line["made_with"] == "torch 2.14 and 2.15"
    assert "alike" not in clbench(f"compare ewc ewc --out {out}").out


FORMULAS = (
    "=1+1",
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\N{FULLWIDTH EQUALS SIGN}1",
    "a;=1+1",
)


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_of_a_csv_file_is_a_formula(text: str) -> None:
    record = a_run(
        text,
        titles=Titles(benchmark=text, method=text),
        family=text,
        provenance=Provenance(versions={text: text}, host=text),
    )
    (table,) = tables([record])
    for cell in csv.reader(io.StringIO(render(table, "csv"))):
        for part in (part for value in cell for part in value.split(";")):
            assert not part.strip() or part.strip()[0] not in "=+@-\t\r" or float(part) <= 100
            assert not part.startswith("\N{FULLWIDTH EQUALS SIGN}")


def test_numbers_of_a_csv_file_stay_numbers() -> None:
    assert [csv_cell(value) for value in (-9.5, "-9.5", "+1e-3", "7", "", None, "ewc")] == [
        -9.5, "-9.5", "+1e-3", "7", "", None, "ewc"
    ]  # fmt: skip
    (table,) = tables([a_run()])
    (row,) = csv.DictReader(io.StringIO(render(table, "csv")))
    assert row["bwt_mean"] == "-10.0"


@pytest.mark.parametrize(
    ("command", "folder"),
    [("report --format md", "tables"), ("figure matrix --format svg", "figures")],
)
def test_reports_write_through_no_link(
    save: Callable[..., Path],
    clbench: Callable[..., Any],
    tmp_path: Path,
    command: str,
    folder: str,
) -> None:
    out = save([a_run()])
    victim = tmp_path / "victim"
    victim.mkdir()
    (out / folder).symlink_to(victim)
    result = clbench(f"{command} --out {out}")
    assert result.code == 2
    assert "is a link" in result.err
    assert not list(victim.iterdir())
    assert clbench(f"{command} --out {out} --to {out / folder}").code == 0  # the user named it
