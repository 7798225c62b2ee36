"""What a checkpoint from a stranger and a method that misbehaves can do to a run."""

import collections
import io
import os
import pickle
import pickletools
import resource
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from clbench import checkpoint, preflight
from clbench.errors import UserError
from clbench.events import Ended, Note
from clbench.executors import Resources, local, turns
from clbench.record import Differs, Provenance, Record, Shown, Titles
from clbench.record_file import DamagedRecordError, encode
from clbench.runner import run
from clbench.store import Store

METHOD = """
import os
import torch
from clbench import Method, Strategy, ordinary

class Trained(Strategy):
    {body}

class {name}(Method):
    title = "Own"
    family = "reference"
    {facts}

    def build(self, stream):
        return Trained(model=ordinary(stream), stream=stream)
"""


@pytest.fixture
def own(method_file: Callable[..., Path], cell: Callable[..., Any]) -> Callable[..., Any]:
    """The cell of a method whose strategy has a `body`."""

    def make(body: str, facts: str = "", name: str = "own") -> Any:
        text = METHOD.replace("{body}", body).replace("{facts}", facts)
        return cell(str(method_file(name, text)), epochs=1)

    return make


def partial(made: Any, place: Any) -> tuple[Record, dict[str, Any]]:
    """A run as it was after its second task."""
    store = Store(place.out)
    done = run(made, place)
    record = msgspec.structs.replace(done, status="partial", done=2, R=done.R[:2], valid=[],
                                     diagnostics=done.diagnostics[:2])  # fmt: skip
    _, state = checkpoint.load(store.checkpoint_path(made.id), made.id)
    store.write(record, checkpoint.packed(record, state))
    return record, state


def forge(place: Any, made: Any, text: str, state: Any) -> None:
    file = io.BytesIO()
    torch.save({"record": text, "state": state}, file)
    Store(place.out).checkpoint_path(made.id).write_bytes(file.getvalue())


@pytest.mark.parametrize("name", ["../../victim/settings", "/tmp/settings", "0123456789ab"])
def test_a_checkpoint_continues_only_the_run_whose_id_it_has(
    cell: Callable[..., Any], place: Any, tmp_path: Path, name: str
) -> None:
    made, notes = cell(epochs=1), []
    record, state = partial(made, place)
    text = encode(record).decode().replace(made.id, name)
    forge(place, made, text, state)
    before = {p for p in tmp_path.rglob("*") if place.out not in p.parents}
    done = run(made, place, lambda cell, event: notes.append(event))
    assert (done.id, done.status) == (made.id, "done")
    assert any("starts again" in note.text for note in notes if isinstance(note, Note))
    after = {p for p in tmp_path.rglob("*") if place.out not in p.parents}
    assert after == before
    assert [p.name for p in (place.out / "records").iterdir()] == [f"{made.id}.json"]


def test_a_checkpoint_gives_what_was_measured_and_nothing_else(
    cell: Callable[..., Any], place: Any
) -> None:
    made = cell(epochs=1)
    record, state = partial(made, place)
    genuine = run(made, place)
    forged = msgspec.structs.replace(
        record,
        titles=Titles(method="Best", benchmark="Hard"),
        differs=Differs(method={"a": 1}),
        family="memory",
        zero_forgetting=True,
        upper_bound=True,
        replay_size="a",
        lays_open={"x": Shown(title="X", kind="number")},
        provenance=Provenance(host="elsewhere", argv=["rm"]),
    )
    store = Store(place.out)
    store.write(forged, checkpoint.packed(forged, state))
    found = run(made, place)
    for name in ("titles", "differs", "family", "zero_forgetting", "upper_bound", "replay_size",
                 "lays_open", "provenance", "spec", "data", "R", "tasks"):  # fmt: skip
        assert getattr(found, name) == getattr(genuine, name), name


def bomb(path: Path) -> None:
    """A checkpoint with a compressed part that would unpack to 2 GB."""
    genuine = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(genuine)) as old, zipfile.ZipFile(path, "w") as new:
        for part in old.infolist():
            new.writestr(part.filename, old.read(part), zipfile.ZIP_STORED)
        new.writestr("archive/data/9999", bytes(10**7), zipfile.ZIP_DEFLATED)


def large_structure(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", b"]" * (checkpoint.STRUCTURE + 1))


def expanded(path: Path) -> None:
    torch.save({"record": "", "state": torch.zeros(1).expand(2**40)}, path)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def code(path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {path}.ran",)

    path.write_bytes(pickle.dumps({"record": Evil(), "state": {}}))


def structured(path: Path, state: bytes) -> None:
    """Replace the state in a checkpoint by another pickle."""
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    [name] = [name for name in parts if name.endswith("/data.pkl")]
    [record] = [
        text for _, text, _ in pickletools.genops(parts[name]) if "schema" in str(text)[:20]
    ]
    text = b"X" + struct.pack("<I", len(record.encode())) + record.encode()
    parts[name] = b"\x80\x02}(X\x06\0\0\0record" + text + b"X\x05\0\0\0state" + state + b"u."
    with zipfile.ZipFile(path, "w") as file:
        for part, content in parts.items():
            file.writestr(part, content)


def doubled(path: Path) -> None:
    """Sixty lists, each of which holds the one before twice."""
    lists = b"".join(b"]q%c(h%ch%ce" % (n, n - 1, n - 1) for n in range(1, 61))
    structured(path, b"](]q\0" + lists + b"e")


def announced(path: Path) -> None:
    structured(path, b"cbuiltins\nbytearray\n(\x8a\x05" + (4 * 10**9).to_bytes(5, "little") + b"tR")


def encoded(path: Path) -> None:
    """Each step doubles a text."""
    text = b"X\x04\0\0\0abcdX\x06\0\0\0latin1"
    for _ in range(31):
        text = b"c_codecs\nencode\n(" + text + b"tRX\x03\0\0\0hex"
    structured(path, text[:-8])


def colliding(path: Path) -> None:
    """Keys with the same hash."""
    keys = (((n + 9) * (2**61 - 1)).to_bytes(10, "little") for n in range(60_000))
    structured(path, b"}(" + b"".join(b"\x8a\x0a" + key + b"N" for key in keys) + b"u")


STRUCTURES = [doubled, announced, encoded, colliding]


@pytest.mark.parametrize("make", STRUCTURES)
def test_a_structure_that_would_take_hours_or_all_memory_is_refused(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "x.pt"
    torch.save({"record": '{"schema": 2}', "state": {}}, path)
    make(path)
    before, started = peak(), time.process_time()
    with pytest.raises((ValueError, TypeError, AttributeError, UserError)) as caught:
        checkpoint.load(path, "0123456789ab")
    assert not isinstance(caught.value, DamagedRecordError), "the structure comes before the record"
    assert time.process_time() - started < 5
    assert peak() - before < 10**9


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_plain_values_of_all_kinds_come_back_from_a_checkpoint(
    cell: Callable[..., Any], place: Any
) -> None:
    record = run(cell(epochs=1), place)
    state = {
        "module": torch.nn.Linear(2, 3).state_dict(),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "types": [torch.ones(2).to(t) for t in (torch.bfloat16, torch.bool, torch.complex64)],
        "random": [torch.get_rng_state(), {"state": 2**127, "inc": -(2**70)}],
        "bytes": [b"\xff\0", bytearray(b"\xfe")],
        "keys": {(1, "a"): 1, None: 2, True: 3, -4: 5, b"6": 7},
        "sets": [{1, "a", (2, 3)}, collections.Counter("aab"), torch.Size([1, 2])],
        "others": [torch.float32, torch.device("cpu"), 0.5, float("inf"), (), [[]], {}],
    }
    path = Store(place.out).checkpoint_path(record.id)
    path.write_bytes(checkpoint.packed(record, state))
    _, found = checkpoint.load(path, record.id)
    assert str(found) == str(state)
    assert found["bytes"] == state["bytes"]
    assert found["keys"] == state["keys"]
    assert found["sets"] == state["sets"]


@pytest.mark.parametrize(
    "make", [bomb, large_structure, expanded, fifo, device, code, doubled, announced]
)
def test_a_checkpoint_that_is_none_is_said_and_the_run_starts_again(
    cell: Callable[..., Any], place: Any, make: Callable[[Path], None]
) -> None:
    made, notes = cell(epochs=1), []
    partial(made, place)
    path = Store(place.out).checkpoint_path(made.id)
    make(path)
    assert run(made, place, lambda cell, event: notes.append(event)).status == "done"
    assert sum("is damaged" in note.text for note in notes if isinstance(note, Note)) == 1
    assert path.is_file()
    assert not path.with_name(f"{path.name}.ran").exists()


WRONG = {
    "accuracy is nan": "def accuracy(self, k): return float('nan')",
    "accuracy is infinite": "def accuracy(self, k): return float('inf')",
    "accuracy is a tensor": "def accuracy(self, k): return torch.tensor(3.0)",
    "validation is nan": "def valid_accuracy(self, k): return float('nan')",
    "validation is none": "def valid_accuracy(self, k): return None",
    "loss is nan": "def validate(self): return 50.0, float('nan')",
    "loss is infinite": "def validate(self): return 50.0, float('inf')",
    "loss is a tensor": "def validate(self): return 50.0, torch.tensor(1.0)",
    "validation in the curve is 101": "def validate(self): return 101.0, 1.0",
    "curve is a number": "def learn(self, k): return 3",
    "curve is of numbers": "def learn(self, k): return [3]",
    "memory is none": "def memory(self): return None",
    "memory is a tensor": "def memory(self): return super().memory().__class__(torch.ones(3))",
    "memory is negative": "def memory(self): return super().memory().__class__(-1)",
    "diagnostics are nan": "def diagnostics(self): return {'a': float('nan')}",
    "diagnostics are a tensor": "def diagnostics(self): return {'a': torch.ones(3)}",
    "diagnostics are a list": "def diagnostics(self): return [1]",
    "diagnostics are deep": "def diagnostics(self): return {'a': eval('[' * 50 + ']' * 50)}",
    "diagnostics have a circle": "def diagnostics(self): a = []; a.append(a); return {'a': a}",
    "diagnostics are huge": "def diagnostics(self): return {'a': ['a' * 4000] * 5000}",
    "state is a function": "def state_dict(self): return {'a': lambda: 0}",
    "half a character": r"def learn(self, k): raise ValueError('\ud800')",
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_no_record_can_hold_is_a_failure_that_is_kept(
    own: Callable[..., Any], place: Any, kind: str
) -> None:
    made = own(WRONG[kind])
    record = run(made, place)
    assert record.status == "failed"
    assert record.failure is not None
    assert "Traceback" in record.failure.traceback
    assert "__init__" not in record.failure.error
    assert Store(place.out).read(made.id) == record


def test_diagnostics_of_another_kind_than_declared_are_a_failure_too(
    own: Callable[..., Any], place: Any
) -> None:
    facts = 'lays_open = {"a": {"title": "A", "kind": "number"}}'
    record = run(own("def diagnostics(self): return {'a': 'text'}", facts), place)
    assert record.failure is not None
    assert "'a'" in record.failure.error


STRANGE = {
    "no text": "class E(Exception):\n        def __str__(self): raise RuntimeError\n",
    "huge": "class E(Exception):\n        def __str__(self): return 'a' * 10**7\n",
    "unprintable": "class E(Exception):\n        def __str__(self): return '\\x1b[2J\\u202e\\n'\n",
}  # fmt: skip


@pytest.mark.parametrize("kind", STRANGE)
def test_a_strange_exception_is_kept_tame_and_bounded(
    own: Callable[..., Any], place: Any, kind: str
) -> None:
    made = own(STRANGE[kind] + "    def learn(self, k): raise self.E")
    record = run(made, place)
    assert record.status == "failed"
    assert record.failure is not None
    assert record.failure.error.isprintable()
    assert len(record.failure.error) <= 2000
    assert "Traceback" in record.failure.traceback
    assert len(record.failure.traceback) <= 100_000
    assert "\x1b" not in record.failure.traceback
    assert Store(place.out).record_path(made.id).stat().st_size < 200_000


def test_what_is_declared_and_no_record_can_have_is_a_sentence(
    own: Callable[..., Any], place: Any
) -> None:
    made = own("pass")
    made.method.meta["title"] = "a" * 10_000
    with pytest.raises(UserError, match=r"titles\.method"):
        run(made, place)


def test_a_method_that_changes_the_folder_is_trained_once(
    own: Callable[..., Any], place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    made = own(f"def learn(self, k):\n        os.chdir({str(tmp_path / 'elsewhere')!r})\n"
               "        return super().learn(k)")  # fmt: skip
    here = type(place)(Path("out"), Path("no-data"))
    assert Store(here.out).root == tmp_path / "out"
    told: list[Any] = []
    local.run_cells([made], here, Resources(1), {}, lambda cell, event: told.append(event))
    assert [event for event in told if isinstance(event, Ended)] == [Ended("done")]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_run_that_is_lost_again_and_again_is_given_up(
    own: Callable[..., Any], place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The method removes its lease, as if another process took it over each time."""
    monkeypatch.setattr(turns, "PAUSES", (0.0, 0.0, 0.0))
    path = place.out / "leases"
    made = own(f"def learn(self, k):\n        from pathlib import Path\n"
               f"        for p in Path({str(path)!r}).glob('[!.]*'): p.unlink()\n"
               "        return super().learn(k)")  # fmt: skip
    told: list[Any] = []
    local.run_cells([made], place, Resources(1), {}, lambda cell, event: told.append(event))
    notes = [event.text for event in told if isinstance(event, Note)]
    assert [f"retry {n} of 3" in text for n, text in enumerate(notes, 1)] == [True] * 3
    [end] = [event for event in told if isinstance(event, Ended)]
    assert (end.status, "3 retries" in end.text) == ("refused", True)


@pytest.mark.parametrize("which", ["method", "benchmark"])
def test_a_file_that_is_edited_after_it_was_read_is_refused(
    own: Callable[..., Any], place: Any, tiny: Path, which: str
) -> None:
    made = own("pass")
    path = made.method.path if which == "method" else tiny
    digest = made.versioned()
    path.write_text(path.read_text() + "\n# edited\n")
    assert made.versioned() == digest
    with pytest.raises(UserError, match="has changed"):
        run(made, place)
    assert Store(place.out).read(made.id) is None


def test_a_compiled_file_with_the_same_time_and_size_is_not_believed(
    method_file: Callable[..., Path], cell: Callable[..., Any]
) -> None:
    """Python believes a cached compilation whose source has the same time and size."""
    import importlib.util
    import py_compile

    from clbench.registry import import_class

    path = method_file("same")
    text = path.read_text()
    path.write_text(text.replace("own", "OWN"))
    os.utime(path, (10**9, 10**9))
    py_compile.compile(str(path), importlib.util.cache_from_source(str(path)))
    path.write_text(text)
    os.utime(path, (10**9, 10**9))
    assert "own" in str(import_class(cell(str(path)).method).__doc__)


def test_a_long_folder_for_temporary_files_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clbench: Callable[..., Any], tiny: Path
) -> None:
    words = f"run --methods finetune --benchmarks {tiny} --out {tmp_path}/out --dry-run"
    assert "TMPDIR" not in "".join(map(str, vars(clbench(words)).values()))
    monkeypatch.setattr(preflight, "SOCKET", 3)
    said = clbench(words)
    assert "TMPDIR" in said.out + said.err
    assert "Traceback" not in said.err


def test_more_tasks_than_a_record_can_have_are_a_sentence(
    cell: Callable[..., Any], place: Any, tiny: Path
) -> None:
    with pytest.raises(UserError, match="500"):
        cell(benchmark=f"{tiny}[tasks=501]")
    many = tiny.with_name("many.py")  # under no parameter of that name
    many.write_text(
        tiny.read_text().replace("tasks: Pos", "n: Pos").replace("self.tasks", "self.n")
    )
    with pytest.raises(UserError, match="500"):
        run(cell(benchmark=f"{many}[n=501]"), place)
