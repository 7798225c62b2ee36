"""Columns on request: what hyper-parameters are chosen by, epochs, and speed."""

import json
import math

import pytest

from clbench.report.runs import runs_of


def test_valid_is_the_mean_over_tasks_after_the_last_one(record):
    [run], _ = runs_of([record(valid=[90, 70])])
    assert run.values["valid"] == 80


def test_a_record_from_before_it_was_measured_has_none(record):
    [run], _ = runs_of([record(valid=None)])
    assert math.isnan(run.values["valid"])


def test_epochs_and_samples_a_second(record):
    curve = [{"task": 1, "samples": 100}, {"task": 1, "samples": 100}, {"task": 2, "samples": 60}]
    [run], _ = runs_of([record(curve=curve)])  # trained for 2 seconds a task
    assert run.values["epochs"] == 1.5
    assert run.values["rate"] == 65.0
    [old], _ = runs_of([record(curve=[{"task": 1}])])
    assert (old.values["epochs"], math.isnan(old.values["rate"])) == (1.0, True)


def test_a_notebook_loads_the_runs_of_a_folder(record, tmp_path):
    import clbench

    folder = tmp_path / "records"
    folder.mkdir()
    for seed in range(2):
        made = record("ewc", seed=seed)
        (folder / f"{made['id']}.json").write_text(json.dumps(made))
    (folder / "broken.json").write_text("{")
    with pytest.warns(UserWarning, match=r"broken\.json"):
        frame = clbench.load(tmp_path)
    assert frame[["method", "seed", "acc"]].values.tolist() == [["ewc", 0, 85.0], ["ewc", 1, 85.0]]


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path):
    import clbench

    with pytest.raises(clbench.UserError, match="There is no folder"):
        clbench.load(tmp_path / "nowhere")


def test_a_number_that_no_float_holds_is_no_number(record):
    huge = record(memory={"architecture": 10**400, "replay": 0, "auxiliary": 0})
    odd = record(seed=1, memory={"architecture": math.inf, "replay": 0, "auxiliary": 0})
    runs, problems = runs_of([huge, odd])
    assert problems == []
    assert [math.isnan(run.values["arch"]) for run in runs] == [True, True]


@pytest.mark.parametrize(
    ("changes", "column"),
    [
        ({"memory": "1 MB"}, "arch"),
        ({"memory": {"architecture": "1 MB", "replay": 0, "auxiliary": 0}}, "arch"),
        ({"seconds": {"total": None, "train": 3}}, "time"),
        ({"valid": ["a", 2]}, "valid"),
        ({"curve": [{"epoch": 1}]}, "epochs"),
        ({"curve": "none"}, "rate"),
        ({"R0": [1, "x"]}, "fwt"),
    ],
)
def test_a_damaged_part_costs_only_its_column(record, changes, column):
    [run], problems = runs_of([record(**changes)])
    assert problems == []
    assert math.isnan(run.values[column])
    assert run.values["acc"] == 85.0


def test_a_record_that_is_no_run_is_left_out_in_words(record):
    broken = record(spec__method=3)
    _, [sentence] = runs_of([broken])
    assert sentence.startswith(f"Record {broken['id']} is left out: damaged (")
