"""Studies: the paper's are complete, a user's own are checked, and both train and report."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clbench.errors import UserError
from clbench.grid import make_grid
from clbench.papers import Paper, Published, find_paper
from clbench.record import Record
from clbench.report.paper import unlike, versus
from clbench.report.runs import runs_of
from clbench.spec import Cell
from clbench.study import find_study, shipped

OWN = """
title = "Mine"
seeds = 2
columns = ["forgetting"]

[[grid]]
benchmarks = "BENCHMARK"
methods = "finetune,ewc"

[small]
seeds = 1
epochs = 1
"""


TABLES = [name for name in shipped() if name.startswith("table-") and not find_study(name).sizes]


@pytest.mark.parametrize("name", TABLES)
def test_a_study_has_every_row_of_its_table(name: str) -> None:
    study = find_study(name)
    grid = {(c.labels["benchmark"], c.labels["method"], c.spec.seed) for c in study.cells("paper")}
    for row in find_paper("acl-2020").rows_of(name.removeprefix("table-")):
        usual = make_grid(row.method, row.benchmark, [0], {})[0]
        tasks = usual.spec.benchmark_params.get("tasks", row.tasks)
        stream = row.benchmark if row.tasks == tasks else f"{row.benchmark}[tasks={row.tasks}]"
        for seed in range(study.seeds):
            assert (stream, usual.labels["method"], seed) in grid, row


def test_der_mnist_has_every_row_of_the_paper_under_its_protocol() -> None:
    study = find_study("der-mnist")
    assert study.paper == "der-2020"
    paper = find_paper(study.paper)
    runs = runs_of(_as_if_run(cell) for cell in study.cells("paper"))
    assert len({run.id for run in runs}) == len(runs) == study.seeds * len(_own(paper))
    missing = {row.where for row in _own(paper)}
    for run in runs:
        beside = versus([run], [paper])
        assert beside is not None, run
        row = beside.find(run)
        assert row is not None, run
        assert unlike(run, row) == "", row
        missing.discard(row.where)
    assert missing == set()


def _own(paper: Paper) -> list[Published]:
    """The rows that clbench has a method for."""
    return [row for row in paper.rows if row.method]


def _as_if_run(cell: Cell) -> Record:
    tasks = cell.spec.benchmark_params["tasks"]
    return Record(
        id=cell.id, spec=cell.versioned(), differs=cell.differs, scenario=cell.scenario, tasks=tasks
    )


def test_a_study_may_have_a_protocol_of_its_own_and_of_a_grid(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    text = """title = "Mine"
    [protocol]
    epochs = 2
    valid = 0
    [[grid]]
    methods = "finetune"
    benchmarks = "split-mnist-5k"
    [[grid]]
    methods = "ewc"
    benchmarks = "split-mnist-5k"
    protocol = { lr = 0.5, epochs = 3 }
    [small]
    epochs = 1
    """
    path.write_text(text)
    study = find_study(str(path))

    def values(budget: str) -> list[tuple[float, int, float]]:
        protocols = [cell.spec.protocol for cell in study.cells(budget)]
        return [(p.lr, p.epochs, p.valid) for p in protocols]

    assert values("paper") == [(0.03, 2, 0.0), (0.5, 3, 0.0)]
    assert values("small") == [(0.03, 1, 0.0), (0.5, 1, 0.0)]
    assert "epochs=2,valid=0" in study.note("paper")
    for wrong, sentence in (
        ("epoch = 2", "protocol. 'epoch'. Did you mean 'epochs'"),
        ("epochs = 0", "epochs=0 is not"),
        ('backbone = "./evil.py"', "names the file './evil.py'"),
    ):
        path.write_text(text.replace("epochs = 2", wrong))
        with pytest.raises(UserError, match=re.escape(sentence)):
            find_study(str(path))
        path.write_text(text.replace("lr = 0.5, epochs = 3", wrong))
        with pytest.raises(UserError, match=re.escape(sentence)):
            find_study(str(path))
    path.write_text(f'paper = "der-2021"\n{text}')
    with pytest.raises(UserError, match="Did you mean 'der-2020'"):
        find_study(str(path))


def test_the_latent_spaces_are_of_two_rows_of_the_ablation_without_l_diff() -> None:
    with_d, without_d = find_study("figure-latent").cells("paper")
    assert with_d.spec.method_params["discriminator"]
    one, other = with_d.spec.method_params, without_d.spec.method_params
    assert {key for key in one if one[key] != other[key]} == {"discriminator"}
    assert one["diff"] == 0
    assert {with_d.id, without_d.id} <= {
        cell.id for cell in find_study("table-ablation").cells("paper")
    }


def test_every_study_has_a_small_budget_that_says_what_it_cuts() -> None:
    for name in shipped():
        study = find_study(name)
        if study.sizes:  # trains nothing
            continue
        assert len(study.cells("small")) < len(study.cells("paper")) or study.seeds == 1
        cut = "at most 5 tasks, " if "tasks" in study.small else ""
        assert f"Study {name}, budget small: 1 seed, {cut}epochs=" in study.note("small")
        assert f"the full one has {study.seeds} seed" in study.note("small")
        assert study.note("paper").startswith(f"{study.title}. Study {name}, budget paper: ")


def test_the_small_budget_changes_the_protocol(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(OWN.replace("BENCHMARK", "split-mnist-5k"))
    small, full = find_study(str(path)).cells("small"), find_study(str(path)).cells("paper")
    assert [cell.spec.protocol.epochs for cell in small] == [1, 1]
    assert {cell.spec.seed for cell in full} == {0, 1}
    assert {cell.spec.protocol.epochs for cell in full} == {50}


def test_the_small_budget_may_have_fewer_tasks_and_never_more(tmp_path: Path) -> None:
    streams = "permuted-mnist,permuted-mnist[tasks=20],permuted-mnist[tasks=3]"
    path = tmp_path / "mine.toml"
    path.write_text(OWN.replace("BENCHMARK", streams) + "tasks = 4\n")
    study = find_study(str(path))
    small = {cell.labels["benchmark"] for cell in study.cells("small")}
    assert small == {"permuted-mnist[tasks=4]", "permuted-mnist[tasks=3]"}
    assert {cell.spec.benchmark_params["tasks"] for cell in study.cells("paper")} == {3, 10, 20}
    assert "budget small: 1 seed, at most 4 tasks, epochs=1;" in study.note("small")
    assert "tasks" not in study.note("paper")


def test_a_caption_of_its_own_stands_before_the_note(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('caption = "What I found."\n' + OWN)
    assert find_study(str(path)).note("paper") == "What I found. Study mine, budget paper: 2 seeds."


def test_a_benchmark_whose_tasks_are_fixed_cannot_be_cut(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(OWN.replace("BENCHMARK", "split-mnist-5k") + "tasks = 2\n")
    assert find_study(str(path)).cells("paper")
    with pytest.raises(UserError, match="split-mnist-5k has no parameter `tasks`, so it cannot"):
        find_study(str(path)).cells("small")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("title = ", "is not valid TOML"),
        ("seeds = 3", "lacks title"),
        ('title = "x"\ngrid = []', r"\[\[grid\]\] or sizes"),
        (OWN.replace("seeds = 2", 'sizes = "split-mnist"\nseeds = 2'), r"\[\[grid\]\] or sizes"),
        ('title = "x"\nseed = 3', "Unknown key in"),
        ('title = "x"\nseeds = "3"', "seeds: .*int"),
        ('title = "x"\n[[grid]]\nmethods = "ewc"', "lacks benchmarks"),
        (OWN.replace("seeds = 2", "seeds = 0"), "seeds: .*1"),
        (OWN.replace("columns", 'figure = "matrixx"\ncolumns'), "Did you mean 'matrix'"),
        (OWN.replace("epochs = 1", "epoch = 1"), "Did you mean 'epochs'"),
        (OWN.replace('"forgetting"', '"forgeting"'), "Did you mean 'forgetting'"),
        (OWN.replace("seeds = 1", "seeds = true"), "at least 1"),
        (OWN.replace("epochs = 1", 'epochs = "many"'), "small.epochs"),
        (OWN.replace("epochs = 1", "tasks = 0"), "small.tasks must be a whole number of at least"),
        (OWN.replace("epochs = 1", "task = 5"), "Did you mean 'tasks'"),
    ],
)
def test_mistakes_in_a_file_are_sentences(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=sentence):
        find_study(str(path))


def test_a_study_without_a_small_budget_has_none(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(OWN.partition("[small]")[0].replace("BENCHMARK", "split-mnist-5k"))
    with pytest.raises(UserError, match="declares no small budget"):
        find_study(str(path)).cells("small")


def test_an_unknown_study_is_a_sentence() -> None:
    with pytest.raises(UserError, match="Did you mean 'table-split-mnist'"):
        find_study("table-split-mnis")
    with pytest.raises(UserError, match="There is no file"):
        find_study("nowhere.toml")


def test_a_study_of_ones_own_trains_and_reports(
    clbench: Callable[..., Any], tiny: Path, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('figure = "matrix"\n' + OWN.replace("BENCHMARK", str(tiny)))
    out = tmp_path / "out"
    command = ("study", str(path), "--allow-files", "--budget", "small", "--out", str(out))
    plan = clbench(*command, "--dry-run")
    assert plan.code == 0
    assert "2 of 2 runs to train" in plan.out
    result = clbench(*command)
    assert result.code == 0, result.err
    assert "Study mine, budget small: 1 seed, epochs=1" in result.out
    assert "forgetting %" in result.out
    assert {path.suffix for path in (out / "studies" / "mine").glob("figure-matrix-*")} == {
        ".pdf", ".svg", ".png", ".txt"
    }  # fmt: skip
    caption = (out / "studies" / "mine" / "figure-matrix-tiny.txt").read_text()
    assert find_study(str(path), files=True).note("small") in " ".join(caption.split())
    [table] = (out / "studies" / "mine").glob("*.json")
    assert {row["method"] for row in json.loads(table.read_text())["rows"]} == {"finetune", "ewc"}
    assert "0 of 2 runs to train" in clbench(*command, "--dry-run").out


def test_a_run_that_fails_leaves_the_figure_of_the_others(
    clbench: Callable[..., Any], tiny: Path, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    broken = OWN.replace("finetune,ewc", "finetune,derpp[beta=1e30]")
    path.write_text('figure = "matrix"\n' + broken.replace("BENCHMARK", str(tiny)))
    result = clbench(
        "study", str(path), "--allow-files", "--budget", "small", "--out", str(tmp_path / "out")
    )
    assert result.code == 1
    assert "1 of 2 runs" in result.err.splitlines()[-1]
    assert (tmp_path / "out" / "studies" / "mine" / "figure-matrix-tiny.pdf").exists()


def test_latent_spaces_on_a_benchmark_of_ones_own(
    clbench: Callable[..., Any], tiny: Path, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    own = OWN.replace("BENCHMARK", str(tiny)).replace("finetune,ewc", "acl")
    path.write_text('figure = "latent"\n' + own)
    out = tmp_path / "out"
    result = clbench(
        "study",
        str(path),
        "--allow-files",
        "--budget",
        "small",
        "--out",
        str(out),
        "--workers",
        "1",
    )
    assert result.code == 0, result.err
    assert (out / "studies" / "mine" / "figure-latent-tiny.png").exists()


@pytest.mark.parametrize(
    ("words", "method", "columns"),
    [
        (["--reference"], "joint", {"I_T pp"}),
        (["--reference", "each"], "joint[each=true]", {"I_T pp", "mean I pp"}),
    ],
)
def test_reference_trains_what_intransigence_needs(
    clbench: Callable[..., Any], tiny: Path, tmp_path: Path, words: list[str], method: str,
    columns: set[str],
) -> None:  # fmt: skip
    out = str(tmp_path / "out")
    base = [
        "run",
        "--methods",
        "finetune",
        "--benchmarks",
        str(tiny),
        "--out",
        out,
        "--epochs",
        "1",
    ]
    result = clbench(*base, *words)
    assert result.code == 0, result.err
    heading = result.out.splitlines()[2]
    assert {name for name in ("I_T pp", "mean I pp") if name in heading} == columns
    rows = {line.split()[0]: line for line in result.out.splitlines()[4:6]}
    assert set(rows) == {"finetune", method}
    assert "\N{EN DASH}" not in rows["finetune"]


def test_the_sizes_of_the_data_sets_are_a_study(
    clbench: Callable[..., Any], tmp_path: Path
) -> None:
    nowhere = ("--data-root", str(tmp_path / "nothing"), "--out", str(tmp_path))
    result = clbench("study", "table-datasets", *nowhere, "--dry-run")
    assert result.code == 0
    assert "10,766" in result.out
    assert "Warning: " in result.err
    assert "split-mnist" in result.err
    assert not (tmp_path / "studies").exists()
    assert "wrote" in clbench("study", "table-datasets", *nowhere).out
    assert len(list((tmp_path / "studies" / "table-datasets").iterdir())) == 3


def test_a_strangers_study_or_configuration_runs_no_file(
    tmp_path: Path, clbench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    proof = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(f"open({str(proof)!r}, 'w')")
    grid = '[[grid]]\nmethods = "ewc,./evil.py[a=1]"\nbenchmarks = "split-mnist-5k"\n'
    (tmp_path / "study.toml").write_text(f'title = "T"\n{grid}')
    (tmp_path / "config.toml").write_text('methods = ["ewc", "evil.py"]\n')
    for command, instead in (
        ("study ./study.toml", "--allow-files"),
        ("run --config config.toml", "--methods"),
    ):
        result = clbench(command)
        assert result.code == 2
        assert "evil.py" in result.err
        assert instead in result.err
    (tmp_path / "study.toml").write_text(f'title = "T\\u001b[31m"\n{grid}')
    assert "title has characters that cannot be printed" in clbench("study ./study.toml").err
    assert not proof.exists()
