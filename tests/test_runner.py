"""One cell to one record: what is in it, what goes wrong, and where it goes on."""

import errno
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from clbench import runner
from clbench.errors import UserError
from clbench.runner import Busy, run
from clbench.store import Store

KEYS = {
    "schema", "id", "status", "spec", "labels", "titles", "family", "zero_forgetting", "tasks",
    "done", "R", "R0", "valid", "curve", "diagnostics", "memory", "seconds", "data", "provenance",
    "peak_memory", "started", "finished", "failure",
}  # fmt: skip

STOPS = """
from clbench import Method, Strategy, ordinary

class Stopping(Strategy):
    def learn(self, k):
        if k == 2 and PATH.exists():
            raise KeyboardInterrupt
        return super().learn(k)

class {name}(Method):
    title = "Stops"
    family = "reference"

    def build(self, stream):
        from clbench.methods.er_res import ReservoirReplayPlugin
        plugins = [ReservoirReplayPlugin(9)]
        return Stopping(model=ordinary(stream), stream=stream, plugins=plugins)
"""


@pytest.fixture
def stops(method_file: Callable[..., Path], tmp_path: Path) -> str:
    """A method that is interrupted in its third task as long as a file is there."""
    flag = tmp_path / "interrupt"
    flag.write_text("")
    head = f"from pathlib import Path\nPATH = Path({str(flag)!r})\n"
    return str(method_file("stops", head + STOPS))


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
    with store.lock(cell().id), pytest.raises(Busy):
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


# ---- resume ----


def interrupted(cell: Callable[..., Any], place: Any, stops: str) -> dict[str, Any]:
    with pytest.raises(KeyboardInterrupt):
        run(cell(stops), place)
    (Path(stops).parent / "interrupt").unlink()
    record = Store(place.out).read(cell(stops).id)
    assert record is not None
    assert (record["status"], record["done"]) == ("partial", 2)
    return record


@pytest.fixture
def undisturbed(cell: Callable[..., Any], place: Any, stops: str) -> Callable[[], Any]:
    """The numbers of a run in another folder that nothing stopped."""
    return lambda: numbers(run(cell(stops), replace(place, out=place.out / "undisturbed")))


def test_a_run_goes_on_at_the_last_finished_task(
    cell: Callable[..., Any], place: Any, stops: str, undisturbed: Callable[[], Any]
) -> None:
    before = interrupted(cell, place, stops)
    events: list[dict[str, Any]] = []
    record = run(cell(stops), place, events.append)
    assert {e["task"] for e in events} == {3}
    assert record["curve"][:4] == before["curve"]
    assert record["seconds"]["train"][:2] == before["seconds"]["train"]
    assert numbers(record) == undisturbed()


class Evil:
    """Unpickled, it would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.write_text, (self.path, "executed")


def truncated(path: Path, proof: Path) -> None:
    path.write_bytes(path.read_bytes()[:-500])


def empty(path: Path, proof: Path) -> None:
    path.write_bytes(b"")


def evil_pickle(path: Path, proof: Path) -> None:
    path.write_bytes(pickle.dumps({"record": "{}", "state": Evil(proof)}))


def evil_checkpoint(path: Path, proof: Path) -> None:
    content = torch.load(path, weights_only=True)
    content["state"]["plugins"] = [Evil(proof)]
    torch.save(content, path)


def other_layout(path: Path, proof: Path) -> None:
    torch.save({"record": "{}", "state": {}}, path)


def other_network(path: Path, proof: Path) -> None:
    content = torch.load(path, weights_only=True)
    content["state"]["model"]["heads.0.weight"] = torch.zeros(7, 256)
    torch.save(content, path)


@pytest.mark.parametrize(
    "damage", [truncated, empty, evil_pickle, evil_checkpoint, other_layout, other_network]
)
def test_a_damaged_checkpoint_is_never_executed_and_the_run_starts_again(
    cell: Callable[..., Any],
    place: Any,
    stops: str,
    undisturbed: Callable[[], Any],
    tmp_path: Path,
    damage: Callable[[Path, Path], None],
) -> None:
    interrupted(cell, place, stops)
    path, proof = Store(place.out).checkpoint_path(cell(stops).id), tmp_path / "proof"
    damage(path, proof)
    events: list[dict[str, Any]] = []
    record = run(cell(stops), place, events.append)
    assert not proof.exists()
    [note] = [e["text"] for e in events if e["kind"] == "note"]
    assert note.startswith(f"{path} cannot be read (")
    assert note.endswith("seed 0 starts again.")
    assert {e["task"] for e in events if e["kind"] == "task"} == {1, 2, 3}
    assert numbers(record) == undisturbed()


def test_a_checkpoint_of_another_version_is_not_used(
    cell: Callable[..., Any], place: Any, stops: str, undisturbed: Callable[[], Any]
) -> None:
    interrupted(cell, place, stops)
    Path(stops).write_text(Path(stops).read_text() + "\n# changed\n")
    events: list[dict[str, Any]] = []
    record = run(cell(stops), place, events.append)
    assert any("of another version" in e.get("text", "") for e in events)
    assert record["status"] == "done"
    assert numbers(record) == undisturbed()


@pytest.mark.parametrize("done", [1, 2])
def test_a_kill_between_checkpoint_and_record_loses_nothing(
    cell: Callable[..., Any], place: Any, done: int
) -> None:
    """The record on disk is one task behind; the checkpoint may even be that of the last task."""
    states: list[str] = []
    path = Store(place.out).record_path(cell().id)

    def note(event: dict[str, Any]) -> None:
        if event["kind"] == "task":
            states.append(path.read_text())

    finished = run(cell(), place, note)
    path.write_text(states[done - 1])
    assert Store(place.out).read(cell().id) != finished
    assert run(cell(), place) == finished
    assert Store(place.out).read(cell().id) == finished


def test_a_full_disk_is_a_sentence_and_keeps_the_tasks_before(
    cell: Callable[..., Any], place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = numbers(run(cell(seed=1), place))
    Store(place.out).replace(cell(seed=1).id)
    real, calls = runner.write_atomically, []

    def fills_up(path: Path, content: bytes) -> None:
        calls.append(path)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, content)

    monkeypatch.setattr(runner, "write_atomically", fills_up)
    with pytest.raises(UserError, match=r"cannot be written to: No space left.*same command again"):
        run(cell(seed=1), place)
    record = Store(place.out).read(cell(seed=1).id)
    assert record is not None
    assert (record["status"], record["done"]) == ("partial", 1)
    monkeypatch.undo()
    assert numbers(run(cell(seed=1), place)) == undisturbed
