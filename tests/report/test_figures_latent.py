"""The t-SNE figure: latents of the network as it was trained, and no training."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clbench.build import build
from clbench.errors import UserError
from clbench.grid import cell_of
from clbench.methods._acl_net import ACLNet
from clbench.record_file import encode
from clbench.report import tables
from clbench.report.figures import checkpoints, latent, style
from clbench.report.figures.checkpoints import Checkpoints, drawn
from clbench.report.runs import runs_of
from clbench.runner import run
from clbench.store import Store

METHODS = ("acl", "acl[discriminator=false]")


@pytest.fixture
def made(cell: Callable[..., Any], place: Any, tiny: Path) -> tuple[list[Any], Checkpoints]:
    """ACL with and without D on three small tasks, one epoch each, and where they are."""
    records = [run(cell(method, epochs=1), place) for method in METHODS]
    return records, Checkpoints(place.out, place.data_root, (tiny,))


def picture(records: list[Any], source: Checkpoints) -> Any:
    (table,) = tables(records)
    with style.styled():
        made = latent.draw(table, source)
        made.figure.canvas.draw()
    return made


def test_latents_are_those_of_the_trained_network(
    made: tuple[list[Any], Checkpoints], make_stream: Callable[..., Any]
) -> None:
    (record, _), source = made
    found = drawn(runs_of([record])[0], source)
    # independently: a network made by hand from the weights in the file, on the stream's own data
    state = torch.load(source.out / "checkpoints" / f"{record.id}.pt", weights_only=True)
    stream = make_stream(3)
    network = build(cell_of(record, source.files), stream).model
    assert isinstance(network, ACLNet)
    network.load_state_dict(state["state"]["model"])
    network.eval()
    last = stream.tasks[2].test
    with torch.no_grad():
        z = network.spaces(last.inputs(), 2)
    np.testing.assert_array_equal(found.last.spaces["S"], z["S"].numpy())
    np.testing.assert_array_equal(found.last.spaces["P"], z["P"].numpy())
    assert found.last.labels.tolist() == (last.labels + 4).tolist()  # task 3 has classes 4 and 5
    assert found.first.labels.tolist() == [1] * 40 + [2] * 40 + [3] * 40
    with torch.no_grad():
        z_p = network.private[1](stream.tasks[1].test.inputs())
    np.testing.assert_array_equal(found.first.spaces["P"][40:80], z_p.numpy())
    np.testing.assert_array_equal(found.first.spaces["S"][80:], found.last.spaces["S"])
    assert float(np.ptp(found.last.spaces["P"])) > 0


def test_a_row_with_d_and_a_row_without(made: tuple[list[Any], Checkpoints]) -> None:
    records, source = made
    drawn = picture(records, source)
    axes = drawn.figure.axes
    assert [ax.get_ylabel() for ax in axes[::4]] == ["discriminator=true", "discriminator=false"]
    assert [ax.get_title() for ax in axes[:4]] == ["S", "P", "S", "P"]
    assert [len(line.get_xdata()) for line in axes[1].lines] == [20, 20]  # two classes
    assert [len(line.get_xdata()) for line in axes[3].lines] == [40, 40, 40]  # three tasks
    keys = [[t.get_text() for t in legend.get_texts()] for legend in drawn.figure.legends]
    assert keys == [["class 4", "class 5"], ["task 1", "task 2", "task 3"]]
    for words in (
        "At most 1,000 samples",
        "acl, seed 0",
        "discriminator=false is acl[discriminator=false]",
    ):
        assert words in " ".join(drawn.text().split())


def test_the_first_ten_tasks_have_a_colour_each(
    cell: Callable[..., Any], place: Any, tiny: Path
) -> None:
    record = run(cell("acl", benchmark=f"{tiny}[tasks=11]", epochs=1), place)
    drawn = picture([record], Checkpoints(place.out, place.data_root, (tiny,)))
    _, _, _, private = drawn.figure.axes
    assert len({line.get_color() for line in private.lines}) == len(private.lines) == 10
    by_class, by_task = drawn.figure.legends
    assert [text.get_text() for text in by_class.get_texts()] == ["class 20", "class 21"]
    assert [text.get_text() for text in by_task.get_texts()] == [str(k) for k in range(1, 11)]
    assert "right, tasks 1 to 10 by task" in " ".join(drawn.text().split())


def test_what_is_drawn_is_the_embedding_of_the_latents(made: tuple[list[Any], Checkpoints]) -> None:
    records, source = made
    axes = picture(records[:1], source).figure.axes
    found = drawn(runs_of(records[:1])[0], source)
    embedded = latent.embed(found.first.spaces["P"])
    assert embedded is not None
    for line, task in zip(axes[3].lines, (1, 2, 3), strict=True):
        np.testing.assert_array_equal(line.get_xydata(), embedded[found.first.labels == task])


def test_more_samples_than_the_cap_are_drawn_at_random_and_alike(
    made: tuple[list[Any], Checkpoints], monkeypatch: pytest.MonkeyPatch
) -> None:
    (record, _), source = made
    (one,) = runs_of([record])
    whole = drawn(one, source)
    monkeypatch.setattr(checkpoints, "SAMPLES", 30)
    capped, again = drawn(one, source), drawn(one, source)
    assert len(capped.last.labels) == 30
    assert np.bincount(capped.first.labels).tolist() == [0, 10, 10, 10]
    np.testing.assert_array_equal(capped.first.spaces["P"], again.first.spaces["P"])
    rows = {row.tobytes() for row in whole.last.spaces["P"]}
    assert all(row.tobytes() in rows for row in capped.last.spaces["P"])


def test_a_dead_s_is_called_constant_and_one_that_is_off_not_there(
    cell: Callable[..., Any], place: Any, tiny: Path
) -> None:
    source = Checkpoints(place.out, place.data_root, (tiny,))
    dead = run(cell("acl", epochs=1), place)
    path = Store(place.out).checkpoint_path(dead.id)
    content = torch.load(path, weights_only=True)
    for name, weights in content["state"]["model"].items():
        if name.startswith("shared."):
            weights.zero_()
    torch.save(content, path)
    off = run(cell("acl[shared=false]", epochs=1), place)
    axes = picture([dead, off], source).figure.axes
    words = [[text.get_text() for text in ax.texts] for ax in axes]
    assert words == [["constant"], [], ["constant"], [], ["not there"], [], ["not there"], []]


def test_a_latent_of_width_one_and_few_samples_can_be_embedded() -> None:
    z = np.arange(12, dtype=np.float32).reshape(12, 1)
    found = latent.embed(z)
    assert found is not None
    assert found.shape == (12, 2)
    assert np.isfinite(found).all()
    assert latent.embed(np.ones((12, 5), np.float32)) is None


def test_the_embedding_does_not_depend_on_what_was_drawn_before() -> None:
    z = np.random.default_rng(0).normal(size=(60, 20)).astype(np.float32)
    found = []
    for seed in (1, 2):
        np.random.seed(seed)
        found.append(latent.embed(z))
    np.testing.assert_array_equal(*found)


def test_nothing_is_trained_and_nothing_changed(
    made: tuple[list[Any], Checkpoints], monkeypatch: pytest.MonkeyPatch
) -> None:
    from clbench.training import Strategy

    def fail(*args: Any) -> None:
        raise AssertionError("trained")

    monkeypatch.setattr(Strategy, "learn", fail)
    records, source = made
    files = sorted((source.out / "checkpoints").iterdir())
    before = [path.read_bytes() for path in files]
    picture(records, source)
    assert [path.read_bytes() for path in files] == before


def test_the_command_gives_the_same_bytes_twice(
    made: tuple[list[Any], Checkpoints], clbench: Callable[..., Any], tiny: Path, tmp_path: Path
) -> None:
    _, source = made
    for folder in ("a", "b"):
        said = clbench(
            "figure", "latent", "--out", str(source.out), "--to", str(tmp_path / folder),
            "--methods", ",".join(METHODS), "--benchmarks", str(tiny),
        )  # fmt: skip
        assert said.code == 0, said.err
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_a_row_without_checkpoint_is_said_and_none_at_all_is_an_error(
    made: tuple[list[Any], Checkpoints],
) -> None:
    records, source = made
    Store(source.out).checkpoint_path(records[1].id).unlink()
    said = " ".join(picture(records, source).text().split())
    assert "Not drawn, as there is no checkpoint: acl[discriminator=false]." in said
    Store(source.out).checkpoint_path(records[0].id).unlink()
    with pytest.raises(UserError, match=r"needs checkpoints, and .* has none of acl, .* tiny"):
        picture(records, source)


def test_a_damaged_checkpoint_is_named(made: tuple[list[Any], Checkpoints]) -> None:
    records, source = made
    path = Store(source.out).checkpoint_path(records[0].id)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match=rf"{path.name} cannot be read .*trains the run again"):
        picture(records, source)


def test_a_checkpoint_of_an_older_network_is_refused(made: tuple[list[Any], Checkpoints]) -> None:
    records, source = made
    path = Store(source.out).checkpoint_path(records[0].id)
    content = torch.load(path, weights_only=True)
    weights = content["state"]["model"]
    weights["shared.older.weight"] = weights.pop(next(iter(weights)))
    torch.save(content, path)
    with pytest.raises(UserError, match=r"does not fit the network .* trains the run again"):
        picture(records, source)


def test_a_checkpoint_of_another_run_is_refused(made: tuple[list[Any], Checkpoints]) -> None:
    records, source = made
    mine, other = (Store(source.out).checkpoint_path(record.id) for record in records)
    mine.write_bytes(other.read_bytes())
    with pytest.raises(UserError, match="is not the checkpoint of the record beside it"):
        picture(records, source)


def test_another_version_cannot_be_rebuilt(made: tuple[list[Any], Checkpoints]) -> None:
    (record, _), source = made
    assert record.spec.method.version is not None
    record.spec.method.version += 1
    Store(source.out).write(record)
    with pytest.raises(UserError, match=r"has changed.*`clbench run` trains"):
        picture([record], source)


def test_a_benchmark_of_ones_own_must_be_named_by_its_file(
    made: tuple[list[Any], Checkpoints],
) -> None:
    records, source = made
    with pytest.raises(UserError, match=r"The benchmark 'tiny' is not installed.*--benchmarks \./"):
        picture(records, Checkpoints(source.out, source.data_root))


def test_other_data_is_refused(cell: Callable[..., Any], place: Any) -> None:
    from clbench.store import Place

    here = Place(place.out, Path("nowhere"))
    record = run(cell("acl", benchmark="split-mnist-5k", epochs=1), here)
    record.data["mnist-5k"].sha256 = "0" * 64
    path = Store(place.out).checkpoint_path(record.id)
    content = torch.load(path, weights_only=True)
    torch.save(content | {"record": encode(record).decode()}, path)
    Store(place.out).write(record)
    with pytest.raises(UserError, match=r"mnist-5k in .* is not the data that run .* trained on"):
        picture([record], Checkpoints(place.out, here.data_root))


def _put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(record: dict[str, Any]) -> None:
        *parents, key = path.split(".")
        for parent in parents:
            record = record[parent]
        record[key] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _put("spec.protocol.nothing", 1),
        _put("spec.protocol.lr", "x"),
        _put("spec.protocol.batch_size", -1),
        _put("spec.method.params.nothing", 1),
        _put("spec.method.params.discriminator", "x"),
        _put("spec.method.params.shared", -5),
        _put("spec.benchmark.params.tasks", "three"),
        _put("spec.benchmark.params.tasks", 0),
        _put("spec.threads", 0),
        _put("spec.threads", 2**53),
        _put("spec.device", "/dev/x"),
        _put("data", {"nothing": {"sha256": "a"}}),
        _put("data", {"mnist": {"sha256": "a"}}),
        _put("lays_open.spaces.names", [str(n) for n in range(7)]),
    ],
)
def test_a_damaged_record_is_a_sentence(
    made: tuple[list[Any], Checkpoints], clbench: Callable[..., Any], tiny: Path, change: Any
) -> None:
    (record, _), source = made
    path = source.out / "records" / f"{record.id}.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    words = f"figure latent --format svg --benchmarks {tiny} --out {source.out}"
    result = clbench(f"{words} --methods acl")
    assert result.code == 2
    assert len(result.err) < 1000


@pytest.mark.parametrize("state", [{}, [], {"model": 1}, {"model": {}, "plugins": 3}, "x", None])
def test_a_checkpoint_with_another_state_is_a_sentence(
    made: tuple[list[Any], Checkpoints], state: Any
) -> None:
    (record, _), source = made
    path = source.out / "checkpoints" / f"{record.id}.pt"
    content = torch.load(path, weights_only=True)
    torch.save(content | {"state": state}, path)
    with pytest.raises(UserError, match=r"\.pt does not fit"):
        drawn(runs_of([record])[0], source)
