"""Damaged data files by the thousand: a data set opens, or a UserError says why not.

A fixed number of cases runs with the tests; `CLBENCH_FUZZ_SECONDS=3600 pytest -n 0
tests/security/test_data_fuzz.py` runs longer, from another seed each time.
"""

import gzip
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zlib
from collections import Counter
from pathlib import Path

CASES = 500
SLOWEST = 20
"""Seconds after which a case counts as one that does not end."""
GIGABYTE = 2**30
VALUES = [
    *(bytes([byte]) * size for byte in (0, 1, 0x7F, 0x80, 0xFF) for size in (1, 2, 4, 8)),
    *(n.to_bytes(4, order) for n in (1, 255, 2**16, 2**31, 2**24) for order in ("big", "little")),
    *(bytes([byte]) for byte in b"}](.0)RbcIVSpgqrhjuesalt\x85\x86\x87\x8c\x8e\x93\x94\x95\x96NK"),
    *(b"../", b"/", b"\\", b"\n", b"nan", b"1e999", b"9" * 40, b"\xff\xda", b"PK\x01\x02"),
]


def damage(content: bytes, chance: random.Random) -> bytes:
    """`content` with one to four changes."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 4))):
        # the heads matter most, and tails hold the index of a zip
        place = min(int(chance.expovariate(1 / 200)), max(0, len(data) - 1))
        if chance.random() < 0.3:
            place = chance.randrange(len(data) + 1)
        elif chance.random() < 0.3:
            place = len(data) - place
        value = chance.choice(VALUES)
        kind = chance.randrange(6)
        if kind == 0 and place < len(data):
            data[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[place : place + len(value)] = value
        elif kind == 2:
            data[place:place] = value
        elif kind == 3:
            del data[place : place + chance.choice((1, 2, 4, 8, 512))]
        elif kind == 4:
            other = chance.randrange(len(data) + 1)
            data[place:place] = data[other : other + chance.choice((4, 16, 128, 512))]
        else:
            del data[place:]
    return bytes(data)


def damage_inside(content: bytes, chance: random.Random) -> bytes:
    """The same, in half of the cases below the compression."""
    if content[:2] == b"\x1f\x8b" and chance.random() < 0.7:
        return gzip.compress(with_sums(damage(gzip.decompress(content), chance)), 1)
    if content[124:128] == b"\x00\x01IM" and content[128] == 15 and chance.random() < 0.7:
        size = int.from_bytes(content[132:136], "little")
        inner = zlib.compress(damage(zlib.decompress(content[136 : 136 + size]), chance), 1)
        head = content[:132] + len(inner).to_bytes(4, "little")
        return head + inner + content[136 + size :]
    if content[:4] == b"\x89PNG" and chance.random() < 0.7:
        return with_checksums(damage(content[8:], chance))
    return with_sums(damage(content, chance))


def with_sums(content: bytes) -> bytes:
    """The same; if it is a tar, the heads of its files have the right checksums."""
    data = bytearray(content)
    for place in range(0, len(data) - 511, 512):
        if data[place + 257 : place + 262] == b"ustar":
            data[place + 148 : place + 156] = b" " * 8
            data[place + 148 : place + 156] = b"%06o\0 " % sum(data[place : place + 512])
    return bytes(data)


def with_checksums(chunks: bytes) -> bytes:
    """A PNG whose chunks have the right checksums, so that readers look inside."""
    content, place = b"\x89PNG\r\n\x1a\n", 0
    while place + 12 <= len(chunks):
        size = int.from_bytes(chunks[place : place + 4], "big")
        body = chunks[place + 4 : place + 8 + size]
        content += chunks[place : place + 4] + body + zlib.crc32(body).to_bytes(4, "big")
        place += 12 + size
    return content


def samples(folder: Path) -> list[tuple[str, Path, list[Path]]]:
    """Name of a data set, its root, and its files that are damaged."""
    import pickle

    from made_data import Make
    from PIL import Image
    from scipy.io import savemat

    made = []

    def add(name: str, root: Path) -> None:
        made.append((name, root, sorted(path for path in root.rglob("*") if path.is_file())))

    for packed in (True, False):
        make = Make(folder / f"idx{packed}")
        make.idx(packed=packed)
        add("mnist", make.root)
    for protocol in (0, 2, 5):
        make = Make(folder / f"cifar100-{protocol}")
        (make.root / "cifar-100-python").mkdir(parents=True)
        for part in ("train", "test"):
            labels = list(range(100))
            content = {"data": make.pixels(100, 3072), "fine_labels": labels, "more": ["x", 1.5]}
            path = make.root / "cifar-100-python" / part
            path.write_bytes(pickle.dumps(content, protocol=protocol))
        add("cifar100", make.root)
    for form, pattern in (("tar.gz", "w:gz"), ("tar", "w"), ("zip", "")):
        make = Make(folder / f"notmnist-{form.replace('.', '')}")
        make.notmnist(count=2)
        archive = f"notMNIST_small.{'tar.gz' if pattern else 'zip'}"
        if pattern:
            with tarfile.open(
                make.root / archive, pattern, format=tarfile.PAX_FORMAT
            ) as packed_tar:
                packed_tar.add(make.root / "notMNIST_small", "notMNIST_small/ä" + "x" * 120)
        else:
            make.archive(make.root / "notMNIST_small", make.root / archive, "notMNIST_small")
        shutil.rmtree(make.root / "notMNIST_small")
        add("notmnist", make.root)
    make = Make(folder / "notmnist")
    make.notmnist(count=2)
    add("notmnist", make.root)
    for compressed in (True, False):
        make = Make(folder / f"svhn{compressed}")
        make.root.mkdir()
        for part in ("train", "test"):
            values = {"y": make.pixels(10, 1) % 10, "X": make.pixels(32, 32, 3, 10)}
            savemat(make.root / f"{part}_32x32.mat", values, do_compression=compressed)
        add("svhn", make.root)
    for layout in ("csv", "folders", "pickles"):
        make = Make(folder / f"mini-{layout}")
        make.mini(layout, count=2)
        for number, path in enumerate(make.root.rglob("*.jpg")):
            form = ("PNG", "JPEG", "BMP")[number % 3]
            image = io.BytesIO()
            Image.open(path).save(image, form, **({"progressive": True} if form == "JPEG" else {}))
            path.write_bytes(image.getvalue())
        add("miniimagenet", make.root)
    return made


def attempt(name: str, root: Path, out: Path) -> None:
    """All that clbench does with the files, but for the copy in the cache."""
    from clbench.data.archives import is_archive, unpack
    from clbench.data.catalog import READERS
    from clbench.data.reader import readable

    reader = READERS[name]
    with readable(root):
        source = reader.find(root)
        assert source is not None
        if is_archive(source.where):
            unpack(source.where, out / "unpacked", reader.largest, reader.most)
        reader.inspect(source)
        reader.count(source)
        for _, images, labels in reader.decode(source, accept=True).blocks:
            assert images.dtype == "uint8"
            assert images.shape[1:] == reader.shape
            assert labels.dtype.kind in "iu"
            assert len(images) == len(labels)


def tree(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def fuzz(folder: Path, seed: int, cases: int, seconds: float) -> dict[str, object]:
    """Run the cases, at least `seconds` long; the first failure ends it, with its files kept."""
    from clbench.errors import UserError

    def stop(*_: object) -> None:
        raise AssertionError(f"a case takes more than {SLOWEST} s")

    signal.signal(signal.SIGALRM, stop)
    made, start, done = samples(folder / "samples"), time.monotonic(), 0
    before, told = tree(folder), Counter()
    out = folder / "out"
    for name, root, _ in made:  # undamaged, they open
        attempt(name, root, out)
        shutil.rmtree(out, ignore_errors=True)
    while done < cases or time.monotonic() - start < seconds:
        chance = random.Random(f"{seed} {done}")
        name, root, files = made[done % len(made)]
        path = chance.choice(files)
        content = path.read_bytes()
        path.write_bytes(damage_inside(content, chance))
        out.mkdir()
        signal.alarm(SLOWEST)
        try:
            attempt(name, root, out)
            told["opened"] += 1
        except UserError as error:
            told["refused"] += 1
            if len(str(error)) > 1000 + 5 * len(str(folder)):
                raise AssertionError(f"a long sentence: {error}") from None
        except BaseException:
            print(f"seed {seed}, case {done}: {path}", file=sys.stderr)
            raise
        finally:
            signal.alarm(0)
        path.write_bytes(content)
        shutil.rmtree(out)
        done += 1
        if done % 100 == 0:
            assert tree(folder) == before, tree(folder) - before
    status = Path("/proc/self/status")  # ru_maxrss would count the parent's memory
    peak = int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024 if status.exists() else 0
    return {"cases": done, "seconds": time.monotonic() - start, "peak": peak, **told}


def test_damaged_files_are_opened_or_refused(tmp_path: Path) -> None:
    """No traceback, no write outside of the folder, less than 1 GB, no case without end."""
    seconds = float(os.environ.get("CLBENCH_FUZZ_SECONDS", "0"))
    seed = str(time.time_ns() if seconds else 0)
    arguments = [sys.executable, __file__, str(tmp_path / "fuzz"), seed, str(CASES), str(seconds)]
    tests = str(Path(__file__).parents[1])
    path = os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    done = subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    print(figures)
    assert figures["peak"] < GIGABYTE
    assert figures["refused"] > CASES / 10
    assert figures["opened"] > CASES / 10
    assert [path.name for path in tmp_path.iterdir()] == ["fuzz"]


if __name__ == "__main__":
    (folder := Path(sys.argv[1])).mkdir()
    (folder / "samples").mkdir()
    figures = fuzz(folder, int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
    print(json.dumps(figures))
