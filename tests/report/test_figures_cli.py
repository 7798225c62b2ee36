"""`clbench figure` as a user meets it: files, bytes, and a sentence for each mistake."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clbench.record import Record
from clbench.report.figures import KINDS
from clbench.store import Store

Make = Callable[..., Record]
Save = Callable[[list[Record]], Path]


def test_without_a_kind_the_kinds_are_listed(clbench: Callable[..., Any]) -> None:
    for words in ("figure", "figure ls"):
        said = clbench(words)
        assert said.code == 0
        assert [line.split()[0] for line in said.out.splitlines()] == list(KINDS)


def test_it_writes_every_format_and_a_caption(
    grid: list[Record], save: Save, clbench: Callable[..., Any]
) -> None:
    out = save(grid)
    said = clbench("figure", "accuracy", "--out", str(out))
    assert said.code == 0, said.err
    paths = [out / "figures" / f"figure-accuracy-two-tasks.{end}" for end in ("pdf", "svg", "png")]
    assert [path.read_bytes()[:4] for path in paths] == [b"%PDF", b"<?xm", b"\x89PNG"]
    assert all(f"wrote {path}" in said.out for path in paths)
    assert "Two Tasks" in paths[0].with_suffix(".txt").read_text()


@pytest.mark.parametrize("kind", ["accuracy", "matrix", "memory"])
def test_the_same_records_give_the_same_bytes_without_a_date(
    kind: str, grid: list[Record], save: Save, tmp_path: Path
) -> None:
    out = save(grid)
    for folder in ("a", "b"):  # in processes of their own, as hashes differ between processes
        subprocess.run(
            [
                sys.executable,
                "-m",
                "clbench",
                "figure",
                kind,
                "--out",
                out,
                "--to",
                tmp_path / folder,
            ],
            check=True,
        )
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert len(names) == 4
    for name in names:
        content = (tmp_path / "a" / name).read_bytes()
        assert content == (tmp_path / "b" / name).read_bytes()
        assert not re.search(rb"20\d\d-\d\d-\d\d|D:20\d\d|matplotlib[^.]* v?\d", content, re.I), (
            name
        )


def test_an_svg_with_markup_in_a_name_is_well_formed(
    record: Make, save: Save, tmp_path: Path, clbench: Callable[..., Any]
) -> None:
    out = save([record("<b>&amp;\\$_%{}", 0)])
    said = clbench("figure", "accuracy", "--out", str(out), "--to", str(tmp_path / "f"))
    assert said.code == 0, said.err
    xml.etree.ElementTree.parse(tmp_path / "f" / "figure-accuracy-two-tasks.svg")


def test_a_benchmark_that_lacks_what_is_needed_is_named_and_the_others_drawn(
    record: Make, open_method: Record, save: Save, clbench: Callable[..., Any]
) -> None:
    other = record("ewc", 0, benchmark="more")
    out = save([open_method, other])
    said = clbench("figure", "capacity", "--out", str(out))
    assert said.code == 0
    assert "capacity-two-tasks" in said.out
    assert "more has none" in said.err
    assert said.err.startswith("Warning: ")


BAD = {
    "accurcy": "Unknown figure 'accurcy'. Did you mean 'accuracy'?",
    "accuracy --format tiff": "Unknown format 'tiff'.",
    "accuracy --format ,": "--format names nothing. Write --format pdf,svg,png.",
    "accuracy --methods zzz": "Unknown method in the records: 'zzz'.",
    "accuracy --benchmarks two-task": "Did you mean 'two-tasks'?",
    "capacity": "'capacity' needs runs that record a share of each layer, and two-tasks has none",
    "replay": "'replay' needs methods that keep a number of samples per class, and two-tasks has",
    "latent": "'latent' needs runs of a method that lays latent spaces open, and two-tasks has",
}


@pytest.mark.parametrize("words", BAD)
def test_a_mistake_is_one_sentence_and_writes_nothing(
    words: str, grid: list[Record], save: Save, clbench: Callable[..., Any]
) -> None:
    out = save(grid)
    said = clbench(f"figure {words} --out {out}")
    assert said.code == 2
    assert BAD[words] in said.err
    assert said.err.count("\n") == 1
    assert not (out / "figures").exists()


def refused(clbench: Callable[..., Any], out: Path, kind: str) -> str:
    """The one sentence of a figure that cannot be drawn."""
    said = clbench("figure", kind, "--out", str(out))
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert not (out / "figures").exists()
    return str(said.err)


@pytest.mark.parametrize("kind", KINDS)
def test_no_records(kind: str, tmp_path: Path, clbench: Callable[..., Any]) -> None:
    assert "No records in" in refused(clbench, tmp_path / "nowhere", kind)


@pytest.mark.parametrize("kind", ["accuracy", "matrix", "replay", "capacity", "latent"])
def test_too_few_tasks(kind: str, record: Make, save: Save, clbench: Callable[..., Any]) -> None:
    one = record("agem", 0, R=[[95.0]], R0=[50.0], tasks=1, done=1)
    said = refused(clbench, save([one]), kind)
    assert f"The figure {kind!r} needs at least 2 tasks, and two-tasks has 1" in said


def test_memory_needs_only_one_task(record: Make, save: Save, clbench: Callable[..., Any]) -> None:
    out = save([record("agem", 0, R=[[95.0]], R0=[50.0], tasks=1, done=1)])
    assert clbench("figure", "memory", "--out", str(out)).code == 0


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_finished(kind: str, record: Make, save: Save, clbench: Callable[..., Any]) -> None:
    said = refused(clbench, save([record("ewc", 0, status="partial", done=1)]), kind)
    assert "needs finished runs, and two-tasks has none yet" in said


def test_one_replay_size_is_no_line(record: Make, save: Save, clbench: Callable[..., Any]) -> None:
    one = record("agem", 0, replay_size="kept", spec__method__params={"kept": 13})
    assert "at least two numbers of samples per class" in refused(clbench, save([one]), "replay")


def test_more_methods_than_can_be_read(
    record: Make, save: Save, clbench: Callable[..., Any]
) -> None:
    out = save([record(f"method-{i}", 0) for i in range(25)])
    said = refused(clbench, out, "accuracy")
    assert "25 methods on two-tasks are too many for one figure (at most 24)" in said


def test_a_folder_that_cannot_be_written(
    grid: list[Record], save: Save, tmp_path: Path, clbench: Callable[..., Any]
) -> None:
    (tmp_path / "file").write_text("precious")
    said = clbench("figure", "memory", "--out", str(save(grid)), "--to", str(tmp_path / "file"))
    assert said.code == 2
    assert "cannot be written to" in said.err
    assert (tmp_path / "file").read_text() == "precious"


def test_a_damaged_record_is_named_and_counted(
    grid: list[Record], save: Save, clbench: Callable[..., Any]
) -> None:
    out = save(grid)
    (out / "records" / "0000deadbeef.json").write_text('{"schema": 1')
    said = clbench("figure", "memory", "--out", str(out))
    assert said.code == 0
    assert "0000deadbeef.json is skipped" in said.err
    caption = (out / "figures" / "figure-memory-two-tasks.txt").read_text()
    assert "1 record could not be read" in caption


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        ("report", []),
        ("status", []),
        ("ls methods", []),
        ("--help", []),
        ("figure", []),
        ("figure --help", []),
        ("figure memory", ["matplotlib"]),
    ],
)
def test_matplotlib_is_imported_by_what_draws_and_nothing_else(
    words: str, heavy: list[str], grid: list[Record], save: Save
) -> None:
    out = save(grid)
    arguments = words.split()
    if words in ("report", "status", "figure memory"):
        arguments += ["--out", str(out)]
    program = (
        "import json, sys\nfrom clbench.cli import cli\n"
        "try:\n    cli(json.loads(sys.argv[1]))\nexcept SystemExit:\n    pass\n"
        "heavy = {'matplotlib', 'matplotlib.pyplot', 'sklearn', 'torch'} & set(sys.modules)\n"
        "print(json.dumps(sorted(heavy)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stderr.splitlines()[-1]) == heavy


def test_drawing_leaves_the_records_alone(
    grid: list[Record], save: Save, clbench: Callable[..., Any]
) -> None:
    out = save(grid)
    before = {path.name: path.read_bytes() for path in (out / "records").iterdir()}
    clbench("figure", "matrix", "--out", str(out))
    assert {path.name: path.read_bytes() for path in (out / "records").iterdir()} == before
    assert len(Store(out).records()[0]) == len(grid)
