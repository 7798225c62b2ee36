"""Tiny data sets, and the real ones where they are."""

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from made_data import Make

REAL = [Path(os.environ["CLBENCH_DATA"])] if "CLBENCH_DATA" in os.environ else []
REAL.append(Path(__file__).parents[3] / "shared" / "data")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own; no test sees the user's folders."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("CLBENCH_CACHE", str(folder))
    monkeypatch.setenv("CLBENCH_DATA", str(tmp_path / "nowhere"))
    return folder


@pytest.fixture(scope="session")
def real_root() -> Path:
    """The folder of real data."""
    for folder in REAL:
        if folder.is_dir():
            return folder
    pytest.skip("no real data: set CLBENCH_DATA to a folder that has some")


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes tiny data sets below `make.root`."""
    return Make(tmp_path / "root")


@pytest.fixture
def tar_of(tmp_path: Path) -> Callable[..., Path]:
    """An archive with one member of any name or kind."""

    def write(name: str, target: Path, content: bytes = b"x", link: str = "") -> Path:
        member = tarfile.TarInfo(name)
        member.size = 0 if link else len(content)
        if link:
            member.type, member.linkname = tarfile.SYMTYPE, link
        target.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(target, "w:gz") as archive:
            archive.addfile(member, None if link else io.BytesIO(content))
        return target

    return write
