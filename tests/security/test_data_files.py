"""Hostile or odd data files: a sentence that names the file, little memory, nothing that waits."""

import gzip
import io
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import tarfile
import time
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_data import Make

from clbench.data import catalog, load, pickles, pictures
from clbench.data.archives import members, unpack
from clbench.data.cache import Cache
from clbench.data.catalog import READERS
from clbench.data.matlab import variable
from clbench.data.prepare import prepare
from clbench.data.status import survey
from clbench.errors import UserError

ZEROS = 16 * 2**20
PACKED = gzip.compress(bytes(ZEROS), 1)
GIGABYTE = 2**30
SURVEY = """
import json, resource, sys
from dataclasses import asdict
from pathlib import Path
import numpy, scipy, PIL.Image
from clbench.data.status import survey
root, cache, verify = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "True"
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + 2**30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
found = survey(root, cache, {}, verify)
peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
print(json.dumps([peak, {f.name: asdict(f) for f in found}]))
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("CLBENCH_CACHE", str(folder))
    return folder


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return Make(tmp_path / "root")


def limited(root: Path, verify: bool = False) -> dict[str, dict]:
    """`clbench data status` in a process that gets 1 GB for it, and must not use it up."""
    program = [sys.executable, "-c", SURVEY, str(root), str(root.parent / "cache"), str(verify)]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    peak, found = json.loads(done.stdout)
    assert peak < GIGABYTE
    return found


def refuse(name: str, root: Path, words: str) -> None:
    with pytest.raises(UserError, match=words):
        load(name, root, accept=True)


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def tar_head(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    head = tarfile.TarInfo(name)
    head.size, head.type = size, kind
    return head.tobuf(tarfile.GNU_FORMAT)


def mat(*variables: tuple[str, int, tuple[int, ...], int, bytes], announced: int = 0) -> bytes:
    """A MATLAB file of compressed arrays: name, class, sizes, type and bytes of the numbers."""
    content = b"MATLAB 5.0".ljust(124) + struct.pack("<H2s", 0x0100, b"IM")
    for name, kind, shape, numbers, data in variables:
        sizes = struct.pack(f"<{len(shape)}i", *shape)
        body = struct.pack("<IIII", 6, 8, kind, 0) + struct.pack("<II", 5, len(sizes)) + sizes
        body += bytes(-len(sizes) % 8) + struct.pack("<II", 1, len(name)) + name.encode()
        body += bytes(-len(name) % 8) + struct.pack("<II", numbers, announced or len(data)) + data
        body += bytes(-len(data) % 8)
        packed = zlib.compress(struct.pack("<II", 14, len(body)) + body)
        content += struct.pack("<II", 15, len(packed)) + packed
    return content


@pytest.mark.skipif(not Path("/proc").exists(), reason="memory is read from /proc")
def test_bombs_of_all_data_sets_at_once_are_sentences_and_take_little_memory(make):
    """One broken data set does not hide the others."""
    make.idx("FashionMNIST/raw")
    make.idx()
    bomb = make.root / "MNIST/raw/train-labels-idx1-ubyte.gz"
    bomb.write_bytes(PACKED * 384)  # 6.2 MB, unpacks to 6 GB
    make.cifar100()
    memo = b"\x80\x02Nr\xff\xff\xff\x0f."  # 9 bytes: number 268,435,455 of the memo
    write(make.root / "cifar-100-python/train", memo)
    tar = b"".join(
        gzip.compress(tar_head(f"data_batch_{n}", 6 * ZEROS)) + PACKED * 6 for n in range(1, 53)
    )
    write(make.root / "cifar-10-python.tar.gz", tar)
    labels = ("y", 9, (4_000_000_000 % 2**31, 1), 2, b"1")
    write(make.root / "train_32x32.mat", mat(labels, announced=4_000_000_000))
    write(make.root / "test_32x32.mat", mat(labels))
    rows = list(range(1000))
    content = {
        "image_data": np.zeros((1000, 1, 1, 1), np.uint8),
        "class_dict": dict.fromkeys(map(str, range(9000)), rows),
    }
    for part in ("train", "val", "test"):
        write(
            make.root / f"miniImageNet/mini-imagenet-cache-{part}.pkl",
            pickle.dumps(content, protocol=2),
        )
    found = limited(make.root)
    told = {name: row["content"] for name, row in found.items() if row["damaged"]}
    assert str(bomb) in told["mnist"]
    assert "unpacks to more than" in told["mnist"]
    assert "holds a NoneType" in told["cifar100"]
    assert "cifar-10-python.tar.gz unpacks to more than" in told["cifar10"]
    assert "train_32x32.mat" in told["svhn"]
    assert "announces 4,000,000,000 bytes" in told["svhn"]
    assert "mini-imagenet-cache-train.pkl" in told["miniimagenet"]
    assert "more images than the data set can have" in told["miniimagenet"]
    assert found["fashion-mnist"]["content"] == "subset: 30 of 70,000 images"
    assert set(told) == {"mnist", "cifar10", "cifar100", "svhn", "miniimagenet"}


@pytest.mark.parametrize("file", ["A/0.png", "B/1.png"])
@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "gone"])
def test_a_pipe_a_folder_or_a_device_in_the_place_of_an_image_does_not_wait(make, kind, file):
    make.notmnist()
    path = make.root / "notMNIST_small" / file
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else "/nowhere")
    for row in survey(make.root, make.root.parent / "cache", {}, verify=True):
        if row.name == "notmnist":
            assert row.damaged
            assert f"{path} cannot be read" in row.content
    refuse("notmnist", make.root, f"{path} cannot be read")


@pytest.mark.parametrize("name", ["train_32x32.mat", "test_32x32.mat"])
def test_a_pipe_in_the_place_of_a_file_does_not_wait(make, name):
    make.svhn()
    (make.root / name).unlink()
    os.mkfifo(make.root / name)
    refuse("svhn", make.root, f"incomplete: it lacks {name}")


def test_a_pipe_in_the_place_of_an_archive_does_not_wait(make, tmp_path):
    pipe = tmp_path / "cifar-100-python.tar.gz"
    os.mkfifo(pipe)
    with pytest.raises(UserError, match="neither a file nor a folder"):
        prepare("cifar100", make.root, tmp_path / "cache", pipe)
    with pytest.raises(UserError, match="not a regular file"):
        list(members(pipe, 1000, 10))


def test_pipes_and_nonsense_in_the_cache_are_ignored(make, cache):
    make.idx()
    load("mnist", make.root, accept=True)
    (manifest,) = cache.glob("mnist-*/manifest.json")
    (memo,) = cache.glob("sources/*.json")
    good = manifest.read_text()
    for path in (manifest, memo):
        for content in ("[" * 100_000, "[]", "7", '{"files": []}', '{"sha256": 5, "problem": ""}'):
            path.write_text(content)
            assert len(load("mnist", make.root, accept=True).parts["train"].labels) == 20
        path.unlink()
        os.mkfifo(path)
        assert len(load("mnist", make.root, accept=True).parts["train"].labels) == 20
    assert json.loads(good)["sha256"]


def test_a_remembered_checksum_cannot_name_a_folder_elsewhere(make, cache):
    make.idx()
    load("mnist", make.root, accept=True)
    (memo,) = cache.glob("sources/*.json")
    memo.write_text(json.dumps({"sha256": "../../victim", "problem": ""}))
    reader = READERS["mnist"]
    assert Cache(cache).recall(reader, reader.find(make.root)) is None


@pytest.mark.parametrize("name", ["notmnist", "miniimagenet"])
def test_a_folder_with_too_many_files_is_not_listed_to_its_end(make, name, monkeypatch):
    make.notmnist() if name == "notmnist" else make.mini("folders")
    few = replace(READERS[name], sizes={"train": 8, "test": 2})
    monkeypatch.setitem(catalog.READERS, name, few)
    refuse(name, make.root, "holds more files than the data set can have")


def test_a_table_with_too_many_rows(make, monkeypatch):
    make.mini("csv")
    few = replace(READERS["miniimagenet"], sizes={"train": 4, "test": 1})
    monkeypatch.setitem(catalog.READERS, "miniimagenet", few)
    refuse("miniimagenet", make.root, "train.csv has more rows")
    (make.root / "miniImageNet/train.csv").write_bytes(b"filename,label\n" + b"x" * 10_000)
    refuse("miniimagenet", make.root, "train.csv cannot be read: it has 10,015 bytes")
    (make.root / "miniImageNet/train.csv").write_text("filename,label\n", encoding="utf-16")
    refuse("miniimagenet", make.root, "train.csv is not a text in UTF-8")


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((2**32 - 1,) * 3, "declares 79,228,162,458,924,105,385,300,197,375 bytes"),
        ((0, 2**32 - 1, 2**32 - 1), "images of 1x4294967295x4294967295"),
        ((2**31, 2**31, 4), "declares 18,446,744,073,709,551,616 bytes"),
    ],
)
def test_idx_sizes_that_overflow(make, shape, words):
    make.idx(packed=False)
    head = bytes([0, 0, 8, 3]) + np.array(shape, ">u4").tobytes()
    write(make.root / "MNIST/raw/train-images-idx3-ubyte", head)
    refuse("mnist", make.root, words)


ODD = [
    ([0.5] * 100, "the label 0.5, which is no whole number"),
    ([float("nan")] * 100, "the label nan"),
    ([float("inf")] * 100, "the label inf"),
    ([1e300] * 100, "the label 1e\\+300"),
    ([-1] * 100, "labels from -1 to -1"),
    ([2**70] * 100, "not a row of whole numbers"),
    ([[0, 1]] * 100, "labels that are not numbers"),
    (["0"] * 100, "labels that are not numbers"),
    ([True] * 100, "not a row of whole numbers"),
    (np.zeros((100, 2)), "not a row of whole numbers"),
    (np.full(100, np.nan), "the label nan"),
    (np.full(100, 2**64 - 1, np.uint64), "no whole number|labels from"),
    (7, "not a row of whole numbers"),
    (np.zeros(120_001, np.uint8), "holds 120,001 labels, more than the data set can have"),
    (None, "not a row of whole numbers"),
    ({}, "not a row of whole numbers"),
]


@pytest.mark.parametrize(("labels", "words"), ODD)
def test_odd_labels_of_cifar(make, labels, words):
    images = make.cifar100()
    content = {"data": images["train"], "fine_labels": labels}
    write(make.root / "cifar-100-python/train", pickle.dumps(content, protocol=2))
    refuse("cifar100", make.root, words)


def test_whole_numbers_as_floats_are_labels(make):
    images = make.cifar100()
    content = {"data": images["train"], "fine_labels": [float(n) for n in range(100)]}
    write(make.root / "cifar-100-python/train", pickle.dumps(content, protocol=2))
    assert load("cifar100", make.root, accept=True).parts["train"].labels[:3].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.full((10, 1), 0.5), "the label 0.5, which is no whole number"),
        (np.full((10, 1), np.nan), "the label nan"),
        (np.full((10, 1), -np.inf), "the label -inf"),
        (np.full((10, 1), -3), "labels from -3 to -3"),
        (np.full((10, 1), 11), "labels from 11 to 11"),
        (np.full((5, 2), 1), "one column is needed"),
        (np.full((10, 1), 1 + 1j), "y is no array of numbers"),
        (np.array([["a"]] * 10), "y is no array of numbers"),
        (np.array([[0.5]] * 10, dtype=object), "y is no array of numbers"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_odd_labels_of_svhn(make, labels, words, packed):
    from scipy.io import savemat

    images = make.svhn()["train"]
    path = make.root / "train_32x32.mat"
    savemat(path, {"X": images, "y": labels}, do_compression=packed)
    refuse("svhn", make.root, words)


@pytest.mark.parametrize("kind", ["u1", "i1", "<u2", "i2", "<i4", "u4", "f4", "<f8", "i8", "u8"])
@pytest.mark.parametrize("packed", [False, True])
def test_matlab_arrays_are_those_of_scipy(tmp_path, kind, packed):
    from scipy.io import loadmat, savemat

    path, random = tmp_path / "x.mat", np.random.default_rng(0)
    made = {n: random.integers(0, 100, shape).astype(kind) for n, shape in SHAPES.items()}
    savemat(path, made, do_compression=packed)
    expected = loadmat(path)
    for name in made:
        assert np.array_equal(variable(path, name, 10**6), expected[name])


SHAPES = {"X": (3, 2, 3, 5), "y": (7, 1), "one": (1, 1), "a_longer_name": (1, 9)}


@pytest.mark.parametrize("place", ["flags", "sizes"])
@pytest.mark.parametrize("value", [0.5, float("inf"), float("nan"), -1.0])
def test_matlab_heads_of_another_type(tmp_path, place, value):
    odd = struct.pack("<IIdd", 9, 16, value, value)
    flags, sizes = struct.pack("<IIII", 6, 8, 9, 0), struct.pack("<IIii", 5, 8, 1, 1)
    head = odd + sizes if place == "flags" else flags + odd
    body = head + struct.pack("<HH4s", 1, 1, b"y") + struct.pack("<HH4s", 2, 1, b"1")
    start = b"MATLAB 5.0".ljust(124) + struct.pack("<H2s", 0x0100, b"IM")
    path = write(tmp_path / "x.mat", start + struct.pack("<II", 14, len(body)) + body)
    with pytest.raises(UserError, match=r"x\.mat is damaged"):
        variable(path, "y", 10**6)


@pytest.mark.parametrize(
    "content",
    [
        {"a": [1]},
        b"(dp0\nS'data'\ng0\ns.",  # a dictionary that holds itself
        b"(" * 1000 + b".",
        b"]" * 100_001 + b".",  # a step takes 56 bytes
        b"}" + b"(K\x01" * 10 + b"u.",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"X\xff\xff\xff\x7f.",
        b"I" + b"9" * 100_000 + b"\n.",
        b"\x8b\xff\xff\xff\x7f.",
        b"c__builtin__\nrange\n.",
        b"cbuiltins\nrange\n(I1000000000000\ntR.",
        b"cbuiltins\nrange\n(I1000000000\ntR.",
        b"c_codecs\nencode\n}b.",
        b"\x8f.",
        b"\x80\x04\x8f(K\x01\x90.",
        b"Pa\n.",
        b"\x82\x01.",
        b"c\x1b[31m\nx\n.",
    ],
)
def test_odd_pickles_are_sentences(tmp_path, content, monkeypatch):
    monkeypatch.setattr(pickles, "STEPS", 100_000)
    if isinstance(content, dict):
        content = pickle.dumps([content])
    path = write(tmp_path / "train", content)
    with path.open("rb") as file:
        try:
            pickles.unpickle(file, path)
        except UserError as error:
            assert str(path) in str(error)  # noqa: PT017
            assert str(error).isprintable()  # noqa: PT017
            assert len(str(error)) < 500  # noqa: PT017
        else:
            assert content.startswith(b"(dp0")


def test_a_pickle_cannot_grow_by_repetition(tmp_path):
    """Shared lists, repeated encoding and many keys cost what they take in the file."""
    text = b"X" + struct.pack("<I", 2**20) + bytes(2**20)
    encoded = b"c_codecs\nencode\nq\x00" + text + b"q\x01" + b"0h\x00h\x01\x85R" * 100 + b"."
    keys = b"}(" + b"".join(b"M" + struct.pack("<H", n) + b"N" for n in range(20_000)) + b"u."
    for content, words in ((encoded, "repeats its texts"), (keys, "more than 10,000 keys")):
        path = write(tmp_path / "train", content)
        with path.open("rb") as file, pytest.raises(UserError, match=words):
            pickles.unpickle(file, path)
    shared: dict = {}
    for _ in range(60):  # each holds the one before twice
        shared = {0: shared, 1: shared}
    made = pickles.unpickle(io.BytesIO(pickle.dumps(shared)), "x")
    assert made["0"] is made["1"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a\0b.png", "with the name 'a.x00b.png'"),
        ("a\x1b[31m.png", "with the name"),
        ("x" * 5000 + "/../../y.png", "points outside"),
        ("/etc/x.png", "points outside"),
        ("../x.png", "points outside"),
    ],
)
@pytest.mark.parametrize("form", ["tar", "zip"])
def test_names_in_archives_that_are_refused(tmp_path, name, words, form):
    path, inside = tmp_path / f"x.{form}", tmp_path / "a" / "inside"
    if form == "tar":
        with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
            member = tarfile.TarInfo("x")
            member.pax_headers = {"path": name}
            archive.addfile(member, io.BytesIO())
    else:
        with zipfile.ZipFile(path, "w") as packed:
            info = zipfile.ZipInfo("x")
            info.filename = info.orig_filename = name
            packed.writestr(info, b"x")
        if "\0" in name:  # zipfile itself ends the name there
            unpack(path, inside, 10**6, 10)
            assert [p.name for p in inside.iterdir()] == ["a"]
            return
    with pytest.raises(UserError, match=words):
        unpack(path, inside, 10**6, 10)
    assert sorted(p.name for p in tmp_path.rglob("*")) == [path.name]


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
def test_a_head_of_a_tar_that_announces_much(tmp_path, kind):
    """Extended attributes and long names, which tarfile would read at once."""
    head = gzip.compress(tar_head("x", 64 * ZEROS, kind))
    path = write(tmp_path / "x.tar.gz", head + PACKED * 64)
    with pytest.raises(UserError, match="the head of a file has more than"):
        list(members(path, 4 * GIGABYTE, 10))


@pytest.mark.parametrize(
    "content",
    [
        b"1" * 2**20,
        b"2 " * 2**19,
        b"2 " * 2**18 + b"=" + b"2 " * 2**18,
        b"0 a=\n",
        b"-9 a=b\n",
        b"5 a=b",
        b"7 a=bc\n9",
        b"22 GNU.sparse.major=1\n",
        b"a=b\n",
        b"7 =abc\n",
    ],
)
@pytest.mark.parametrize("kind", [b"x", b"g"])
def test_attributes_of_a_tar_are_read_in_linear_time(tmp_path, content, kind):
    """The patterns of Python's own reader (CVE-2024-6232) take hours or hundreds of gigabytes."""
    content = content[: 2**20 - 2048]
    body = tar_head("x", len(content), kind) + content + bytes(-len(content) % 512)
    path = write(tmp_path / "x.tar.gz", gzip.compress(body + tar_head("y", 0) + bytes(1024)))
    started = time.process_time()
    with pytest.raises(UserError, match=r"x\.tar\.gz is damaged"):
        list(members(path, 10**9, 10))
    assert time.process_time() - started < 5


def test_names_and_sizes_in_the_attributes_of_a_tar_count(tmp_path):
    name = "Ähre/" + "x" * 200 + ".png"
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "all"}) as made:
        for number in range(2):
            member = tarfile.TarInfo(f"{number}{name}")
            member.size, member.mtime = 700, 1.5
            member.pax_headers = {"size": "700"}
            made.addfile(member, io.BytesIO(bytes([number]) * 700))
    found = [(name, b"".join(content)) for name, content in members(path, 10**6, 10)]
    assert found == [(f"{number}{name}", bytes([number]) * 700) for number in range(2)]


def test_links_devices_and_pipes_in_archives(tmp_path):
    for kind in (tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
        path = write(tmp_path / "x.tar", tar_head("A/1.png", 0, kind) + bytes(1024))
        with pytest.raises(UserError, match="is a link or device"):
            list(members(path, 10**6, 10))


def test_archives_with_too_many_files_or_bytes(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for n in range(30):
            packed.writestr(f"{n}.png", bytes(1000))
    for limit, most, words in ((10**6, 10, "more files than"), (10**4, 99, "unpacks to more than")):
        with pytest.raises(UserError, match=words):
            unpack(path, tmp_path / "inside", limit, most)
        shutil.rmtree(tmp_path / "inside")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as packed:
        packed.writestr("x.png", bytes(1000))
    with pytest.raises(UserError, match="packed by the method 14"):
        list(members(path, 10**6, 10))


def test_an_eps_named_png_starts_no_ghostscript(tmp_path, monkeypatch):
    """Pillow may read PNG, JPEG and BMP, and nothing else."""
    from PIL import EpsImagePlugin, Image

    Image.init()
    called = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *a, **k: called.append(a))
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 28 28\n%%EndComments\nshowpage\n"
    gif = io.BytesIO()
    Image.new("L", (28, 28)).save(gif, "GIF")
    for content in (eps, gif.getvalue()):
        with pytest.raises(UserError, match=r"x\.png does not decode"):
            pictures.decode("x.png", content, (1, 28, 28))
    assert not called


def png(width: int, height: int, data: bytes, *chunks: tuple[bytes, bytes]) -> bytes:
    content = b"\x89PNG\r\n\x1a\n"
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    for kind, body in ((b"IHDR", head), *chunks, (b"IDAT", zlib.compress(data)), (b"IEND", b"")):
        check = struct.pack(">I", zlib.crc32(kind + body))
        content += struct.pack(">I", len(body)) + kind + body + check
    return content


def test_images_that_are_bombs():
    """Many pixels, long texts, a profile that unpacks to much, and a JPEG drawn 5,000 times."""
    from PIL import Image

    for side in (5000, 12_000):  # Pillow warns of the second
        many = png(side, side, bytes(side + 1))
        with pytest.raises(UserError, match="more than 16,777,216 pixels"):
            pictures.decode("x.png", many, (3, 84, 84), set())
    text = (b"zTXt", b"a\0\0" + zlib.compress(bytes(ZEROS)))
    profile = (b"iCCP", b"a\0\0" + zlib.compress(bytes(ZEROS)))
    for chunk in (text, profile):
        content = png(28, 28, bytes(29 * 28), chunk)
        with pytest.raises(UserError, match="does not decode"):
            pictures.decode("x.png", content, (1, 28, 28))
    file = io.BytesIO()
    Image.effect_noise((84, 84), 50).save(file, "JPEG", progressive=True)
    good = file.getvalue()
    assert pictures.decode("x.jpg", good, (1, 84, 84)).shape == (1, 84, 84)
    start = good.index(b"\xff\xda")
    scan = good[start : good.index(b"\xff\xda", start + 2)]
    with pytest.raises(UserError, match="more than 100 scans"):
        pictures.decode("x.jpg", good[:start] + scan * 5000 + good[start:], (1, 84, 84))


def test_file_names_that_are_not_utf_8_are_names(make):
    make.mini("folders")
    folder = make.root / "miniImageNet/n01"
    os.rename(folder / "n01_0.jpg", os.fsencode(folder) + b"/n01_\xff.jpg")
    assert load("miniimagenet", make.root, accept=True).classes == 4


def test_rows_of_a_pickle_are_whole_numbers(make):
    make.mini("pickles")
    path = make.root / "miniImageNet/mini-imagenet-cache-val.pkl"
    content = pickle.loads(path.read_bytes())
    content["class_dict"] = {"n02": [0.7, 1.2, 2.0]}
    path.write_bytes(pickle.dumps(content))
    refuse("miniimagenet", make.root, "cache-val.pkl .*float")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_named(make):
    make.svhn()
    path = make.root / "train_32x32.mat"
    path.chmod(0)
    refuse("svhn", make.root, f"{path} cannot be read: Permission denied")


@pytest.mark.parametrize("name", ["x" * 300, "~nosuchuser/data"])
def test_paths_that_cannot_be(name, tmp_path, monkeypatch):
    from clbench.data import data_root
    from clbench.data import prepare as prepare_module

    file = prepare_module.Download(("file:///nowhere",), "", "MNIST/raw/x")
    monkeypatch.setattr(prepare_module, "downloads", lambda _: [file])
    with pytest.raises(UserError, match=r"no such user|File name too long|cannot be read"):
        load("mnist", data_root(name))
    with pytest.raises(UserError, match=r"no such user|File name too long|cannot be read"):
        prepare("mnist", tmp_path, tmp_path / "cache", data_root(name))
    with pytest.raises(UserError, match=r"no such user|File name too long|cannot be read"):
        prepare("mnist", data_root(name), tmp_path / "cache")


def test_status_prints_no_escapes(make, monkeypatch):
    from click.testing import CliRunner

    from clbench.cli.data import command

    monkeypatch.setenv("COLUMNS", "300")
    make.mini("csv")
    table = make.root / "miniImageNet/train.csv"
    table.write_text("filename,label\n\x1b[31mred.jpg,n01\n\u202ebidi.jpg,n01\n")
    told = CliRunner().invoke(command, ["status", "--data-root", str(make.root)]).stdout
    assert "red.jpg" in told
    assert "\x1b" not in told
    assert "\u202e" not in told
