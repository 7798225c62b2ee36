"""Each misfortune once; `python tests/chaos` has more of it."""

from pathlib import Path
from typing import Any

import pytest
from rounds import MISFORTUNES, play, undisturbed


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return undisturbed(tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.parametrize("name", MISFORTUNES)
def test_the_same_command_finishes_with_the_same_numbers(
    name: str, tmp_path: Path, expected: dict[str, Any]
) -> None:
    done = play(name, tmp_path, expected, seed=len(name))
    if "skipped" in done:
        pytest.skip(done["skipped"])
