"""What tests of the command line share."""

import sys
from pathlib import Path

import pytest


@pytest.fixture
def here(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def some_mnist(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data root with 5,000 of the 70,000 images of MNIST."""
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[1] / "chaos"), *sys.path])
    from rounds import write_mnist

    write_mnist(here / "some-mnist")
    return here / "some-mnist"
