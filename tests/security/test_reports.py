"""No valid record breaks a report or steers what shows it; what numbers were made with is said."""

import contextlib
import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clbench import limits
from clbench.errors import UserError
from clbench.memory import Memory
from clbench.record import (
    Clock,
    DataUse,
    Differs,
    Epoch,
    Failure,
    Git,
    Part,
    Provenance,
    Record,
    Shown,
    Spec,
    Titles,
)
from clbench.record_file import encode, parse
from clbench.report import EXTRA, FORMATS, terminal, write
from clbench.report.columns import COLUMNS
from clbench.report.compare import by_seed, compare
from clbench.report.escape import csv_cell
from clbench.report.figures import KINDS
from clbench.report.figures.write import write as draw
from clbench.report.page.serve import Live
from clbench.report.profile import profile
from clbench.report.runs import runs_of
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


def of(kind: Any, *values: Any, **named: Any) -> Any:
    """A struct from its first fields in order, and others by name."""
    return kind(**dict(zip(kind.__struct_fields__, values, strict=False)), **named)


NAME, TEXT, MOST = "n" * 300, "t, " * 1333, 2**53
FIELDS = "{value} {value:.9f} {value.real} " + TEXT[:900]
MANY = {f"p{n:03}": "v" * 500 for n in range(1000)}
SPEC = a_run().spec
EPOCH = Epoch(
    task=limits.TASKS, epoch=MOST, lr=1e100, loss=1e100, valid_loss=-1e100, valid_accuracy=100.0,
    samples=MOST, seconds=1e10,
)  # fmt: skip
EXTREMES: dict[str, dict[str, Any]] = {
    "long times": {"seconds": of(Clock, 1e10, [1e10] * 2, [1e10] * 2, {"data": 1e10})},
    "short times": {"seconds": of(Clock, 5e-324, [5e-324] * 2, [0.0] * 2), "curve": [EPOCH] * 9},
    "much memory": {"memory": Memory(MOST, MOST, MOST), "peak_memory": MOST},
    "one byte": {"memory": Memory(1, 0, MOST)},
    "empty texts": {
        "spec": of(Spec, of(Part, ""), of(Part, ""), {"": ""}, 0, 0, ""),
        "provenance": of(Provenance, versions={"": ""}), "data": {"": of(DataUse, "")},
    },
    "long texts": {
        "spec": of(Spec, of(Part, NAME, MANY), of(Part, NAME, MANY), MANY, 0, 1, NAME),
        "differs": of(Differs, MANY, MANY, MANY),
        "titles": of(Titles, NAME, NAME), "family": NAME, "data": {NAME: of(DataUse, NAME, TEXT)},
        "provenance": of(Provenance, versions=dict.fromkeys(MANY, NAME), host=NAME, cpu=NAME),
    },
    "large values": {
        "spec": msgspec.structs.replace(SPEC, method=of(Part, "m", {"k": 2**63 - 1, "x": -1e100})),
        "differs": of(Differs, method={"k": 2**63 - 1}), "replay_size": "k",
    },
    "large seed": {"spec": msgspec.structs.replace(SPEC, seed=MOST, threads=MOST)},
    "large curve": {"curve": [EPOCH] * 100},
    "diagnostics": {
        "lays_open": {
            "n": of(Shown, NAME, "number", NAME, 1e100, FIELDS),
            "l": of(Shown, "", "layers", "%"),
            "w": of(Shown, NAME, "without", NAME),
            "s": of(Shown, "", "spaces", names=["", "a", "a"]),
        },
        "diagnostics": [
            {"n": -1e100, "l": [1e100, -(2**63)], "w": {"1": {"nothing": 1e100, NAME: -1}}, "s": {}}
        ] * 2,
    },
    "layers": {
        "lays_open": {"l": of(Shown, "l", "layers", "%")}, "diagnostics": [{"l": [0.0] * 100}] * 2,
    },
    "many entries": {
        "lays_open": {f"e{n}": of(Shown, "e", "layers", "%") for n in range(300)},
        "diagnostics": [{f"e{n}": [1.0] for n in range(300)}] * 2,
    },
    "one task": {"tasks": 1, "done": 1, "R": [[50.0]], "R0": []},
    "many tasks": {"tasks": 40, "done": 40, "R": [[5e-324] * 40] * 40, "R0": [100.0] * 40},
    "unfinished": {"status": "partial", "tasks": limits.TASKS, "done": 0, "R": [], "R0": []},
    "failed": {"status": "failed", "done": 0, "R": [], "failure": of(Failure, TEXT, "x" * 200_000)},
}  # fmt: skip


@pytest.mark.parametrize("name", EXTREMES)
def test_no_valid_record_breaks_a_report(name: str, tmp_path: Path) -> None:
    def one(seed: int) -> Record:
        changes = dict(EXTREMES[name])
        spec, R = changes.pop("spec", SPEC), changes.pop("R", [[95.0, 60.0], [85.0, 80.0]])
        record = a_run(seed=seed, **changes)
        record.spec, record.R = msgspec.structs.replace(spec, seed=max(spec.seed, seed)), R
        return parse(encode(record), record.id)

    records = [one(0), one(1), a_run("other")]
    made = tables(records, columns=EXTRA, vs_paper=True)
    assert len(terminal(made, 100)) < 300_000
    assert profile(records)
    write(made, tmp_path, FORMATS, records=records)
    for kind in KINDS.keys() - {"latent"}:
        with contextlib.suppress(UserError):  # the record has not what this figure needs
            draw(kind, made, tmp_path, ["svg"])
    for path in tmp_path.iterdir():
        assert path.stat().st_size < 3e6, path
        if path.suffix in (".csv", ".json", ".md", ".svg"):
            assert not re.search(r"\b(nan|inf|infinity)\b", path.read_text(), re.I), path


def test_a_measurement_that_nobody_can_have_measured_is_no_value() -> None:
    """2^53 samples in 5e-324 seconds are infinitely many per second."""
    runs = [a_run("a", seed, **EXTREMES["short times"]) for seed in (0, 1)]
    (row,) = tables(runs)[0].rows
    assert row.value("rate") is None
    a, b = (by_seed(runs_of(runs), "method", "A") for _ in "ab")
    assert compare(a, b, "acc", 0.05)[0].word == "same"


@pytest.mark.parametrize("column", [key for key, column in COLUMNS.items() if column.best])
def test_compare_meets_no_infinite_value(column: str) -> None:
    runs = [a_run("a", seed, **changes) for seed, changes in enumerate(EXTREMES.values())
            if not {"spec", "R", "status"} & changes.keys()]  # fmt: skip
    assert all(
        abs(run.values[column]) < 1e15 or math.isnan(run.values[column]) for run in runs_of(runs)
    )


STEERING = {
    "controls": "\u202egnp\u2066 a\nb\r\nc\u2028d\u0085e \x1b[2J\x9b31m\x1b]0;x\x07"
    " \u200d\u200b\ufeff \U000e0041 \x0bb\x0cc\x1cd\x00",
    "markup": "<script>alert(1)</script> </script><!-- \\input{x}\\write18{y} [a](javascript:b)"
    " | `c` ![d](http://e) %s {0.__class__} {value}",
    "formula": '=HYPERLINK("x")',
}
SAFE = re.compile(
    r"[^\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202f\u2066-\u2069\ufeff\U000e0041]*"
)


@pytest.mark.parametrize("text", STEERING.values(), ids=STEERING)
def test_no_text_of_a_record_steers_what_shows_it(
    save: Callable[..., Path], clbench: Callable[..., Any], text: str
) -> None:
    part, values = of(Part, text, {text: text}), {text: text}
    everywhere = {
        "spec": of(Spec, part, part, values, 0, 1, text),
        "differs": of(Differs, values, values, values),
        "titles": of(Titles, text, text), "family": text, "replay_size": text,
        "data": {text: of(DataUse, text, text)}, "started": text, "finished": text,
        "provenance": of(Provenance, values, of(Git, text, True), text, text, text, 1, [text]),
        "lays_open": {
            text: of(Shown, text, "number", text, 9.0, text), "s": of(Shown, text, "layers", "%"),
        },
        "diagnostics": [{text: 1.0, "s": [1.0]}] * 2,
        "seconds": of(Clock, 1.0, [1.0] * 2, [0.0] * 2, {text: 1.0, f"plugin {text}": 1.0}),
    }  # fmt: skip
    spec = everywhere.pop("spec")
    done = msgspec.structs.replace(a_run(**everywhere), spec=spec)
    failed = msgspec.structs.replace(
        done, id="f" * 12, status="failed", failure=of(Failure, text, f"a\n{text}"),
        spec=msgspec.structs.replace(spec, seed=1),
    )  # fmt: skip
    out = save([])
    for record in (done, failed):  # as a stranger writes it
        content = msgspec.json.encode(record)
        (out / "records" / f"{record.id}.json").write_bytes(content)
    to = out / "to"
    said = [
        clbench(*words.split(), "--out", str(out))
        for words in (
            f"report --columns all --to {to}", "status", "ls results", f"show {done.id}", "show ff",
            *(f"figure {kind} --format svg --to {to}" for kind in ("matrix", "memory")),
            "run --methods finetune --benchmarks split-mnist-5k --dry-run",
            "report --methods nothing", "status --json", "ls results --json", "show ff --json",
        )
    ]  # fmt: skip
    said.append(clbench("compare", text, text, "--out", str(out)) if "\0" not in text else said[0])
    shown = [one.out + one.err for one in said]
    assert not any("Traceback" in one.replace("traceback", "") for one in shown)
    written = [path for path in to.iterdir() if path.suffix not in (".png", ".pdf")]
    assert {path.suffix for path in written} >= {
        ".md",
        ".tex",
        ".csv",
        ".json",
        ".html",
        ".txt",
        ".svg",
    }
    for one in [*shown[:-1], *(path.read_text() for path in written)]:
        assert SAFE.fullmatch(one.replace("\t", "")), ascii(one)
    for path in written:
        content = path.read_text()
        if path.suffix == ".html":
            assert content.count("<script") == content.count("</script") == 2
            assert "<!--" not in content.partition("</style>")[2]
        if path.suffix == ".tex":
            assert not re.search(r"\\(input\{x|write)", content)
        if path.suffix == ".md":
            assert not re.search(r"(?<!\\)\]\(|(?<!\\)`|<script", content)


def test_links_to_nothing_do_not_stop_the_served_page(tmp_path: Path) -> None:
    (tmp_path / "loop.json").symlink_to("loop.json")
    (tmp_path / "gone.json").symlink_to("gone")
    live = Live(tmp_path, lambda: ([], []))
    before = live.version()
    (tmp_path / "new.json").write_text("{}")
    assert live.version() != before
