"""The published numbers: complete, in agreement with one another, and put beside measured ones."""

import csv
import json
import tomllib
from importlib.resources import files
from typing import Any

import pytest

from clbench.grid import make_grid
from clbench.papers import find_paper
from clbench.report import latex, markdown, plain, terminal
from clbench.report.table import MISSING, tables
from clbench.report.write import TABLES as TABLE_FORMATS
from clbench.report.write import render

ACL = find_paper("acl-2020")
MAIN = ("split-mnist", "permuted-mnist", "split-cifar100", "split-miniimagenet", "five-datasets")
rows = ACL.rows_of
# lines of numbers in the paper's tables, counted on the page (tab:memory has one value a column)
ROWS = {
    "split-mnist": 10, "permuted-mnist": 13, "split-cifar100": 8, "split-miniimagenet": 8,
    "five-datasets": 3, "ablation": 11, "replay": 12, "intransigence": 12,
}  # fmt: skip
PIXELS = {"split-miniimagenet": 3 * 84 * 84, "split-cifar100": 3 * 32 * 32, "split-mnist": 784}
PIXELS |= {"permuted-mnist": 784}
# parameters whose MB, 4 bytes each, do not round to what is printed
CONTRADICTED = {("split-mnist", "ACL"), ("split-cifar100", "ACL"), ("split-miniimagenet", "ACL")}


def test_no_row_is_missing() -> None:
    assert {name: len(rows(name)) for name in ACL.tables if name != "datasets"} == ROWS
    datasets = ACL.tables["datasets"]
    assert len(datasets.sizes) == 13
    summary = {row.benchmark: row for row in datasets.summary}
    assert set(summary) == set(MAIN)
    for row in datasets.sizes:
        of = summary[row.benchmark]
        if row.benchmark != "permuted-mnist":  # its tasks share their classes
            assert row.classes * of.tasks[0] == of.classes


def test_megabytes_are_four_bytes_a_parameter_but_where_the_paper_contradicts_itself() -> None:
    checked = set()
    for name in MAIN:
        for row in rows(name):
            if row.parameters is None or row.arch is None:
                continue
            agrees = abs(4e-6 * row.parameters - row.arch) <= 0.05
            assert agrees == ((name, row.title) not in CONTRADICTED), row
            checked.add((name, row.title, row.tasks))
    assert len(checked) == 10


@pytest.mark.parametrize(
    ("table", "method", "images"),
    [
        ("split-miniimagenet", "acl[per_class=1]", 100),
        ("split-miniimagenet", "agem", 1300),
        ("split-cifar100", "er-res", 1300),
        ("permuted-mnist", "vcl-c", 2000),
        ("split-mnist", "vcl-c", 200),
    ],
)
def test_replay_buffers_are_four_bytes_a_pixel(table: str, method: str, images: int) -> None:
    row = next(row for row in rows(table) if row.method == method)
    megabytes = images * PIXELS[table] * 4e-6
    assert row.replay is not None
    assert megabytes == pytest.approx(row.replay, abs=0.05)


def test_tables_that_repeat_a_number_agree() -> None:
    acl = next(row for row in rows("split-miniimagenet") if row.title == "ACL")
    last = rows("ablation")[-1]
    assert (acl.acc, acl.acc_std, acl.bwt) == (last.acc, last.acc_std, last.bwt)
    replay = {row.method: row for row in rows("replay")}
    assert replay["acl[per_class=1]"].acc == acl.acc
    for method in ("agem", "er-res"):
        main = next(row for row in rows("split-miniimagenet") if row.method == method)
        assert (replay[method].acc, replay[method].acc_std) == (main.acc, main.acc_std)


def test_the_ablation_is_that_of_the_study() -> None:
    study = tomllib.loads((files("clbench.studies") / "table-ablation.toml").read_text())
    assert ",".join(row.method for row in rows("ablation")) == "".join(
        study["grid"][0]["methods"].split()
    )


def test_sizes_of_tasks_add_up_to_mnist() -> None:
    sizes = [s for s in ACL.tables["datasets"].sizes if s.benchmark == "split-mnist"]
    assert sum(s.train + s.valid for s in sizes) == 60_000
    assert sum(s.test for s in sizes) == 10_000


# ---- beside measured numbers ----


def measured(record, method: str, accuracies: list[float], tasks: int = 5, **changes):
    changes.setdefault("benchmark", "split-mnist")
    changes = {"done": tasks, "R0": [50.0] * tasks} | changes
    return [
        record(method, seed, **{"tasks": tasks, "R": [[accuracy] * tasks] * tasks} | changes)
        for seed, accuracy in enumerate(accuracies)
    ]


def verdict(records):
    """How the paper's numbers compare with the first row of the table of these records."""
    [table] = tables(records)
    return table.versus and table.versus.verdict(table.rows[0])


@pytest.mark.parametrize(
    ("accuracies", "word", "text"),
    [
        ([95.78, 95.78], "matches", "matches (+0.00 pp, +0.0 sd)"),
        ([95.13, 95.13], "matches", "matches (-0.65 pp, -1.9 sd)"),
        ([95.0, 95.0], "below", "below (-0.78 pp, -2.2 sd)"),
        ([96.0, 97.0], "above", "above (+0.72 pp, +2.1 sd)"),
    ],
)
def test_the_word_is_by_published_standard_deviations(record, accuracies, word, text) -> None:
    found = verdict(measured(record, "ewc", accuracies))  # 95.78 (0.35)
    assert found is not None
    assert (found.word, found.text()) == (word, text)


def test_without_a_published_deviation_it_is_by_points(record) -> None:
    def of(accuracy: float):
        return verdict(measured(record, "ewc", [accuracy], tasks=10, benchmark="permuted-mnist"))

    assert [of(a).text() for a in (87.3, 87.1)] == ["matches (-0.90 pp)", "below (-1.10 pp)"]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"protocol": {"epochs": 3}}, "not comparable: other budget"),
        (
            {"data": {"mnist": {"sha256": "cd" * 32, "note": "a part"}}},
            "not comparable: other data",
        ),
        ({"status": "partial", "done": 4, "R": [[95.78] * 5] * 4}, "not comparable: no number"),
    ],
)
def test_what_cannot_be_compared_says_why(record, changes, word) -> None:
    found = verdict(measured(record, "ewc", [95.78], **changes))
    assert found is not None
    assert found.text() == word


def test_threads_and_device_are_no_other_budget(record) -> None:
    records = measured(record, "ewc", [95.78], spec__threads=2, spec__device="cuda")
    found = verdict(records)
    assert found is not None
    assert found.word == "matches"


def test_every_recipe_of_acl_stands_beside_the_papers(record) -> None:
    for method in ("acl", "acl[preset=paper]", "acl[preset=official]"):
        found = verdict(measured(record, method, [99.76]))
        assert found is not None
        assert found.published.title == "ACL"


def test_an_acl_whose_s_is_frozen_is_not_the_papers(record) -> None:
    for method in ("acl[preset=frozen]", "acl[shared_rate=0]", "acl[shared=false]"):
        assert verdict(measured(record, method, [99.76])) is None


def test_every_published_row_of_acl_and_every_study_learns_s_in_every_task() -> None:
    grids = [tomllib.loads(path.read_text()).get("grid", []) for path in studies()]
    wanted = [(grid["benchmarks"], grid["methods"]) for grids_ in grids for grid in grids_]
    wanted += [(row.benchmark, row.method) for row in ACL.rows]
    cells = [cell for names in wanted for cell in make_grid(names[1], names[0], [0], {})]
    params = [cell.spec.method_params for cell in cells if cell.method.name == "acl"]
    assert len(params) > 20
    assert all(values["shared_rate"] > 0 for values in params)


def studies() -> list[Any]:
    return [path for path in files("clbench.studies").iterdir() if path.name.endswith(".toml")]


def test_other_streams_and_methods_have_no_published_row(record) -> None:
    assert verdict(measured(record, "ewc[strength=3]", [95.0])) is None
    other = measured(record, "ewc", [95.0], benchmark="split-mnist[backbone=resnet18]")
    assert verdict(other) is None


def test_every_format_puts_them_beside(record) -> None:
    records = measured(record, "ewc", [95.0, 96.0]) + measured(record, "pnn", [99.0])
    text = terminal(tables(records, vs_paper=True), 200)
    line = next(line for line in text.splitlines() if line.startswith("ewc"))
    assert "95.78 ± 0.35" in line
    assert "-4.20 ± 0.21" in line
    assert "matches (-0.28 pp, -0.8 sd)" in line
    assert MISSING in next(line for line in text.splitlines() if line.startswith("pnn"))
    assert "Ebrahimi et al., 2020" in text
    assert "95.78" not in terminal(tables(records))
    [table] = tables(records, vs_paper=True)
    line = "| 95.78 ± 0.35 [a] | -4.20 ± 0.21 | 1.1 | matches (-0.28 pp, -0.8 sd) |"
    assert line in markdown.render(table)
    tex = latex.render(table)
    assert r"& 95.78(0.35)\textsuperscript{a} & $-$4.20(0.21) & 1.1 & \parbox" in tex
    assert r"\raggedleft matches (-0.28 pp, -0.8 sd)\strut}" in tex
    rows_by_method = {row["method"]: row for row in json.loads(plain.render_json(table))["rows"]}
    assert rows_by_method["pnn"]["published"] is None
    assert rows_by_method["ewc"]["published"]["verdict"] == "matches"
    assert rows_by_method["ewc"]["published"]["source"] == "quoted from UCB's paper"
    values = next(csv.DictReader(plain.render_csv(table).splitlines()))
    assert (values["paper"], values["paper_acc"]) == ("Ebrahimi et al., 2020", "95.78")
    assert values["paper_verdict"] == "matches"


def test_sources_and_contradictions_stand_below(record) -> None:
    records = measured(record, "ewc", [95.0]) + measured(record, "joint", [99.9])
    [table] = tables(records, vs_paper=True)
    acc = next(column for column in table.columns if column.key == "paper-acc")
    texts = [table.show(row, acc, " ± {}") for row in table.rows]
    assert texts == ["95.78 ± 0.35 [a]", "99.88 ± 0.02 [b]"]
    assert (
        "Numbers of Ebrahimi et al., 2020: [a] quoted from UCB's paper, "
        "[b] own run, not a continual learner: an upper bound."
    ) in table.remarks
    remarks = table.remarks[-1]
    assert "ORD-JT: MB of all images and the network together." in remarks
    assert "the text gives 99.89 for joint training" in remarks
    assert "ACL: the text says" not in remarks  # of a row that is not shown
    assert tables(records)[0].remarks == []
    written = [render(table, form) for form in TABLE_FORMATS if form != "csv"]
    for text in [terminal(tables(records, vs_paper=True), 200), *written]:
        assert "the text gives 99.89 for joint training" in text.replace("\n", " ")


def test_the_published_intransigence_stands_beside_the_measured(record) -> None:
    records = measured(record, "hat", [99.0]) + measured(record, "er-res", [98.0])
    [table] = tables(records, vs_paper=True, columns=("intransigence",))
    key = next(column for column in table.columns if column.key == "paper-intransigence")
    shown = {row.name: table.show(row, key, "({})") for row in table.rows}
    assert shown == {"hat": "-0.0001", "er-res": "0.0020"}
    assert "as percentage points the numbers are plausible" in table.remarks[-1]
    [without] = tables(records, vs_paper=True)
    assert "paper-intransigence" not in [column.key for column in without.columns]
    assert "percentage points" not in without.remarks[-1]
    er_res = next(row for row in table.rows if row.name == "er-res")
    found = table.versus.verdict(er_res)
    assert found is not None
    assert found.text() == "not comparable: no ACC published"
    by_method = {row["method"]: row for row in json.loads(plain.render_json(table))["rows"]}
    assert by_method["hat"]["published"]["intransigence"] == -0.0001


def test_a_stream_of_other_length_stands_beside_the_papers(record) -> None:
    def of(method: str, tasks: int):
        stream = f"permuted-mnist[tasks={tasks}]"
        return verdict(measured(record, method, [90.0], tasks=tasks, benchmark=stream))

    short = of("acl", 5)
    assert (short.published.tasks, short.text()) == (10, "not comparable: paper has 10 tasks")
    assert of("acl", 40).text().startswith("below")
    assert of("pnn", 10).text() == "not comparable: paper has 20 tasks"


def test_a_row_of_the_ablation_is_called_as_in_the_paper(record) -> None:
    [method] = [row.method for row in rows("ablation") if row.title == "S, P, L_diff"]
    made = measured(record, method, [50.0], tasks=20, benchmark="split-miniimagenet")
    [table] = tables(made, vs_paper=True)
    assert f"{method} is the row S, P, L_diff of tab:ablation." in table.remarks[-1]
