"""Records on disk: written whole, read with care, never deleted."""

import json
import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made import an_id, record

from clbench.errors import UserError
from clbench.files import write_atomically
from clbench.record import Epoch, Shown
from clbench.record_file import DamagedRecordError, encode, read
from clbench.store import Store


def written(run_id: str, **changes: Any) -> bytes:
    """What is in a record's file, with other values for some keys."""
    return json.dumps(json.loads(encode(record(run_id))) | changes).encode()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "out")
    made.prepare()
    return made


def test_a_record_comes_back_as_it_was_written(store: Store) -> None:
    made = record("aa", tasks=2, done=2, R=[[1 / 3, None], [1.0, 2.0]])
    store.write(made)
    assert store.read(an_id("aa")) == made
    assert store.records() == ([made], [])
    assert store.read(an_id("bb")) is None


BAD: dict[str, tuple[bytes, str]] = {
    "cut": (written("cut")[:-20], "JSON"),
    "empty": (b"", "JSON"),
    "binary": (b"\xff\xfe\x00\x01", "JSON"),
    "utf16": (written("utf16").decode().encode("utf-16"), "JSON"),
    "deep": (written("deep", diagnostics=[{"a": 0}]).replace(b"0}", b"[" * 100_000), "JSON"),
    "foreign": (b'{"hello": 1}', "not a clbench record"),
    "list": (b"[1, 2]", "array"),
    "newer": (written("newer", schema=99), "99"),
    "renamed": (written("original"), an_id("original")),
    "lacking": (b'{"schema": 2, "id": "' + an_id("lacking").encode() + b'"}', "spec"),
    "typed": (written("typed", spec=None), "spec"),
    "running": (written("running", status="running"), "running"),
    "broken": (written("broken", failure="boom"), "failure"),
    "unsummed": (written("unsummed", data={"a": "b"}), "data"),
    "greedy": (written("greedy", peak_memory="lots"), "peak_memory"),
    "nan": (written("nan", R=[[float("nan")]]), "JSON"),
    "shapeless": (written("shapeless", R=[[1.0, 2.0]]), "R"),
    "percent": (written("percent", R=[[101.0]]), "R[0][0]"),
    "listed": (written("listed", diagnostics=[[1]]), "diagnostics[0]"),
    "early": (written("early", tasks=2, R=[[1.0, None]]), "1 of 2 tasks"),
    "gap": (written("gap", R=[[None]]), "R"),
    "huge": (written("huge", seconds={"total": 1e300}), "seconds.total"),
    "old": (b'{"schema": 1, "id": "' + an_id("old").encode() + b'"}', "spec"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_no_record_is_named_and_left_alone(store: Store, name: str) -> None:
    content, words = BAD[name]
    path = store.record_path(an_id(name))
    path.write_bytes(content)
    store.write(record("good"))
    found, problems = store.records()
    assert [r.id for r in found] == [an_id("good")]
    assert len(problems) == 1
    assert problems[0].startswith(f"{path} is skipped: ")
    assert words in problems[0]
    assert store.read(an_id(name)) is None
    with pytest.raises(UserError, match=an_id(name)):
        store.find(an_id(name))
    assert path.read_bytes() == content


def test_a_folder_named_like_a_record_is_skipped(store: Store) -> None:
    store.record_path(an_id("folder")).mkdir()
    found, problems = store.records()
    assert found == []
    assert an_id("folder") in problems[0]


def test_every_command_survives_files_that_are_no_records(
    store: Store, clbench: Callable[..., Any]
) -> None:
    for name, (content, _) in BAD.items():
        store.record_path(an_id(name)).write_bytes(content)
    store.write(record("0123456789ab"))
    for command in ("status", "ls results"):
        result = clbench(f"{command} --out {store.root}")
        assert result.code == 0
        assert all(f"{an_id(name)}.json is skipped" in result.err for name in BAD)
    plan = clbench(f"run --methods ewc --dry-run --out {store.root}")
    assert (plan.code, plan.err) == (0, "")
    assert {p.stem for p in (store.root / "records").glob("*.json")} == {
        *map(an_id, BAD),
        "0123456789ab",
    }


def test_a_failed_write_leaves_the_old_file_and_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store.record_path(an_id("aa"))
    store.write(record("aa"))
    before = path.read_bytes()

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [an_id("aa") + ".json"]


def test_a_value_that_json_cannot_hold_is_not_written(store: Store) -> None:
    with pytest.raises(ValueError, match="JSON"):
        store.write(record("aa", R=[[float("nan")]]))
    assert store.read(an_id("aa")) is None


EPOCH = {"lr": 0.1, "loss": 1.0, "valid_loss": 1.0, "valid_accuracy": 50.0}
CURVE = [Epoch(task=1, epoch=n, **EPOCH) for n in range(500)]


def _write_many(root: Path, first: int, shared: int) -> None:
    store = Store(root)
    for i in range(4):
        store.write(record(f"{first + i:012x}"))
        store.write(record("shared", tasks=1, peak_memory=shared, R=[[50.0]], curve=CURVE))
        found, problems = store.records()
        assert problems == []
        assert found


def test_many_processes_writing_at_once_lose_nothing(store: Store) -> None:
    context = multiprocessing.get_context("fork")
    writers = [
        context.Process(target=_write_many, args=(store.root, 1000 * n, n), daemon=True)
        for n in range(50)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 50
    found, problems = store.records()
    assert problems == []
    assert len(found) == 50 * 4 + 1
    assert all(not p.name.startswith(".") for p in (store.root / "records").iterdir())


def _hold(root: Path, pipe: Any) -> None:
    with Store(root).lease(an_id("run")) as mine:
        pipe.send(mine)
        pipe.recv()


def test_a_lock_is_held_by_one_process_and_gone_with_it(store: Store) -> None:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    assert not store.is_running(an_id("run"))
    holder = context.Process(target=_hold, args=(store.root, theirs), daemon=True)
    holder.start()
    assert ours.recv() is True
    with store.lease(an_id("run")) as mine:
        assert mine is False
    assert store.is_running(an_id("run"))
    holder.kill()
    holder.join()
    assert not store.is_running(an_id("run"))
    with store.lease(an_id("run")) as mine:
        assert mine is True


def _die_while_writing(root: Path, run_id: str) -> None:
    os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
    Store(root).write(record(run_id), b"state")


def test_who_trains_a_run_removes_what_a_killed_one_left_half_written(store: Store) -> None:
    context = multiprocessing.get_context("fork")
    for run_id in ("aa", "bb"):
        writer = context.Process(target=_die_while_writing, args=(store.root, run_id), daemon=True)
        writer.start()
        writer.join()
        assert writer.exitcode == -signal.SIGKILL
        (
            store.root / "records" / f".{an_id(run_id)}.json.1.ff"
        ).touch()  # as if killed at the next write

    def left(run_id: str) -> list[str]:
        found = (p.name for p in store.root.rglob(f".{an_id(run_id)}.*"))
        return sorted(name.split(".")[2] for name in found)

    assert left("aa") == ["json", "pt"]
    with store.lease(an_id("aa")):
        assert left("aa") == []
    assert left("bb") == ["json", "pt"]


def test_looking_at_a_lock_needs_no_right_to_write(store: Store) -> None:
    with store.lease(an_id("run")):
        (store.root / "leases" / an_id("run")).chmod(0o444)
        (store.root / "leases").chmod(0o555)
        assert store.is_running(an_id("run"))
    assert not store.is_running(an_id("run"))
    (store.root / "leases").chmod(0o755)


def test_find_takes_the_beginning_of_an_id(store: Store) -> None:
    store.write(record("abc123abc123"))
    store.write(record("abd456abd456"))
    assert store.find("abc").id == "abc123abc123"
    with pytest.raises(UserError, match=r"2 runs in .* starts with 'ab'"):
        store.find("ab")
    with pytest.raises(UserError, match=r"No run in .* starts with 'x'"):
        store.find("x")


def test_a_replaced_record_is_set_aside(store: Store) -> None:
    store.write(record("aa"))
    store.checkpoint_path(an_id("aa")).write_bytes(b"state")
    store.replace(an_id("aa"))
    assert store.read(an_id("aa")) is None
    assert not store.checkpoint_path(an_id("aa")).exists()
    folder = store.root / "replaced"
    assert read(folder / f"{an_id('aa')}.json") == record("aa")
    store.replace(an_id("never-there"))
    store.write(record("aa", peak_memory=2))
    store.replace(an_id("aa"))  # what was set aside before is not overwritten
    assert json.loads((folder / f"{an_id('aa')}.1.json").read_text())["peak_memory"] == 2
    assert read(folder / f"{an_id('aa')}.json") == record("aa")


def test_an_output_folder_must_be_a_folder_that_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file; name a folder"):
        Store(tmp_path / "file").prepare()
    with pytest.raises(UserError, match="Not a directory"):
        Store(tmp_path / "file" / "below").prepare()
    if os.geteuid() != 0:  # root may write anywhere
        (tmp_path / "mine").mkdir(mode=0o555)
        with pytest.raises(UserError, match="Permission denied"):
            Store(tmp_path / "mine").prepare()


def test_a_record_cannot_steer_the_terminal(store: Store) -> None:
    """Escape sequences come as JSON's escapes or as codes; what is spelled out in print stays."""
    nasty = "red\x1b[31m bell\x07 c1\x9b del\x7f back\r tab\t line\n"
    spelled = r"\u001b and \\u001b and \x1b and ü"
    path = store.record_path(an_id("abc123"))
    for ascii_only in (True, False):
        made = json.loads(written("abc123", titles={"method": nasty, "benchmark": spelled}))
        path.write_text(json.dumps(made, ensure_ascii=ascii_only))
        [found] = store.records()[0]
        assert found.titles.method == "red?[31m bell? c1? del? back  tab  line "
        assert found.titles.benchmark == spelled
    path.write_bytes(written("abc123", family="half \ud83d, whole \U0001f600"))
    assert store.records()[0][0].family == "half ?, whole \U0001f600"
    (store.root / "records" / "\x1b]0;title\x07.json").write_text("{")
    assert "records/?]0;title?.json is skipped" in store.records()[1][0]


def test_what_the_parts_of_a_record_contradict_is_not_written(store: Store) -> None:
    with pytest.raises(DamagedRecordError, match="2 tasks"):
        store.write(record("aa", tasks=2))
    shown = {"share": Shown(title="Share", kind="layers")}
    with pytest.raises(DamagedRecordError, match="share"):
        store.write(record("aa", lays_open=shown, diagnostics=[{"share": 3}]))
    store.write(record("aa", lays_open=shown, diagnostics=[{"share": [3]}]))
