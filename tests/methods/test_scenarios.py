"""Every method in every scenario that it declares: it keeps the contract, or refuses in words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from clbench.conformance import contract, small_stream
from clbench.conformance.trial import CLASSES, Trial
from clbench.registry import declarations, import_class
from clbench.scenario import SCENARIOS
from clbench.seeding import seed_everything

METHODS = declarations("method")
DECLARED = {n: d.meta.get("scenarios") or SCENARIOS for n, d in METHODS.items()}
ONE_HEAD = sorted((n, s) for n, scenarios in DECLARED.items() for s in scenarios if s != "task")
SMALL: dict[str, dict[str, Any]] = {  # fewer steps and draws
    "vcl": {"test_samples": 2},
    "vcl-c": {"test_samples": 2, "coreset": 4, "coreset_steps": 2},
}


def test_these_run_with_one_head() -> None:
    """So that no method falls out of these tests unnoticed."""
    both = {
        "agem", "derpp", "er-ace", "er-res", "ewc", "finetune", "gdumb", "gem", "joint", "lwf",
        "mas", "ncm", "si", "ucb", "vcl", "vcl-c",
    }  # fmt: skip
    assert {n for n, s in ONE_HEAD if s == "domain"} == both
    assert {n for n, s in ONE_HEAD if s == "class"} == both | {"icarl"}


@pytest.mark.parametrize(("name", "scenario"), ONE_HEAD)
def test_it_learns_repeats_resumes_and_counts(name: str, scenario: str) -> None:
    """Resumed after each task, the rest of R and the weights are the same, bit for bit."""
    torch.set_num_threads(1)
    trial = Trial(METHODS[name], scenario, **SMALL.get(name, {}))
    assert [len(row) for row in trial.R if row] == (
        ([1, 2, 3] if scenario == "class" else [3, 3, 3])[-sum(map(bool, trial.R)) :]
    )
    for check in (
        contract.trains, contract.is_deterministic, contract.resumes, contract.counts_memory,
        contract.leaves_data_alone,
    ):  # fmt: skip
        assert check(trial) == "", check.__doc__


# in derpp, all outputs are in use from the first task on
@pytest.mark.parametrize("name", sorted({n for n, s in ONE_HEAD if s == "class"} - {"derpp"}))
def test_the_outputs_of_classes_to_come_do_not_learn(name: str) -> None:
    torch.set_num_threads(1)
    stream = small_stream(1, "class")
    seed_everything(0, "init")
    strategy = import_class(METHODS[name])(**SMALL.get(name, {})).build(stream)
    head = {n: p for n, p in strategy.model.named_parameters() if n.startswith("heads.")}
    fresh = {n: p.detach().clone() for n, p in head.items()}
    assert {len(p) for p in head.values()} == {7}
    for k, seen in enumerate(stream.seen):
        seed_everything(0, "task", k)
        if strategy.learn(k) is None:  # joint, before the last task
            seen = 0
        assert all(torch.equal(p[seen:], fresh[n][seen:]) for n, p in head.items())
        if seen:
            assert all(bool((p[:seen] != fresh[n][:seen]).any()) for n, p in head.items())
            strategy.accuracy(k)
            assert strategy.tally.tasks[k + 1 :] == [0] * (len(CLASSES) - k - 1)


REFUSED = [
    *((name, s) for name in ("acl", "acl-joint", "hat", "packnet", "pnn") for s in SCENARIOS[1:]),
    ("icarl", "task"),
    ("icarl", "domain"),
    ("er-ace", "task"),
]


def test_all_others_are_refused() -> None:
    listed = {(n, s) for n, can in DECLARED.items() for s in SCENARIOS if s not in can}
    assert listed == set(REFUSED)


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
@pytest.mark.parametrize(("name", "scenario"), REFUSED)
def test_a_refusal_is_a_sentence_before_training(
    name: str,
    scenario: str,
    dry: list[str],
    tiny: Path,
    clbench: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tiny.parent)
    where = f"./tiny.py[scenario={scenario}]"
    result = clbench("run", "--methods", name, "--benchmarks", where, "--workers", "1", *dry)
    assert result.code == 2
    assert "Traceback" not in result.err
    scenarios = " and ".join(DECLARED[name])
    assert f"{name} cannot run on tiny: it learns in the scenario {scenarios} only" in result.err
    assert "epoch" not in result.err
    assert not list(Path("results").glob("records/*.json"))
