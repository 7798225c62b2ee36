"""A fixed number of damaged files of each kind; many more with `python tests/security`."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from fuzz import GIGABYTE, KINDS, child

CASES = {"record": 12, "toml": 60, "method": 100, "checkpoint": 100}


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_sentences(kind: str, tmp_path: Path) -> None:
    """No traceback, no write outside the folder, no process, less than 1 GB, bounded time."""
    result = child(kind, 0, range(CASES[kind]), tmp_path)
    assert result["found"] == []
    assert result["cases"] == CASES[kind]
    assert result["peak"] < GIGABYTE
