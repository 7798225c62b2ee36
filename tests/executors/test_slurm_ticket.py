"""The ticket of a SLURM job: what it says comes back typed; a damaged one says nothing."""

import json
from pathlib import Path

import pytest

from clbench.events import Ended
from clbench.executors.slurm import Ticket, _read, _write


@pytest.mark.parametrize("ticket", [Ticket("7_0"), Ticket("7_0", Ended("failed", "E: x"))])
def test_a_ticket_is_read_as_it_was_written(tmp_path: Path, ticket: Ticket) -> None:
    _write(tmp_path / "a.json", ticket)
    assert _read(tmp_path / "a.json") == ticket


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"\xff\xfe", b"[]", b"null", b"[" * 100_000,
        json.dumps({"job": 7}).encode(),
        json.dumps({"job": "7_0", "end": "done"}).encode(),
        json.dumps({"job": "7_0", "end": {"status": "finished"}}).encode(),
    ],
)  # fmt: skip
def test_a_damaged_ticket_is_like_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    assert _read(tmp_path / "a.json") == _read(tmp_path / "none.json") == Ticket()
