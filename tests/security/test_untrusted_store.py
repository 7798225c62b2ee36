"""What an output folder from a stranger can do: nothing but be refused in a sentence."""

import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clbench import limits
from clbench.errors import UserError
from clbench.record_file import DamagedRecordError, encode, parse, read
from clbench.store import Store

sys.path.insert(0, str(Path(__file__).parents[1]))
from made import an_id, record

GOOD = an_id("good")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "out")
    made.prepare()
    made.write(record("good"))
    return made


def changed(**changes: Any) -> bytes:
    return json.dumps(json.loads(encode(record("good"))) | changes).encode()


SPEC = json.loads(encode(record("good")))["spec"]
ABSURD: dict[str, dict[str, Any]] = {
    "10**9 tasks": {"tasks": 10**9, "done": 0, "R": [], "status": "partial"},
    "absurd time": {"seconds": {"total": 1e11}},
    "absurd loss": {
        "curve": [{"task": 1, "epoch": 1, "lr": 0.1, "loss": 1e300, "valid_loss": 1.0,
                   "valid_accuracy": 50.0}]
    },
    "absurd diagnostics": {"diagnostics": [{"a": 1e300}]},
    "deep diagnostics": {"diagnostics": [{"a": [[[[[[[[1]]]]]]]]}]},
    "many diagnostics": {"diagnostics": [{str(n): 1 for n in range(2000)}]},
    "long key": {"diagnostics": [{"a" * 1000: 1}]},
    "long title": {"titles": {"method": "a" * 10_000}},
    "long family": {"family": "a" * 10_000},
    "long error": {"failure": {"error": "a" * 10_000, "traceback": ""}, "status": "failed"},
    "many arguments": {"provenance": {"argv": ["a"] * 2000}},
    "huge parameter": {"spec": SPEC | {"method": {"name": "p", "params": {"a": 2**70}}}},
    "huge seed": {"spec": SPEC | {"seed": 2**60}},
    "huge schema": {"schema": 10**100},
}  # fmt: skip


@pytest.mark.parametrize("kind", ABSURD)
def test_every_number_and_text_of_a_record_has_a_range(kind: str) -> None:
    with pytest.raises(DamagedRecordError) as caught:
        parse(changed(**ABSURD[kind]), GOOD)
    assert len(str(caught.value)) < 400


def test_the_reason_that_quotes_a_file_is_short_and_tame() -> None:
    old = {"schema": 1, "spec": {}, "labels": {}, "\x1b[31m": 1}
    for key in ("\x1b[31m" * 100, "\u202e"):
        with pytest.raises(DamagedRecordError) as caught:
            parse(json.dumps(old | {"diagnostics": [key * 50]}).encode(), GOOD)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) <= 300


@pytest.mark.parametrize("name", ["../../victim", "/etc/passwd", "0123456789AB", "a", ""])
def test_no_path_is_made_of_what_is_no_id(store: Store, name: str) -> None:
    for make in (store.record_path, store.checkpoint_path, store.lease_path, store.set_aside):
        with pytest.raises(ValueError, match="not the id"):
            make(name)
    with pytest.raises(DamagedRecordError):
        parse(changed(id=name), GOOD)


def test_a_record_under_another_name_displaces_nothing(store: Store) -> None:
    forged = changed(R=[[99.0]])
    for name in (an_id("other"), "zzz", GOOD + "\n"):
        (store.root / "records" / f"{name}.json").write_bytes(forged)
    found, problems = store.records()
    assert [r.R for r in found] == [[[50.0]]]
    assert len(problems) == 3
    assert all(problem.isprintable() for problem in problems)


def test_a_device_a_pipe_and_a_huge_file_are_no_records(store: Store) -> None:
    folder = store.root / "records"
    os.mkfifo(folder / f"{an_id('fifo')}.json")
    (folder / f"{an_id('zero')}.json").symlink_to("/dev/zero")
    with (folder / f"{an_id('huge')}.json").open("wb") as file:
        file.truncate(2**40)
    found, problems = store.records()
    assert [r.id for r in found] == [GOOD]
    assert len(problems) == 3
    for name in ("fifo", "zero", "huge"):
        assert store.read(an_id(name)) is None
        assert store.clear_damaged(an_id(name))
    assert store.records()[1] == []


def test_the_largest_record_takes_less_than_a_gigabyte(tmp_path: Path) -> None:
    path = tmp_path / f"{GOOD}.json"
    start, end = b'{"schema": 1, "diagnostics": [', b"{}]}"
    middle = b"{}," * ((limits.RECORD - len(start) - len(end)) // 3)
    path.write_bytes(start + middle + end)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DamagedRecordError):
        read(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 10**6  # KB


def test_names_lose_what_steers_a_terminal_and_tracebacks_keep_their_lines() -> None:
    nasty = "a\u202eb\u200bc\nd\x1b[2Je\ufeff"
    failure = {"error": nasty, "traceback": "one\n\ttwo\u202e\x07"}
    names = {"titles": {"method": nasty}, "diagnostics": [{nasty: nasty}]}
    found = parse(changed(failure=failure, status="failed", **names), GOOD)
    tame = "a?b?c d?[2Je?"
    assert found.titles.method == tame
    assert found.diagnostics == [{tame: tame}]
    assert found.failure is not None
    assert (found.failure.error, found.failure.traceback) == (tame, "one\n\ttwo??")


def test_bytes_that_are_no_utf_8_are_no_record() -> None:
    text = encode(record("good")).decode()
    for content in (
        text.encode("utf-16"),
        text.replace("p", "\ud800").encode(errors="surrogatepass"),
    ):
        with pytest.raises(DamagedRecordError):
            parse(content, GOOD)


@pytest.mark.parametrize("name", ["records", "checkpoints", "leases"])
def test_a_folder_of_the_store_that_is_a_link_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to(tmp_path / "victim")
    with pytest.raises(UserError, match="is a link"):
        Store(tmp_path / "out").prepare()
    assert list((tmp_path / "victim").iterdir()) == []


def test_nothing_is_moved_into_a_folder_that_is_a_link(store: Store, tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (store.root / "replaced").symlink_to(tmp_path / "victim")
    with pytest.raises(UserError, match="is a link"):
        store.replace(GOOD)
    assert list((tmp_path / "victim").iterdir()) == []
    assert store.read(GOOD) == record("good")


def test_tickets_are_neither_read_from_a_pipe_nor_written_through_a_link(tmp_path: Path) -> None:
    from clbench.executors import slurm

    (tmp_path / "victim").mkdir()
    (tmp_path / "slurm").symlink_to(tmp_path / "victim")
    path = tmp_path / "slurm" / f"{GOOD}.json"
    with pytest.raises(UserError, match="is a link"):
        slurm._write(path, slurm.Ticket("1"))
    assert list((tmp_path / "victim").iterdir()) == []
    os.mkfifo(path)
    assert slurm._read(path) == slurm.Ticket()


def test_every_command_looks_at_the_genuine_record_only(
    store: Store, clbench: Callable[..., Any], tmp_path: Path
) -> None:
    (store.root / "records" / f"{an_id('other')}.json").write_bytes(changed(R=[[99.0]]))
    os.mkfifo(store.root / "records" / f"{an_id('fifo')}.json")
    commands = ["status", "ls results", f"show {GOOD}", f"report --format md --to {tmp_path}/to"]
    for command in commands:
        said = clbench(f"{command} --out {store.root}")
        assert said.code == 0, said.err
        assert "99" not in said.out
    said = clbench(f"show {an_id('other')} --out {store.root}")
    assert said.code == 2
    assert "under another name" in said.err
