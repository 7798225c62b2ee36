"""Comparisons: statistics by hand, pairing by seed, and what each side may be."""

import json
import math
from pathlib import Path

import pytest
from scipy import stats

from clbench.errors import UserError
from clbench.papers import Published
from clbench.record_file import encode
from clbench.report.compare import (
    against_paper,
    by_seed,
    compare,
    holm,
    interval,
    unpaired,
)
from clbench.report.runs import runs_of


def side(record, method: str, accuracies: dict[int, float], key: str = "protocol"):
    records = [record(method, seed=seed, last=(acc, acc)) for seed, acc in accuracies.items()]
    return by_seed(runs_of(records), key, "A")


def test_pairs_are_by_seed_and_the_test_is_students(record) -> None:
    a = side(record, "ewc", {0: 90.0, 1: 80.0, 2: 70.0, 7: 10.0})
    b = side(record, "agem", {2: 73.0, 1: 82.0, 0: 91.0, 9: 99.0})
    [line] = compare(a, b, "acc", 0.05)
    assert line.seeds == (0, 1, 2)
    assert (line.a, line.b, line.difference) == (80.0, 82.0, 2.0)
    assert line.p == pytest.approx(0.07418, abs=1e-5)  # t = 2 / (1 / sqrt(3)), 2 degrees
    assert line.word == "same"
    assert (line.low, line.high) == (1.0, 3.0)
    [line] = compare(a, b, "acc", 0.1)
    assert line.word == "better"
    [line] = compare(b, a, "acc", 0.1)
    assert (line.word, line.difference) == ("worse", -2.0)


def test_less_forgetting_is_better(record) -> None:
    def forgets(method: str, losses: list[float]):
        records = [
            record(method, seed=s, first=95.0, last=(95.0 - loss, 80.0))
            for s, loss in enumerate(losses)
        ]
        return by_seed(runs_of(records), "protocol", "A")

    [line] = compare(
        forgets("ewc", [9.0, 10.0, 11.0]), forgets("agem", [1.0, 2.0, 3.1]), "forgetting", 0.05
    )
    assert line.word == "better"


def test_one_seed_is_not_tested_and_equal_numbers_are_the_same(record) -> None:
    one, other = side(record, "ewc", {0: 90.0}), side(record, "agem", {0: 91.0})
    [line] = compare(one, other, "acc", 0.05)
    assert (line.p, line.word) == (None, "untested")
    assert compare(one, one, "acc", 0.05)[0].word == "same"
    two = side(record, "ewc", {0: 90.0, 1: 91.0})
    assert compare(two, two, "acc", 0.05)[0].word == "same"
    shifted = side(record, "agem", {0: 89.0, 1: 90.0})
    assert compare(two, shifted, "acc", 0.05)[0].word == "worse"  # by one point in every seed


def test_holms_correction_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_the_interval_is_that_of_resampled_means() -> None:
    assert all(math.isnan(end) for end in interval([2.0]))
    low, high = interval([0.0, 1.0])  # means 0, 1/2, 1 with chances 1/4, 1/2, 1/4
    assert (low, high) == (0.0, 1.0)
    assert interval([1.0, 5.0, 2.0]) == interval([1.0, 5.0, 2.0])


def test_the_paper_is_tested_by_welch(record) -> None:
    measured = side(record, "ewc", {0: 90.0, 1: 92.0, 2: 91.0}, "method")
    row = Published("t", "EWC", "ewc", "two-tasks", "task", 2, "own run", acc=88.0, acc_std=1.0)
    [line] = against_paper(measured, {("two-tasks", "ewc"): (row, 3)}, "acc", 0.05)
    theirs = [87.0, 88.0, 89.0]  # mean 88, standard deviation 1
    expected = stats.ttest_ind([90.0, 92.0, 91.0], theirs, equal_var=False).pvalue
    assert line.p == pytest.approx(expected)
    assert (line.a, line.b, line.word) == (88.0, 91.0, "better")


def test_pairs_of_another_condition_or_without_a_partner_are_named(record) -> None:
    def of(**changes):
        return by_seed(runs_of([record("ewc", **changes)]), "method", "A")

    here = of()
    for changes in ({"data": {"mnist-5k": {"sha256": "cd" * 32, "note": ""}}},
                    {"spec__protocol": {"lr": 0.5}}):  # fmt: skip
        assert compare(here, of(**changes), "acc", 0.05) == []
        assert "left out, as data, protocol or version" in unpaired(here, of(**changes))[0]
    assert unpaired(here, {}) == ["B has no result of ewc on two-tasks, seed 0, which A has."]
    assert unpaired(here, of()) == []


def test_bwt_can_be_compared_with_the_paper(record) -> None:
    measured = side(record, "ewc", {0: 90.0, 1: 92.0}, "method")
    row = Published("t", "EWC", "ewc", "two-tasks", "task", 2, "own run", bwt=-30.0, bwt_std=0.1)
    [line] = against_paper(measured, {("two-tasks", "ewc"): (row, 3)}, "bwt", 0.05)
    values = [run.values["bwt"] for run in measured["two-tasks", "ewc"].values()]
    assert (line.a, line.b) == (-30.0, pytest.approx(sum(values) / 2))
    assert against_paper(measured, {("two-tasks", "ewc"): (row, 3)}, "acc", 0.05) == []
    # without the number of runs there is no test
    [line] = against_paper(measured, {("two-tasks", "ewc"): (row, 0)}, "bwt", 0.05)
    assert (line.p, line.word) == (None, "untested")


def test_runs_of_one_name_with_other_values_are_pairs_of_their_own(record) -> None:
    records = [record("ewc"), record("ewc", spec__protocol__momentum=0.5)]
    found = by_seed(runs_of(records), "method", "A")
    assert set(found) == {("two-tasks", "ewc momentum=0"), ("two-tasks", "ewc momentum=0.5")}
    one = runs_of(
        [record("ewc", spec__protocol__momentum=0.5)]
    )  # is named likewise beside them, not alone
    assert set(by_seed(one, "method", "B", runs_of(records))) == {("two-tasks", "ewc momentum=0.5")}
    assert set(by_seed(one, "method", "B")) == {("two-tasks", "ewc")}
    with pytest.raises(UserError, match="with other values or on other data"):
        by_seed(runs_of(records), "protocol", "ewc")


def test_two_runs_of_one_seed_are_not_averaged(record) -> None:
    other = {"mnist-5k": {"sha256": "cd" * 32, "note": ""}}
    records = [record("ewc"), record("ewc", data=other)]
    records[1].id = "f" * 12
    with pytest.raises(UserError, match=r"A has two runs of ewc on two-tasks with seed 0"):
        by_seed(runs_of(records), "method", "A")


# ---- the command ----


@pytest.fixture
def folders(record, tmp_path: Path) -> tuple[Path, Path]:
    made = []
    for name, gain in (("old", 0.0), ("new", -3.0)):
        folder = tmp_path / name / "records"
        folder.mkdir(parents=True)
        for method in ("ewc", "agem"):
            for seed in range(3):
                drop = gain * (method == "agem") + seed / 10 * (gain != 0)
                made_record = record(method, seed=seed, last=(90 + drop, 80 + drop))
                (folder / f"{made_record.id}.json").write_bytes(encode(made_record))
        made.append(folder.parent)
    return made[0], made[1]


def test_a_regression_in_one_of_two_folders_is_exit_code_1(clbench, folders) -> None:
    old, new = folders
    result = clbench("compare", str(old), str(new))
    assert result.code == 1
    lines = {line.split()[1]: line for line in result.out.splitlines() if "two-tasks" in line}
    assert lines["agem"].endswith("worse")
    assert lines["ewc"].endswith("same")
    assert clbench("compare", str(old), str(old)).code == 0
    found = json.loads(clbench("compare", str(new), str(old), "--json").out)
    assert {line["what"]: line["word"] for line in found} == {"agem": "better", "ewc": "same"}


def test_a_result_that_is_gone_is_exit_code_1(clbench, folders) -> None:
    old, _ = folders
    next((old / "records").iterdir()).unlink()
    result = clbench("compare", str(folders[1]), str(old))
    assert result.code == 1
    assert "B has no result of" in result.err


def test_a_folder_with_the_name_of_a_method_must_be_told_apart(
    clbench, folders, monkeypatch, tmp_path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ewc").mkdir()
    result = clbench("compare", "ewc", "agem", "--out", str(folders[0]))
    assert result.code == 2
    assert "write ./ewc for the folder" in result.err


def test_two_methods_of_one_folder(clbench, folders) -> None:
    result = clbench("compare", "agem", "ewc", "--out", str(folders[1]))
    assert result.code == 0
    assert "+3.00" in result.out
    assert result.out.splitlines()[4].endswith("better")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("ewcc", "agem"), "Unknown method in the records of"),
        (("ewc", "OLD"), "is not a folder of records"),
        (("ewc", "paper"), "Put the paper first"),
        (("paper", "paper"), "cannot be compared with itself"),
        (("paper", "ewc"), "The paper has no row for ewc on two-tasks."),
        (("acl-2020", "ewc"), "Ebrahimi et al., 2020 has no row for ewc on two-tasks."),
        (("acl-2020", "paper"), "cannot be compared with itself"),
        (("ewc", "acl-2020"), "Put the paper first: clbench compare acl-2020 ewc."),
        (("nowhere.toml", "ewc"), "nowhere.toml: No such file"),
        (("ewc", "agem", "--column", "intransigence"), "clbench run --reference trains them"),
        (("OLD", "EMPTY"), "has no finished run."),
        (("paper", "ewc", "--column", "forgetting"), "by acc or bwt"),
        (("ewc", "agem", "--alpha", "2"), "between 0 and 1"),
    ],
)
def test_mistakes_are_one_sentence(clbench, folders, words, sentence) -> None:
    empty = folders[0].parent / "empty"
    empty.mkdir()
    words = [{"OLD": str(folders[0]), "EMPTY": str(empty)}.get(word, word) for word in words]
    result = clbench("compare", *words, "--out", str(folders[0]))
    assert result.code == 2
    assert sentence in result.err
    assert "Traceback" not in result.err


def test_runs_of_another_budget_are_not_compared_with_the_paper(clbench, record, tmp_path) -> None:
    (tmp_path / "records").mkdir()
    five = {"tasks": 5, "done": 5, "R": [[95.0] * 5] * 5, "R0": [50.0] * 5}
    short = record("ewc", protocol={"epochs": 1}, benchmark="split-mnist", **five)
    (tmp_path / "records" / f"{short.id}.json").write_bytes(encode(short))
    for paper in ("paper", "acl-2020"):
        result = clbench("compare", paper, "ewc", "--out", str(tmp_path))
        assert result.code == 2
        assert "No finished run of ewc has the full protocol and the whole data" in result.err
