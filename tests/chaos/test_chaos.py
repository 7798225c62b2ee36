"""Most misfortunes once; `python tests/chaos` plays all of them many times."""

from pathlib import Path
from typing import Any

import pytest
from rounds import MISFORTUNES, play, undisturbed


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return undisturbed(tmp_path_factory.mktemp("undisturbed"))


LONG = (
    "SIGTERM",
    "SIGHUP",
    "a lost file of the cache",
    "a lost node of Ray",
    "kill -9 the driver of runs on Ray",
)
"""Only in the long version: here SIGINT stands for the signals, and test_ray.py loses a node."""


@pytest.mark.parametrize("name", [name for name in MISFORTUNES if name not in LONG])
def test_the_same_command_finishes_with_the_same_numbers(
    name: str, tmp_path: Path, expected: dict[str, Any]
) -> None:
    done = play(name, tmp_path, expected, seed=len(name))
    if "skipped" in done:
        pytest.skip(done["skipped"])
