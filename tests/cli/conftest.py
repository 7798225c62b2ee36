"""What tests of the command line share."""

from pathlib import Path

import pytest


@pytest.fixture
def here(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path
