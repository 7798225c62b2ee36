"""Columns on request, and the frames of a notebook."""

import math
from collections.abc import Callable

import pytest

import clbench
from clbench.record import Record
from clbench.report import tables
from clbench.report.runs import runs_of


def test_valid_is_the_mean_over_tasks_after_the_last_one(record):
    [run] = runs_of([record(valid=[90, 70])])
    assert run.values["valid"] == 80


def test_what_a_record_does_not_hold_has_no_value(record):
    [run] = runs_of([record(valid=[], R0=[], curve=[], memory={}, seconds={})])
    lacking = {key for key, value in run.values.items() if math.isnan(value)}
    assert lacking >= {"valid", "fwt", "epochs", "rate", "arch", "replay", "aux", "time"}
    assert run.values["acc"] == 85.0


def test_epochs_and_samples_per_second(record, curve):
    both = curve(2, samples=100) + curve(0, 1, samples=60)
    [run] = runs_of([record(curve=both)])  # trained for 2 seconds per task
    assert run.values["epochs"] == 1.5
    assert run.values["rate"] == 65.0
    [old] = runs_of([record(curve=curve(1))])
    assert (old.values["epochs"], math.isnan(old.values["rate"])) == (1.0, True)


def test_a_notebook_loads_the_runs_of_a_folder(record, save):
    folder = save([record("ewc[strength=500]", seed) for seed in range(2)])
    (folder / "records" / "broken.json").write_text("{")
    with pytest.warns(UserWarning, match=r"broken\.json"):
        frame = clbench.load(folder)
    assert frame[["seed", "acc"]].values.tolist() == [[0, 85.0], [1, 85.0]]
    assert frame["method.strength"].tolist() == [500, 500]
    assert frame["protocol.lr"].tolist() == [0.05, 0.05]


def test_a_parameter_that_a_method_does_not_have_is_empty(record, save):
    tasks = {"spec__benchmark__params": {"tasks": 2}}
    frame = clbench.load(save([record("ewc[strength=500]", **tasks), record("agem", **tasks)]))
    frame = frame.set_index("method")
    assert math.isnan(frame.loc["agem", "method.strength"])
    assert frame["benchmark.tasks"].tolist() == [2, 2]


def test_r_in_long_form(record, save):
    frame = clbench.load(save([record("joint", 3, R=[[None, None], [96.0, 85.0]])]), "tasks")
    assert list(frame) == ["run", "benchmark", "method", "seed", "after", "task", "accuracy"]
    assert frame.drop(columns="run").values.tolist() == [
        ["two-tasks", "joint", 3, 2, 1, 96.0],
        ["two-tasks", "joint", 3, 2, 2, 85.0],
    ]


def test_learning_curves_in_long_form(record, save, curve):
    frame = clbench.load(save([record("ewc", curve=curve(2, 1, samples=9))]), what="epochs")
    assert frame[["method", "task", "epoch", "samples"]].values.tolist() == [
        ["ewc", 1, 1, 9],
        ["ewc", 1, 2, 9],
        ["ewc", 2, 1, 9],
    ]
    assert {"run", "benchmark", "seed", "lr", "loss", "valid_loss", "valid_accuracy", "seconds"} < {
        *frame
    }


def test_an_unknown_frame_is_a_sentence(save, record):
    with pytest.raises(clbench.UserError, match="'epochs'"):
        clbench.load(save([record()]), "epoch")


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path):
    with pytest.raises(clbench.UserError, match="There is no folder"):
        clbench.load(tmp_path / "nowhere")


def test_tables_of_class_incremental_runs_have_their_own_columns(
    by_class: Callable[..., Record],
) -> None:
    (table,) = tables([by_class()])
    keys = [column.key for column in table.columns]
    assert keys[:4] == ["acc", "average", "given", "bwt"]
    (row,) = table.rows
    shown = {column.key: table.show(row, column, "{}") for column in table.columns}
    assert (shown["acc"], shown["given"]) == ("75.00", "93.00")
    assert shown["average"] == "85.00"  # (95 + 75) / 2
    assert "one head over the classes seen so far" in " ".join(table.facts)
