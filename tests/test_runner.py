"""One cell to one record: what is in it, what goes wrong, and where it goes on."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from clbench import runner
from clbench.errors import UserError
from clbench.lease import BusyError
from clbench.runner import run
from clbench.store import Store

KEYS = {
    "schema", "id", "status", "spec", "labels", "titles", "family", "zero_forgetting", "tasks",
    "done", "R", "R0", "valid", "curve", "diagnostics", "memory", "seconds", "data", "provenance",
    "peak_memory", "started", "finished", "failure",
}  # fmt: skip


def numbers(record: dict[str, Any]) -> Any:
    """All that training has measured, bit for bit."""
    losses = [(e["loss"], e["valid_loss"], e["valid_accuracy"]) for e in record["curve"]]
    return record["R"], record["R0"], record["valid"], losses


def test_a_record_has_every_key_of_the_schema(cell: Callable[..., Any], place: Any) -> None:
    made = cell("ewc[strength=3]", seed=4)
    record = run(made, place)
    assert record.keys() == KEYS
    assert json.loads((place.out / "records" / f"{made.id}.json").read_text()) == record
    assert (record["schema"], record["id"], record["status"]) == (1, made.id, "done")
    assert record["spec"] == made.versioned()
    assert record["spec"]["seed"] == 4
    assert record["spec"]["method"] == {"name": "ewc", "params": {"strength": 3.0}, "version": 1}
    assert len(record["spec"]["benchmark"]["source"]) == 64
    assert (record["tasks"], record["done"]) == (3, 3)
    assert [row.count(None) for row in record["R"]] == [1, 0, 0]  # one task ahead is measured
    assert len(record["R0"]) == len(record["valid"]) == 3
    assert [e["task"] for e in record["curve"]] == [1, 1, 2, 2, 3, 3]
    assert record["curve"][0].keys() == {
        "task", "epoch", "lr", "loss", "valid_loss", "valid_accuracy", "samples", "seconds",
    }  # fmt: skip
    assert record["memory"]["architecture"] == 4 * ((36 + 1) * 256 + 257 * 256 + 3 * 257 * 2)
    assert record["memory"]["auxiliary"] == 2 * record["memory"]["architecture"]
    seconds = record["seconds"]
    assert len(seconds["train"]) == len(seconds["eval"]) == 3
    assert seconds["total"] == pytest.approx(sum(seconds["train"] + seconds["eval"]))
    assert {"versions", "git", "host", "cpu", "cores"} <= record["provenance"].keys()
    assert record["provenance"]["versions"]["torch"].startswith(torch.__version__.split("+")[0])
    assert record["failure"] is None
    assert record["started"] <= record["finished"]


def test_every_key_is_documented() -> None:
    text = (Path(__file__).parents[1] / "docs" / "record.md").read_text()
    assert {key for key in KEYS if f"`{key}" not in text} == set()


def test_the_record_names_the_data_it_was_made_from(cell: Callable[..., Any], place: Any) -> None:
    record = run(cell("finetune", benchmark="split-mnist-5k", epochs=1), place)
    assert record["data"]["mnist-5k"].keys() == {"sha256", "note"}
    assert len(record["data"]["mnist-5k"]["sha256"]) == 64


def test_a_finished_run_is_not_trained_again(
    cell: Callable[..., Any], place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = run(cell(), place)
    monkeypatch.setattr(runner, "build", None)
    assert run(cell(), place) == record


def test_the_seed_decides_and_nothing_else(cell: Callable[..., Any], place: Any) -> None:
    one = run(cell("er-res"), place)
    torch.rand(5)
    again = run(cell("er-res"), replace(place, out=place.out / "again"))
    assert numbers(one) == numbers(again)
    assert numbers(run(cell("er-res", seed=1), place)) != numbers(one)


def test_the_threads_of_the_spec_are_used(cell: Callable[..., Any], place: Any) -> None:
    made, before = cell(), torch.get_num_threads()
    try:
        run(replace(made, spec=replace(made.spec, threads=before + 1)), place)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("raise RuntimeError('in build')", "RuntimeError: in build"),
        ("open('/no/such/file')", "FileNotFoundError"),
        ("return Strategy(model=ordinary(stream), stream=stream, plugins=[1/0])", "ZeroDivision"),
    ],
)
def test_an_error_in_build_is_kept_with_its_traceback(
    cell: Callable[..., Any],
    place: Any,
    method_file: Callable[..., Path],
    body: str,
    error: str,
) -> None:
    path = method_file("broken", f"""
        from clbench import Method, Strategy, ordinary

        class Broken(Method):
            def build(self, stream):
                {body}
        """)  # fmt: skip
    record = run(cell(str(path)), place)
    assert (record["status"], record["done"], record["tasks"]) == ("failed", 0, 3)
    assert record["failure"]["error"].startswith(error)
    assert "Traceback" in record["failure"]["traceback"]
    assert "broken.py" in record["failure"]["traceback"]
    assert Store(place.out).read(record["id"]) == record


LATE = """
from clbench import Method, Strategy, ordinary
from avalanche.training.plugins import SupervisedPlugin

class TooLate(SupervisedPlugin):
    def after_training_exp(self, strategy, **kwargs):
        if strategy.experience.current_experience == 1:
            BODY

    def diagnostics(self, strategy):
        return {"value": VALUE}

class {name}(Method):
    def build(self, stream):
        return Strategy(model=ordinary(stream), stream=stream, plugins=[TooLate()])
"""


@pytest.mark.parametrize(
    ("body", "value", "done", "error"),
    [
        ("open('/no/such/file')", "1", 1, "FileNotFoundError"),
        ("pass", "float('nan')", 0, "ValueError: Out of range float"),
        ("pass", "object()", 0, "TypeError"),
    ],
)
def test_an_error_in_training_keeps_the_tasks_before(
    cell: Callable[..., Any],
    place: Any,
    method_file: Callable[..., Path],
    body: str,
    value: str,
    done: int,
    error: str,
) -> None:
    path = method_file("late", LATE.replace("BODY", body).replace("VALUE", value))
    record = run(cell(str(path)), place)
    assert (record["status"], record["done"]) == ("failed", done)
    assert len(record["R"]) == done
    assert record["failure"]["error"].startswith(error)
    assert Store(place.out).read(record["id"]) == record


def test_a_loss_that_is_no_number_is_a_failure(cell: Callable[..., Any], place: Any) -> None:
    record = run(cell("finetune", lr=1e30), place)
    assert record["status"] == "failed"
    assert "FloatingPointError: the" in record["failure"]["error"]
    assert "lower the learning rate (--lr)" in record["failure"]["error"]


def test_a_method_may_refuse_a_stream(
    cell: Callable[..., Any], place: Any, method_file: Callable[..., Path]
) -> None:
    path = method_file("picky", """
        from clbench import Method

        class Picky(Method):
            def refuses(self, stream):
                return "it wants colours."
        """)  # fmt: skip
    with pytest.raises(UserError, match="picky cannot run on tiny: it wants colours"):
        run(cell(str(path)), place)
    assert list((place.out / "records").iterdir()) == []


def test_a_device_that_is_not_there_is_refused(cell: Callable[..., Any], place: Any) -> None:
    made = cell()
    with pytest.raises(UserError, match="--device nonsense cannot be used"):
        run(replace(made, spec=replace(made.spec, device="nonsense")), place)


def test_a_run_that_another_process_trains_is_busy(cell: Callable[..., Any], place: Any) -> None:
    store = Store(place.out)
    store.prepare()
    with store.lease(cell().id), pytest.raises(BusyError):
        run(cell(), place)


@pytest.mark.parametrize("content", [b'{"schema": 1, "id"', b'{"schema": 2}'])
def test_a_file_in_the_records_place_is_set_aside_not_overwritten(
    cell: Callable[..., Any], place: Any, content: bytes
) -> None:
    store = Store(place.out)
    store.prepare()
    store.record_path(cell().id).write_bytes(content)
    events: list[dict[str, Any]] = []
    assert run(cell(), place, events.append)["status"] == "done"
    kept = place.out / "replaced" / f"{cell().id}.json"
    assert kept.read_bytes() == content
    assert events[0]["text"].endswith(f"it is kept as {kept}.")
