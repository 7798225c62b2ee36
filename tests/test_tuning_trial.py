"""A trial learns the first tasks, never sees test data, and never stands in a table."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_runner import numbers

from clbench import data
from clbench.data import DataSet, Images
from clbench.errors import UserError
from clbench.grid import cell_of, state_of
from clbench.report import tables
from clbench.report.frame import runs_frame, tasks_frame
from clbench.runner import run
from clbench.store import Store
from clbench.tuning.closed import closed

LOOKS = '''
from clbench.benchmark import Benchmark
from clbench.stream import class_tasks


class Looks(Benchmark):
    """It leaves out classes that have no test image."""

    title = "Looks"
    datasets = ("mnist-5k",)
    protocol = {"epochs": 1}

    def sources(self, data, seed):
        assert len(data["mnist-5k"].parts["test"].labels)
        return class_tasks(data["mnist-5k"], 5, mean=(0.1,), std=(0.3,))
'''


def trial(cell: Any, tasks: int, **changes: Any) -> Any:
    return replace(cell, spec=replace(cell.spec, trial=tasks), **changes)


@pytest.fixture
def mnist() -> dict[str, DataSet]:
    """A hundredth of the real images of each part."""
    whole = data.load("mnist-5k")
    parts = {
        name: Images(part.images[::10], part.labels[::10]) for name, part in whole.parts.items()
    }
    return {"mnist-5k": replace(whole, parts=parts)}


def with_test(mnist: dict[str, DataSet], test: Images | None) -> dict[str, DataSet]:
    parts = {"train": mnist["mnist-5k"].parts["train"]} | ({"test": test} if test else {})
    return {"mnist-5k": replace(mnist["mnist-5k"], parts=parts)}


@pytest.mark.parametrize("method", ["er-res", "joint", "vcl-c"])
@pytest.mark.parametrize("scenario", ["task", "class"])
def test_no_test_image_has_any_effect_on_a_trial(
    cell: Callable[..., Any],
    place: Any,
    mnist: dict[str, DataSet],
    method: str,
    scenario: str,
) -> None:
    method = method.replace("vcl-c", "vcl-c[coreset_steps=5]")
    made = cell(method, benchmark=f"split-mnist-5k[scenario={scenario}]", epochs=1)
    real = mnist["mnist-5k"].parts["test"]
    rng = np.random.default_rng(0)
    noise = Images(
        rng.integers(0, 256, real.images.shape, dtype=np.uint8), rng.permutation(real.labels)
    )
    kinds = {
        "real": mnist, "noise": with_test(mnist, noise), "none": with_test(mnist, None)
    }  # fmt: skip
    records = {
        name: run(trial(made, 2), replace(place, out=place.out / name), datasets=datasets)
        for name, datasets in kinds.items()
    }
    assert numbers(records["real"]) == numbers(records["noise"]) == numbers(records["none"])
    assert records["real"].status == "done"
    assert records["real"].R[-1] == records["real"].valid  # R is of validation data
    if method == "er-res":  # the same test sees the test data of an ordinary run
        places = [replace(place, out=place.out / name) for name in ("real", "noise")]
        tested = [run(made, each, datasets=kinds[each.out.name]) for each in places]
        assert numbers(tested[0]) != numbers(tested[1])


def test_a_benchmark_that_looks_into_test_data_is_refused_in_a_trial(
    cell: Callable[..., Any], place: Any, tmp_path: Path, mnist: dict[str, DataSet]
) -> None:
    path = tmp_path / "looks.py"
    path.write_text(LOOKS)
    made = cell("finetune", benchmark=str(path))
    with pytest.raises(UserError, match="must not open test data"):
        run(trial(made, 2), place, datasets=mnist)
    assert run(made, place, datasets=mnist).status == "done"


@pytest.mark.parametrize(
    "use",
    [
        lambda test: test.images,
        len,
        list,
        bool,
        np.asarray,
        lambda test: test[0],
        lambda test: 3 in test,
        lambda test: test(),
    ],
)
def test_closed_data_cannot_be_used_in_any_way(mnist: dict[str, DataSet], use: Any) -> None:
    shut = closed(mnist)["mnist-5k"]
    assert shut.parts["train"] is mnist["mnist-5k"].parts["train"]
    with pytest.raises(UserError, match="must not open test data"):
        use(shut.parts["test"])


def test_a_trial_has_the_first_tasks_and_another_id(cell: Callable[..., Any], place: Any) -> None:
    made = cell("ewc")
    assert trial(made, 2).id != made.id
    assert "trial" not in made.spec.canonical()
    record = run(trial(made, 2), place)
    assert (record.tasks, record.done, record.spec.trial) == (2, 2, 2)
    whole = run(made, place)
    losses, of_whole = ([(e.loss, e.valid_loss) for e in r.curve] for r in (record, whole))
    assert losses == of_whole[: len(losses)]  # it learns as the whole run does
    assert cell_of(record, [made.benchmark.path]).id == record.id
    with pytest.raises(UserError, match="tiny has 3 tasks, and a trial is to learn 4"):
        run(trial(made, 4), place)


def test_the_class_order_is_that_of_the_whole_stream(
    cell: Callable[..., Any], mnist: dict[str, DataSet]
) -> None:
    from clbench.build import make_stream

    made = cell("finetune", benchmark="split-mnist-5k", class_order="9/8/7/6/5/4/3/2/1/0")
    stream = make_stream(trial(made, 2), mnist)
    assert [task.classes for task in stream.tasks] == [(9, 8), (7, 6)]


def test_without_validation_data_there_is_no_trial(cell: Callable[..., Any], place: Any) -> None:
    with pytest.raises(UserError, match="none is left for"):
        run(trial(cell("finetune", valid=0.0), 2), place)


def test_a_run_pauses_after_a_task_and_goes_on_from_there(
    cell: Callable[..., Any], place: Any
) -> None:
    made = trial(cell("ewc"), 3)
    paused = run(replace(made, until=2), place)
    assert (paused.status, paused.done) == ("partial", 2)
    store = Store(place.out)
    assert state_of(replace(made, until=2), store).word == "paused"
    assert state_of(made, store).word == "partial"
    assert run(replace(made, until=2), place) == paused  # nothing is learned again
    whole = run(made, replace(place, out=place.out / "undisturbed"))
    record = run(made, place)
    assert record.seconds.train[:2] == paused.seconds.train
    assert numbers(record) == numbers(whole)
    assert state_of(replace(made, until=2), store).word == "done"


def test_a_trial_stands_in_no_table(
    cell: Callable[..., Any], place: Any, clbench: Callable[..., Any]
) -> None:
    records = [run(cell("ewc"), place), run(trial(cell("ewc", seed=1000), 3), place)]
    [table] = tables(records)
    [row] = table.rows
    assert (row.seeds, row.others) == ([0], [])
    assert clbench(f"report --out {place.out}").err.startswith("1 record is left out")
    runs = runs_frame(records)
    assert "trial" in runs.loc[runs.id == records[1].id, "fault"].item()
    assert runs.acc.isna().sum() == 1
    assert set(tasks_frame(records)["seed"]) == {0}
    assert "validation accuracy" in clbench(f"show {records[1].id} --out {place.out}").out
