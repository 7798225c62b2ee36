"""The file of a search: written, read with care, used by `run --tuned`, and reported."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PIL import Image

import clbench as package
from clbench.errors import UserError
from clbench.grid import make_grid
from clbench.report import tables, terminal
from clbench.runner import run
from clbench.store import Store
from clbench.tuning import outcome
from clbench.tuning.outcome import Entry, Found, Outcome, Tried
from clbench.tuning.report import Line, correlation

VALUES: dict[str, Any] = {"strength": 12.5, "lr": 0.02, "momentum": 0.9, "weight_decay": 0.0}


def entry(name: str = "ewc", **changes: Any) -> Entry:
    usual = VALUES | {"strength": 5000.0}
    trials = [
        Tried(id="0" * 12, state="finished", values=usual, early=60.0, scores=[50.0, 51.0, 52.0]),
        Tried(id="1" * 12, state="finished", values=VALUES, early=70.0, scores=[60.0, 61.0, 62.0]),
        Tried(id="2" * 12, state="pruned", values=VALUES | {"lr": 0.2}, early=40.0),
        Tried(id="3" * 12, state="failed", values=VALUES | {"lr": 0.5}),
    ]
    space = {"strength": "log 1..1e6", "lr": "log 0.01..1", "momentum": "0, 0.9"}
    facts: dict[str, Any] = {
        "name": name, "best": 1, "values": VALUES, "tuned_on": "tiny", "space": space,
        "looked_at": "first 2 tasks", "seeds": [1000, 1001, 1002], "epochs": 12.5,
        "sampler": "sobol", "protocol": {}, "clbench": "0.1.0", "command": "clbench tune",
        "trials": trials,
    }  # fmt: skip
    return Entry(**(facts | changes))


@pytest.fixture
def tuned(place: Any) -> Path:
    """The file of a search on the tiny benchmark."""
    return write(place, entry())


def write(place: Any, *entries: Entry, benchmark: str = "tiny") -> Path:
    path = outcome.place_of(place.out, benchmark)
    outcome.write(path, outcome.merged(path, benchmark, list(entries)), place.out)
    return path


def grid(place: Any, tiny: Path, methods: str = "ewc", seeds: Any = (0,), **overrides: Any) -> Any:
    return make_grid(methods, str(tiny), list(seeds), overrides, tuned=Found(place.out))


def test_a_file_is_read_as_it_was_written(place: Any) -> None:
    odd = entry(
        "ucb",
        values={"mu_std": None, "lr": 1e-5, "preset": 'a "b"\\ \x1b[0m', "flag": True, "n": 3},
        protocol={"epochs": 2},
    )
    path = write(place, entry(), odd)
    found = outcome.read(path)
    assert [each.name for each in found.method] == ["ewc", "ucb"]
    assert found.method[0] == entry()
    assert found.method[1].values == {
        "mu_std": "none", "lr": 1e-5, "preset": 'a "b"\\ ?[0m', "flag": True, "n": 3
    }  # fmt: skip
    before = path.read_bytes()
    assert write(place, entry()).read_bytes() == before  # another method's entry stays
    assert outcome.words(entry(), "tiny") == "4 trials, first 2 tasks, 3 seeds"
    assert outcome.words(odd, "tiny") == "4 trials, first 2 tasks, 3 seeds, epochs=2"


def test_the_values_reach_the_spec_and_what_is_typed_goes_before_them(
    place: Any, tiny: Path, tuned: Path
) -> None:
    [cell] = grid(place, tiny)
    assert cell.spec.method_params == {"strength": 12.5}
    assert (cell.spec.protocol.lr, cell.spec.protocol.momentum) == (0.02, 0.9)
    assert cell.spec.protocol.batch_size == 16  # the benchmark's
    assert cell.labels == {"benchmark": "tiny", "method": "ewc", "protocol": ""}
    assert cell.tuned == "4 trials, first 2 tasks, 3 seeds"
    by_hand = make_grid("ewc[strength=12.5]", str(tiny), [0], {"lr": 0.02, "momentum": 0.9})
    assert by_hand[0].id == cell.id
    [typed] = grid(place, tiny, "ewc[strength=7]", lr=0.3)
    assert typed.spec.method_params == {"strength": 7.0}
    assert (typed.spec.protocol.lr, typed.spec.protocol.momentum) == (0.3, 0.9)


def test_they_go_before_the_values_in_the_methods_file(place: Any, clbench: Any) -> None:
    write(place, entry("hat", values={"lr": 0.07}), benchmark="split-mnist-5k")
    [cell] = make_grid("hat", "split-mnist-5k", [0], {}, tuned=Found(place.out))
    [usual] = make_grid("hat", "split-mnist-5k", [0], {})
    assert (cell.spec.protocol.lr, usual.spec.protocol.lr) == (0.07, 0.2)


def test_a_value_of_none_and_a_preset(place: Any) -> None:
    values = {"mu_std": "none"}
    write(place, entry("ucb", values=values), entry("acl"), benchmark="split-mnist-5k")
    found = Found(place.out)
    [cell] = make_grid("ucb", "split-mnist-5k", [0], {}, tuned=found)
    assert cell.spec.method_params["mu_std"] is None
    with pytest.raises(UserError, match=r"has no values for acl\[preset=paper\]"):
        make_grid("acl[preset=paper]", "split-mnist-5k", [0], {}, tuned=found)


@pytest.mark.parametrize(
    ("methods", "seeds", "words"),
    [
        ("ewc,si", [0], "has no values for si. A comparison needs equal effort"),
        ("ewc", [0, 1001], "was tuned with seed 1001"),
    ],
)
def test_what_would_not_be_fair_is_refused(
    place: Any, tiny: Path, tuned: Path, methods: str, seeds: list[int], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        grid(place, tiny, methods, seeds)


def test_a_file_that_is_not_there_or_of_another_benchmark(
    place: Any, tiny: Path, tuned: Path, clbench: Callable[..., Any]
) -> None:
    said = clbench(f"run --methods ewc --benchmarks {tiny} --tuned nothing.toml --out {place.out}")
    assert (said.code, said.out) == (2, "")
    assert "there is no file nothing.toml. `clbench tune --benchmarks tiny` writes" in said.err
    with pytest.raises(UserError, match="is for tiny, not for split-mnist-5k"):
        make_grid("ewc", "split-mnist-5k", [0], {}, tuned=Found(place.out, str(tuned)))


DAMAGES: dict[str, Callable[[str], str]] = {
    "not valid TOML": lambda text: text[:-20],
    "method[0].best: expected int": lambda text: text.replace("best = 1", 'best = "1"'),
    "there is no trial 9": lambda text: text.replace("best = 1", "best = 9"),
    "unknown field": lambda text: text.replace("best = 1", "best = 1\nworst = 2"),
    "lacks": lambda text: text.replace("best = 1", ""),
    "format: ": lambda text: text.replace("format = 1", "format = 2"),
    "has characters that cannot be printed": lambda text: text.replace("sobol", "\\u001b[31m"),
    "of a value cannot be printed": lambda text: text.replace(
        'space = { "strength"', 'space = { "\\u001b" = "a, b", "strength"'
    ),
    "is no range": lambda text: text.replace("log 1..1e6", "log x..1e6"),
    "strength=-1.0 is not a number": lambda text: text.replace(" 12.5,", " -1.0,"),
    "Unknown value of ewc": lambda text: text.replace("strength", "strenght"),
    "'backbone'": lambda text: text.replace('"strength" = 12.5', '"backbone" = "./evil.py"'),
}


@pytest.mark.parametrize("words", DAMAGES)
def test_a_damaged_file_is_a_sentence(
    place: Any, tiny: Path, tuned: Path, clbench: Callable[..., Any], words: str
) -> None:
    tuned.write_text(DAMAGES[words](tuned.read_text()))
    said = clbench(f"run --methods ewc --benchmarks {tiny} --tuned --out {place.out} --dry-run")
    assert (said.code, said.out) == (2, "")
    assert words in said.err.replace("\n", " ")
    assert "Traceback" not in said.err


def names(records: Any) -> list[str]:
    [table] = tables(records)
    return [row.name for row in table.rows]


def test_a_table_says_how_its_rows_were_tuned(place: Any, tiny: Path, tuned: Path) -> None:
    write(place, entry("finetune", values={"lr": 0.02, "momentum": 0.9, "weight_decay": 0.0}))
    records = [run(cell, place) for cell in grid(place, tiny, "ewc,finetune")]
    text = " ".join(terminal(tables(records)).split())
    assert "best values of a search on validation data: 4 trials, first 2 tasks, 3 seeds." in text
    assert "(tuned" not in text
    [other] = make_grid("si", str(tiny), [0], {})
    assert "si (lr=0.1, momentum=0, not tuned)" in names([*records, run(other, place)])
    [same] = make_grid("ewc", str(tiny), [0], {})
    mixed = [*records[:1], run(same, place), run(other, place)]
    effort = "tuned: 4 trials, first 2 tasks, 3 seeds"
    assert names(mixed) == ["ewc", f"ewc (lr=0.02, momentum=0.9, {effort})", "si"]
    text = " ".join(terminal(tables(mixed)).split())
    assert "Some rows have the best values of a search" in text


def test_a_run_that_was_there_before_says_how_it_was_tuned_since(
    place: Any, tiny: Path, tuned: Path
) -> None:
    [by_hand] = make_grid("ewc[strength=12.5]", str(tiny), [0], {"lr": 0.02, "momentum": 0.9})
    before = run(by_hand, place)
    how: dict[str, Any] = {"out": place.out, "progress": False, "workers": 1}
    result = package.run("ewc", str(tiny), tuned=True, **how)
    [after] = result.records
    assert (before.tuned, after.tuned) == ("", "4 trials, first 2 tasks, 3 seeds")
    assert (after.R, after.finished, str(after)) == (before.R, before.finished, "tiny ewc seed 0")
    assert Store(place.out).read(before.id) == after
    untuned = package.run("ewc[strength=12.5]", str(tiny), lr=0.02, momentum=0.9, **how)
    assert untuned.records == [after]  # the same run, and what is known of it stays


def test_a_report_says_what_tuning_gave(
    place: Any, tuned: Path, clbench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    said = clbench(f"tune --report --out {place.out}")
    assert said.code == 0
    row = next(line for line in said.out.splitlines() if line.startswith("ewc"))
    assert row.split()[:9] == ["ewc", "51.00", "61.00", "10.00", "5.00", "4", "1", "1", "12.5"]
    assert "Effort: 4 trials, first 2 tasks, 3 seeds." in said.out
    folder = place.out / "tuned"
    assert "| ewc | 51.00 | 61.00 | 10.00 |" in (folder / "tuning-tiny.md").read_text()
    assert (folder / "tuning-tiny.csv").read_text().splitlines()[1].startswith("ewc,51.00,61.00")
    with Image.open(folder / "figure-tuning-tiny.png") as picture:
        assert picture.size[0] == 2040
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    clbench(f"tune --report --out {place.out}")
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_report_of_what_is_not_there(
    place: Any, tuned: Path, clbench: Callable[..., Any]
) -> None:
    for words, told in {
        "--benchmarks tinny": "Unknown benchmark in",
        "--methods si": "Unknown method in",
        f"--out {place.out / 'x'}": "There is no search in",
    }.items():
        said = clbench(f"tune --report --out {place.out} {words}")
        assert (said.code, said.out) == (2, "")
        assert told in said.err


def test_sensitivity_is_the_rank_correlation_with_the_score() -> None:
    def trial(lr: float, momentum: float, early: float | None) -> Tried:
        values: dict[str, Any] = {"lr": lr, "momentum": momentum, "strength": 1.0}
        return Tried(id="0" * 12, state="pruned", values=values, early=early)

    rising = [trial(10.0**-i, 0.0 if i % 2 else 0.9, 90.0 - i) for i in range(5)]
    made = entry(trials=[*rising, trial(1.0, 0.0, None)])
    assert correlation(made, "lr") == pytest.approx(1.0)
    assert correlation(made, "momentum") == pytest.approx(0.0)
    assert correlation(made, "strength") != correlation(made, "strength")  # it never changes
    assert Line.of(entry()).sensitivity["lr"] != Line.of(entry()).sensitivity["lr"]  # too few


@pytest.mark.parametrize(
    ("words", "told"),
    {
        "--trials 0": "Invalid value for '--trials'",
        "--trials 3 --budget 9": "--trials and --budget: give one of them",
        "--budget 3": "--budget 3: one trial of ewc takes up to 6 epochs",
        "--on first:0": "--on first:0: write first:N",
        "--on first:x": "--on first:x: write first:N",
        "--on first:4": "--on first:4: tiny has 3 tasks",
        "--on split-mnist-5": "Unknown benchmark 'split-mnist-5'. Did you mean 'split-mnist-5k'",
        "--methods nothing": "Unknown method 'nothing'",
        "--methods ./wrong.py": "Unknown parameter in wrong.py: search: 'strenght'",
        "--valid 0": "ewc on tiny: without validation data (valid=0) nothing can be tuned",
        "--rerun all": "results/trials to search anew",
    }.items(),
)
def test_a_mistake_is_a_sentence(
    clbench: Callable[..., Any],
    method_file: Callable[..., Path],
    tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = method_file("wrong")
    text = path.read_text().replace("family", 'search = {"strenght": "0..1"}\n    family')
    path.write_text(text)
    said = clbench(f"tune --methods ewc --benchmarks ./tiny.py --dry-run {words}")
    assert (said.code, said.out) == (2, "")
    assert told in " ".join(said.err.split())
    assert "Traceback" not in said.err


def test_a_dry_run_shows_trials_and_their_cost_and_makes_nothing(
    clbench: Callable[..., Any], tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = clbench("tune --methods ewc,finetune --benchmarks ./tiny.py --trials 8 --dry-run")
    assert said.code == 0
    # 8 trials of 2 tasks, 5 of the third, 4 repeated twice, 2 epochs each: 2 x 45 / 3
    assert "ewc on tiny: 8 trials, at most 30 epochs over 3 tasks, repeats included" in said.out
    assert "60 epochs in all." in said.out
    assert not (tmp_path / "results").exists()


def test_the_command_searches_and_run_uses_what_it_found(
    clbench: Callable[..., Any], tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    common = "--benchmarks ./tiny.py --workers 1"
    found = clbench(f"tune --methods ewc,packnet --trials 3 --on all {common}")
    assert found.code == 0, found.err
    assert "all tasks. That is an upper bound" in found.out
    made = outcome.read(Path("results/tuned/tiny.toml"))
    assert {each.name: len(each.trials) for each in made.method} == {"ewc": 3, "packnet": 3}
    trials, _ = Store(Path("results/trials")).records()
    assert {record.spec.trial for record in trials} == {3}
    assert not [*Path("results").glob("records/*")]
    again = clbench(f"tune --methods ewc,packnet --trials 3 --on all {common}")
    assert (again.code, again.err) == (0, "")  # nothing is trained again
    said = clbench(f"run --methods ewc,packnet --tuned {common}")
    assert said.code == 0, said.err
    assert "validation data: 3 trials, all 3 tasks, 3 seeds" in " ".join(said.out.split())
    records, _ = Store(Path("results")).records()
    assert {r.tuned for r in records} == {"3 trials, all 3 tasks, 3 seeds"}
    best = {each.name: each.values for each in made.method}
    for record in records:
        known = record.spec.protocol | record.spec.method.params
        name = record.spec.method.name
        assert {key: known[key] for key in best[name]} == best[name]
    refused = clbench(f"tune --methods icarl --trials 2 {common}")
    assert refused.code == 2
    assert "icarl cannot run on tiny" in refused.err


def test_an_outcome_is_what_its_file_holds() -> None:
    assert msgspec.convert(json.loads(msgspec.json.encode(entry())), Entry) == entry()
    assert Outcome(benchmark="x").format == 1
