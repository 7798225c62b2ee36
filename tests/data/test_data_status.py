"""`clbench data status`: which data are there, whether they are complete, what needs them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from clbench.cli.data import command
from clbench.data import load
from clbench.data.catalog import READERS
from clbench.data.notmnist import NotMnist
from clbench.errors import UserError
from clbench.registry import declarations


def rows(root: Path, *options: str) -> dict[str, dict]:
    arguments = ["status", "--data-root", str(root), "--json", *options]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    return {row["name"]: row for row in json.loads(done.stdout)}


def test_found_missing_and_damaged(make):
    make.idx()
    make.notmnist()
    make.cifar100()
    (make.root / "cifar-100-python/test").unlink()
    found = rows(make.root)
    assert found["mnist"]["found"]
    assert found["mnist"]["verified"] == "other checksum"
    assert found["mnist"]["content"] == "subset: 30 of 70,000 images"
    assert found["mnist"]["where"] == str(make.root / "MNIST/raw")
    files = (make.root / "MNIST/raw").iterdir()
    assert found["mnist"]["bytes"] == sum(path.stat().st_size for path in files)
    assert found["notmnist"]["content"] == "subset: 30 of 18,724 images"
    assert found["notmnist"]["verified"] == "by number"
    assert "lacks test" in found["cifar100"]["content"]
    assert found["cifar100"]["damaged"]
    assert not found["svhn"]["found"]
    assert found["svhn"]["where"] == ""
    assert found["mnist-5k"]["complete"]
    assert found["mnist-5k"]["verified"] == "checksum"


@pytest.mark.parametrize("layout", ["csv", "folders", "pickles"])
def test_every_layout_is_counted_without_decoding(make, layout, monkeypatch):
    make.mini(layout)
    make.svhn()
    make.cifar10()
    monkeypatch.setattr("clbench.data.pictures.decode", None)
    found = rows(make.root)
    assert found["miniimagenet"]["content"] == "subset: 24 of 60,000 images"
    assert found["svhn"]["content"] == "subset: 20 of 99,289 images"
    assert found["cifar10"]["content"] == "subset: 60 of 60,000 images"


def test_verify_finds_a_damaged_cache_and_a_damaged_source(make, cache, monkeypatch):
    make.idx()
    load("mnist", make.root, accept=True)
    assert rows(make.root)["mnist"]["decoded"] == "yes"
    assert rows(make.root, "--verify")["mnist"]["decoded"] == "verified"
    (folder,) = cache.glob("mnist-*")
    with (folder / "train-images.npy").open("r+b") as file:
        file.seek(1000)
        file.write(b"damage")
    with pytest.raises(UserError, match="Damaged: mnist"):
        rows(make.root, "--verify")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_fits_the_terminal(make, monkeypatch, width):
    make.idx()
    monkeypatch.setenv("COLUMNS", str(width))
    text = CliRunner().invoke(command, ["status", "--data-root", str(make.root)]).stdout
    _data_root, _cache, *lines = text.splitlines()  # a folder is not wrapped, to be copied
    assert max(map(len, lines)) <= width
    assert {"fashion-mnist", "split-miniimagenet", "permuted-mnist,"} <= set(text.split())


def test_the_table_says_how_to_use_or_get_the_rest(make, monkeypatch):
    make.idx()
    monkeypatch.setenv("COLUMNS", "300")
    text = CliRunner().invoke(command, ["status", "--data-root", str(make.root)]).stdout
    assert f"Data root: {make.root}" in text
    (line,) = [line for line in text.splitlines() if line.startswith("mnist ")]
    assert "subset: 30 of 70,000 images" in line
    assert "MNIST/raw" in line
    (missing,) = [line for line in text.splitlines() if "clbench data prepare" in line]
    (unofficial,) = [line for line in text.splitlines() if "--accept-data" in line]
    names = [set(re.findall(r"[\w-]+", line)) & set(READERS) for line in (missing, unofficial)]
    assert names == [set(READERS) - {"mnist", "mnist-5k"}, {"mnist"}]


def test_data_without_a_checksum_are_not_called_official(make, monkeypatch):
    make.notmnist()
    monkeypatch.setattr(NotMnist, "_problem", lambda *_: "")
    for options in ([], ["--verify"]):
        found = rows(make.root, *options)["notmnist"]
        assert found["verified"] == "by number"
        assert "official, complete" not in found["content"]
    assert found["complete"]
    assert "no official checksum" in found["content"]


def test_benchmarks_that_need_the_data(make):
    found = rows(make.root)
    declared = declarations("benchmark")
    for name, row in found.items():
        using = [b for b, d in declared.items() if name in d.meta.get("datasets", ())]
        assert row["needed_by"] == using
    assert "five-datasets" in found["svhn"]["needed_by"]


def test_status_imports_no_torch(make):
    make.idx()
    program = (
        "import sys; from clbench.cli.data import command; "
        f"command(['status', '--data-root', {str(make.root)!r}], standalone_mode=False); "
        "sys.exit('torch' in sys.modules or 'avalanche' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
