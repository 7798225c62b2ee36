"""One cell to one record: what is in it, what goes wrong, and where it goes on."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import torch

from clbench import runner
from clbench.errors import UserError
from clbench.lease import BusyError
from clbench.record import SCHEMA, Part, Record
from clbench.record_file import read
from clbench.runner import run
from clbench.store import Store


def numbers(record: Record) -> Any:
    """All that training has measured, bit for bit."""
    losses = [(e.loss, e.valid_loss, e.valid_accuracy) for e in record.curve]
    return record.R, record.R0, record.valid, losses


def test_a_record_says_all_about_its_run(cell: Callable[..., Any], place: Any) -> None:
    made = cell("ewc[strength=3]", seed=4)
    record = run(made, place)
    assert read(place.out / "records" / f"{made.id}.json") == record
    assert (record.schema, record.id, record.status) == (SCHEMA, made.id, "done")
    assert record.spec == made.versioned()
    assert record.spec.seed == 4
    assert record.spec.method == Part(name="ewc", params={"strength": 3.0}, version=1)
    assert str(record) == str(made)
    assert len(record.spec.benchmark.source or "") == 64
    assert (record.tasks, record.done) == (3, 3)
    assert [row.count(None) for row in record.R] == [1, 0, 0]  # one task ahead is measured
    assert len(record.R0) == len(record.valid) == 3
    assert [(e.task, e.epoch) for e in record.curve] == [(k, e) for k in (1, 2, 3) for e in (1, 2)]
    assert record.memory.architecture == 4 * ((36 + 1) * 256 + 257 * 256 + 3 * 257 * 2)
    assert record.memory.auxiliary == 2 * record.memory.architecture
    seconds = record.seconds
    assert len(seconds.train) == len(seconds.eval) == 3
    assert seconds.total == pytest.approx(sum(seconds.train + seconds.eval))
    assert record.provenance.versions["torch"].startswith(torch.__version__.split("+")[0])
    assert record.provenance.host
    assert record.failure is None
    assert record.started <= record.finished


def test_every_field_of_the_record_is_documented_and_nothing_else() -> None:
    text = (Path(__file__).parents[1] / "docs" / "record.md").read_text()
    documented = re.findall(r"^\| `([\w.]+)` \|", text, re.MULTILINE)
    assert documented == [*fields(Record)]


def fields(struct: type, above: str = "") -> Iterator[str]:
    """`spec.method.name`: the path of every field, in order."""
    for field in msgspec.structs.fields(struct):
        yield f"{above}{field.name}"
        for part in structs(field.type):
            yield from fields(part, f"{above}{field.name}.")


def structs(kind: Any) -> list[Any]:
    """The structs that a type is made of."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return [kind]
    return [found for inner in get_args(kind) for found in structs(inner)]


def test_the_record_names_the_data_it_was_made_from(cell: Callable[..., Any], place: Any) -> None:
    record = run(cell("finetune", benchmark="split-mnist-5k", epochs=1), place)
    assert len(record.data["mnist-5k"].sha256) == 64
    assert record.data["mnist-5k"].note == ""


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
    assert (record.status, record.done, record.tasks) == ("failed", 0, 3)
    assert record.failure.error.startswith(error)
    assert "Traceback" in record.failure.traceback
    assert "broken.py" in record.failure.traceback
    assert Store(place.out).read(record.id) == record


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
    assert (record.status, record.done) == ("failed", done)
    assert len(record.R) == done
    assert record.failure.error.startswith(error)
    assert Store(place.out).read(record.id) == record


def test_a_loss_that_is_no_number_is_a_failure(cell: Callable[..., Any], place: Any) -> None:
    record = run(cell("finetune", lr=1e30), place)
    assert record.status == "failed"
    assert "FloatingPointError: the" in record.failure.error
    assert "lower the learning rate (--lr)" in record.failure.error


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


OTHER = """
from dataclasses import replace

from clbench import Method, Strategy, ordinary
from clbench.stream import Stream

class {name}(Method):
    title = "Other"
    family = "reference"

    def build(self, stream):
        changed = replace(stream.protocol, epochs=1)
        settings = {"name": stream.name, "backbone": stream.network, "protocol": stream.protocol}
        other = OTHER
        return Strategy(model=ordinary(other), stream=other)
"""


@pytest.mark.parametrize(
    ("other", "refused"),
    [
        ("stream.under(changed)", True),
        ("Stream(stream._sources, seed=5, **settings)", True),
        ("Stream(stream._sources[::-1], seed=stream.seed, **settings)", True),
        ("Stream(stream._sources, seed=stream.seed, **settings)", False),
        ("stream.under(stream.protocol)", False),
    ],
)
def test_a_method_that_trains_on_another_stream_is_refused(
    cell: Callable[..., Any],
    place: Any,
    method_file: Callable[..., Path],
    other: str,
    refused: bool,
) -> None:
    path = str(method_file("other", OTHER.replace("OTHER", other)))
    if not refused:
        assert run(cell(path), place).status == "done"
        return
    with pytest.raises(
        UserError, match="trains on another stream than the run's, or under another"
    ):
        run(cell(path), place)


def test_a_device_that_is_not_there_is_refused(cell: Callable[..., Any], place: Any) -> None:
    made = cell()
    with pytest.raises(UserError, match="--device nonsense"):
        run(replace(made, spec=replace(made.spec, device="nonsense")), place)


def test_a_run_that_another_process_trains_is_busy(cell: Callable[..., Any], place: Any) -> None:
    store = Store(place.out)
    store.prepare()
    with store.lease(cell().id), pytest.raises(BusyError):
        run(cell(), place)


@pytest.mark.parametrize("content", [b'{"schema": 1, "id"', b'{"schema": 99}'])
def test_a_file_in_the_records_place_is_set_aside_not_overwritten(
    cell: Callable[..., Any], place: Any, content: bytes
) -> None:
    store = Store(place.out)
    store.prepare()
    store.record_path(cell().id).write_bytes(content)
    events: list[Any] = []
    assert run(cell(), place, lambda cell, event: events.append(event)).status == "done"
    kept = place.out / "replaced" / f"{cell().id}.json"
    assert kept.read_bytes() == content
    assert str(kept) in events[0].text


@pytest.mark.parametrize("value", ["float('nan')", "float('inf')", "-1", "101", "'half'"])
@pytest.mark.parametrize("what", ["accuracy", "valid_accuracy"])
def test_an_accuracy_that_is_no_percentage_is_a_failure(
    cell: Callable[..., Any],
    place: Any,
    method_file: Callable[..., Path],
    what: str,
    value: str,
) -> None:
    path = method_file("wild", f"""
        from clbench import Method, Strategy, ordinary

        class WildStrategy(Strategy):
            def {what}(self, k):
                return {value}

        class Wild(Method):
            def build(self, stream):
                return WildStrategy(model=ordinary(stream), stream=stream)
        """)  # fmt: skip
    record = run(cell(str(path)), place)
    assert (record.status, record.done) == ("failed", 0 if what == "accuracy" else 2)
    assert record.failure is not None
    assert "not a percentage" in record.failure.error
    assert Store(place.out).read(record.id) == record
