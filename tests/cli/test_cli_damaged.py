"""A damaged record costs a warning that names its file, in every command, and nothing else."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def without(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda record: record.pop(key)


def put(value: Any, *path: Any) -> Callable[[dict[str, Any]], Any]:
    def change(record: Any) -> None:
        for key in path[:-1]:
            record = record[key]
        record[path[-1]] = value

    return change


NAN = float("nan")
DAMAGE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no spec": without("spec"),
    "no id": without("id"),
    "spec is null": put(None, "spec"),
    "no seed": lambda record: record["spec"].pop("seed"),
    "seed is text": put("0", "spec", "seed"),
    "no method name": lambda record: record["spec"]["method"].pop("name"),
    "unknown status": put("running", "status"),
    "tasks is text": put("3", "tasks"),
    "tasks is huge": put(10**9, "tasks"),
    "R is text": put("R", "R"),
    "R lacks a row": lambda record: record["R"].pop(),
    "R lacks a number": lambda record: record["R"][-1].pop(),
    "R has a gap": put(None, "R", 2, 0),
    "R has NaN": put(NAN, "R", 2, 0),
    "R has infinity": put(float("inf"), "R", 2, 0),
    "R0 has infinity": put(float("inf"), "R0", 0),
    "accuracy above 100": put(101.0, "R", 2, 0),
    "absurd time": put(1e300, "seconds", "total"),
    "negative memory": put(-1, "memory", "replay"),
    "diagnostics entry is a list": put([1], "diagnostics", 0),
    "curve is a number": put(3, "curve"),
    "curve entry is text": put("x", "curve", 0),
    "provenance is a list": put([], "provenance"),
    "versions is a number": put(3, "provenance", "versions"),
    "data without checksum": put({"mnist": {}}, "data"),
    "failure is text": put("boom", "failure"),
    "title is a number": put(3, "titles", "method"),
    "lays_open of a strange kind": put({"a": {"title": "A", "kind": "b"}}, "lays_open"),
}
COMMANDS = (
    "status",
    "ls results",
    "report --format md,html --to {to}",
    "compare finetune er-res",
    "figure matrix --format svg --to {to}",
    "run --methods finetune --benchmarks {tiny} --dry-run",
    "show {sound}",
)


@pytest.fixture
def store(place: Any, cell: Callable[..., Any]) -> Any:
    """Two sound runs."""
    from clbench.runner import run
    from clbench.store import Store

    for method in ("finetune", "er-res"):
        run(cell(method), place)
    return Store(place.out)


def test_every_command_names_damaged_records_and_goes_on(
    store: Any, clbench: Callable[..., Any], tiny: Path, tmp_path: Path
) -> None:
    sound, _ = store.records()
    before = {word: clbench(_filled(word, sound[0].id, tiny, tmp_path, store)) for word in COMMANDS}
    written = store.record_path(sound[0].id).read_text()
    for number, damage in enumerate(DAMAGE.values()):
        record = json.loads(written) | {"id": f"{number:012x}"}
        damage(record)
        store.record_path(f"{number:012x}").write_text(json.dumps(record))
    for word in COMMANDS:
        result = clbench(_filled(word, sound[0].id, tiny, tmp_path, store))
        assert result.code == before[word].code == 0, (word, result.err)
        assert "Traceback" not in result.err
        if "show" in word or "dry-run" in word:
            continue  # they look at some records only
        named = [line for line in result.err.splitlines() if line.startswith("Warning: ")]
        for number, kind in enumerate(DAMAGE):
            assert any(f"{number:012x}.json" in line for line in named), (word, kind)


@pytest.mark.parametrize("kind", DAMAGE)
def test_show_says_what_is_wrong_with_a_damaged_record(
    store: Any, clbench: Callable[..., Any], kind: str
) -> None:
    sound = store.records()[0][0]
    record = json.loads(store.record_path(sound.id).read_text())
    DAMAGE[kind](record)
    store.record_path(sound.id).write_text(json.dumps(record))
    result = clbench(f"show {sound.id} --out {store.root}")
    assert result.code == 2
    assert f"{sound.id}.json" in result.err
    assert "Traceback" not in result.err


def _filled(word: str, sound: str, tiny: Path, tmp_path: Path, store: Any) -> str:
    filled = word.format(sound=sound, tiny=tiny, to=tmp_path / "to")
    return f"{filled} --out {store.root}"
