"""`clbench data status`: what is found, whether it is whole, who needs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from clbench.cli.data import command
from clbench.data import load, status
from clbench.errors import UserError


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
    assert "clbench data prepare svhn" in found["svhn"]["content"]
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


def test_table_for_people(make):
    make.idx()
    arguments = ["status", "--data-root", str(make.root)]
    text = CliRunner().invoke(command, arguments, catch_exceptions=False).stdout
    assert f"Data root: {make.root}" in text
    (line,) = [line for line in text.splitlines() if line.startswith("mnist ")]
    assert "subset: 30 of 70,000 images" in line
    assert "MNIST/raw" in line


def test_benchmarks_are_read_from_their_files(tmp_path, monkeypatch):
    (tmp_path / "__init__.py").touch()
    (tmp_path / "five_datasets.py").write_text(
        "import torch\nclass Five:\n    datasets: tuple[str, ...] = ('svhn', 'mnist')\n"
    )
    (tmp_path / "split_mnist.py").write_text("class Split:\n    datasets = ('mnist',)\n")
    (tmp_path / "broken.py").write_text("class (\n")
    spec = type("Spec", (), {"submodule_search_locations": [str(tmp_path)]})
    monkeypatch.setattr(status.importlib.util, "find_spec", lambda name: spec)
    assert status.benchmarks_by_data() == {
        "svhn": ("five-datasets",),
        "mnist": ("five-datasets", "split-mnist"),
    }


def test_status_imports_no_torch(make):
    make.idx()
    program = (
        "import sys; from clbench.cli.data import command; "
        f"command(['status', '--data-root', {str(make.root)!r}], standalone_mode=False); "
        "sys.exit('torch' in sys.modules or 'avalanche' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
