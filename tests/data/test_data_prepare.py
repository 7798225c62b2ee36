"""`clbench data prepare`: from the network, and from what a user already has."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from clbench.cli.data import command
from clbench.data import load
from clbench.data import prepare as prepare_module
from clbench.data.catalog import READERS
from clbench.data.notmnist import NotMnist
from clbench.data.prepare import Download, downloads, prepare
from clbench.errors import UserError


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target"


def test_checksums_are_torchvisions():
    from torchvision import datasets

    for name, official in {"mnist": datasets.MNIST, "fashion-mnist": datasets.FashionMNIST}.items():
        packed = {f"{file}.gz": md5[0] for file, md5 in READERS[name].md5.items()}
        assert packed == dict(official.resources)
    for name, official in {"cifar10": datasets.CIFAR10, "cifar100": datasets.CIFAR100}.items():
        assert READERS[name].md5 == dict(official.train_list + official.test_list)
    split = datasets.SVHN.split_list
    assert READERS["svhn"].md5 == {split[p][1]: split[p][2] for p in ("train", "test")}


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10", "cifar100", "svhn"])
def test_downloads_land_where_they_are_looked_for(name, target):
    reader = READERS[name]
    for file in downloads(name):
        assert len(file.md5) == 32
        assert all(
            url.startswith("http") and url.endswith(Path(file.path).name) for url in file.urls
        )
        (target / file.path).parent.mkdir(parents=True, exist_ok=True)
        (target / file.path).touch()
    assert reader.find(target) is not None


def test_download_then_open(make, target, tmp_path, monkeypatch):
    make.idx()
    folder = make.root / "MNIST/raw"
    files = [
        Download(
            (path.as_uri(),), hashlib.md5(path.read_bytes()).hexdigest(), f"MNIST/raw/{path.name}"
        )
        for path in sorted(folder.iterdir())
    ]
    monkeypatch.setattr(prepare_module, "downloads", lambda name: files)
    (target / "MNIST/raw").mkdir(parents=True)
    shutil.copy(folder / "t10k-images-idx3-ubyte.gz", target / "MNIST/raw")  # an earlier attempt
    (folder / "t10k-images-idx3-ubyte.gz").unlink()  # so that fetching it again would fail
    data, how = prepare("mnist", target, tmp_path / "cache", accept=True)
    assert how == "downloaded"
    assert len(data.parts["train"].labels) == 20
    assert len(list((target / "MNIST/raw").iterdir())) == 4


@pytest.mark.parametrize("name", ["notmnist", "miniimagenet"])
def test_without_a_source_there_are_instructions(name, target, tmp_path):
    with pytest.raises(UserError, match=f"{target}.*prepare {name} --from"):
        prepare(name, target, tmp_path / "cache")


def test_unofficial_files_in_the_way_are_not_overwritten(make, tmp_path):
    make.idx()
    with pytest.raises(UserError, match=r"--accept-data") as refused:
        prepare("mnist", make.root, tmp_path / "cache")
    assert f"move {make.root / 'MNIST/raw'} away" in str(refused.value)


def test_what_run_and_prepare_refuse_has_the_same_two_ways_out(make, tmp_path):
    make.svhn()
    with pytest.raises(UserError) as run:
        load("svhn", make.root)
    with pytest.raises(UserError) as prepared:
        prepare("svhn", make.root, tmp_path / "cache")
    assert str(run.value) == str(prepared.value)
    assert "--accept-data" in str(run.value)
    for name in ("train", "test"):  # not the folder, which is the whole data root
        assert f"{make.root / name}_32x32.mat" in str(run.value)
    data, how = prepare("svhn", make.root, tmp_path / "cache", accept=True)
    assert how == "already there"
    assert load("svhn", make.root, accept=True).sha256 == data.sha256


LAYOUTS = {
    "mnist": ("idx", "MNIST/raw"),
    "cifar10": ("cifar10", "cifar-10-batches-py"),
    "cifar100": ("cifar100", "cifar-100-python"),
    "svhn": ("svhn", "."),
    "notmnist": ("notmnist", "notMNIST_small"),
    "miniimagenet": ("mini", "miniImageNet"),
}


@pytest.mark.parametrize("form", ["root", "folder", "zip", "tar.gz"])
@pytest.mark.parametrize("name", list(LAYOUTS))
def test_from_what_a_user_has(make, target, tmp_path, name, form):
    maker, place = LAYOUTS[name]
    getattr(make, maker)(*(["csv"] if maker == "mini" else []))
    given = {"root": make.root, "folder": make.root / place}.get(form)
    if given is None:
        given = make.archive(make.root / place, tmp_path / f"mine.{form}", "some/folder")
    with pytest.raises(UserError, match="--accept-data"):
        prepare(name, target, tmp_path / "cache", given)
    assert not [path for path in target.rglob("*") if path.is_file()]
    data, how = prepare(name, target, tmp_path / "cache", given, accept=True)
    assert how == "copied"
    before = {path: path.stat().st_mtime_ns for path in target.rglob("*")}
    again, how = prepare(name, target, tmp_path / "cache", given, accept=True)
    assert how == "already there"
    assert again.sha256 == data.sha256
    assert {path: path.stat().st_mtime_ns for path in target.rglob("*") if path.is_file()} == {
        path: time for path, time in before.items() if path.is_file()
    }
    shutil.rmtree(make.root)
    assert load(name, target, accept=True).sha256 == data.sha256
    assert not list(target.glob(".staging*"))


def test_from_one_file_of_several(make, target, tmp_path):
    make.svhn()
    prepare("svhn", target, tmp_path / "cache", make.root / "train_32x32.mat", accept=True)
    assert sorted(os.listdir(target)) == ["test_32x32.mat", "train_32x32.mat"]


def test_from_read_only_folders(make, target, tmp_path):
    make.notmnist()
    for folder in (make.root / "notMNIST_small").iterdir():
        folder.chmod(0o555)
    prepare("notmnist", target, tmp_path / "cache", make.root, accept=True)
    assert (target / "notMNIST_small/A").stat().st_mode & 0o200


@pytest.mark.parametrize("name", ["mnist", "notmnist"])
def test_from_does_not_overwrite_other_content(make, target, tmp_path, name):
    maker, place = LAYOUTS[name]
    getattr(make, maker)()
    prepare(name, target, tmp_path / "cache", make.root, accept=True)
    files = {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}
    first = sorted((make.root / place).rglob("*"))[-1]
    if name == "mnist":
        shutil.rmtree(make.root)
        make.idx()
    else:
        shutil.copyfile(first, first.with_name("more.png"))
    with pytest.raises(UserError, match=r"not overwritten.*[Mm]ove it away"):
        prepare(name, target, tmp_path / "cache", make.root, accept=True)
    assert {path: path.read_bytes() for path in target.rglob("*") if path.is_file()} == files


def test_from_a_hostile_archive_writes_nothing(tar_of, target, tmp_path):
    archive = tar_of("../outside/train-images-idx3-ubyte", tmp_path / "mnist.tar.gz")
    with pytest.raises(UserError, match="points outside"):
        prepare("mnist", target, tmp_path / "cache", archive, accept=True)
    assert list(target.iterdir()) == []
    assert not (tmp_path / "outside").exists()


def test_from_nowhere_and_from_the_wrong_folder(target, tmp_path):
    with pytest.raises(UserError, match="no such file or folder"):
        prepare("mnist", target, tmp_path / "cache", tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"no MNIST in it.*the four files"):
        prepare("mnist", target, tmp_path / "cache", tmp_path / "empty")


def ready(*arguments: str) -> str:
    done = CliRunner().invoke(command, ["prepare", *arguments], catch_exceptions=False)
    return done.output


def test_the_command_prints_what_is_ready(make, target):
    make.cifar100()
    options = ["--data-root", str(target), "--from", str(make.root), "--accept-data"]
    first, advice = ready("cifar100", *options).splitlines()
    assert "copied" in first
    assert "100 train, 100 test images" in first
    assert "subset: 200 of 60,000 images" in first
    assert "--accept-data" in advice
    assert "already there" in ready("cifar100", *options)
    (line,) = ready("mnist-5k").splitlines()
    assert "4,000 train, 1,000 test images; official, complete" in line


def test_the_command_says_what_was_checked(make, target, monkeypatch):
    make.notmnist()
    monkeypatch.setattr(NotMnist, "_problem", lambda *_: "")
    (line,) = ready("notmnist", "--data-root", str(make.root)).splitlines()
    assert "no official checksum" in line
    assert "official, complete" not in line
    assert load("notmnist", make.root).note == ""  # ids, records and tables stay as they were
