"""A campaign: what it takes in, what it tells, what comes out."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clbench.campaign import carry_out, make_plan
from clbench.errors import UserError
from clbench.events import Ended, EpochEnded, Note, Started, TaskEnded
from clbench.preflight import Findings
from clbench.record_file import read
from clbench.store import Store

FAILS = """
from clbench import Method, Strategy, ordinary

class Failing(Strategy):
    def learn(self, k):
        if k == 1:
            raise RuntimeError("task two is too hard")
        return super().learn(k)

class {name}(Method):
    title = "Fails"
    family = "reference"

    def build(self, stream):
        return Failing(model=ordinary(stream), stream=stream)
"""


def test_an_outcome_says_how_each_cell_ended(
    cell: Callable[..., Any],
    place: Any,
    method_file: Callable[..., Path],
    capfd: pytest.CaptureFixture[str],
) -> None:
    good, bad = cell(), cell(str(method_file("fails", FAILS)))
    told: list[Any] = []
    plan = make_plan([good, bad], place)
    assert plan.chosen == [good, bad]
    outcome = carry_out(plan, lambda cell, event: told.append((cell.id, event)))
    assert {run_id: end.status for run_id, end in outcome.ended.items()} == {
        good.id: "done",
        bad.id: "failed",
    }
    assert [record.id for record in outcome.records] == [good.id, bad.id]
    [failed] = outcome.without_result
    assert (failed.cell, failed.status, failed.now) == (bad, "failed", True)
    assert "task two is too hard" in failed.error
    assert "Traceback" in failed.traceback
    assert outcome.run_seconds == sum(record.seconds.total for record in outcome.records)
    assert outcome.earlier_seconds == 0
    mine = [event for run_id, event in told if run_id == good.id]
    assert isinstance(mine[0], Started)
    assert [event.task for event in mine if isinstance(event, TaskEnded)] == [1, 2, 3]
    assert [e.epoch.epoch for e in mine if isinstance(e, EpochEnded)] == [1, 2] * 3
    assert isinstance(mine[-1], Ended)
    assert capfd.readouterr() == ("", ""), "a campaign prints nothing"

    again = make_plan([good, bad], place)
    assert again.chosen == []
    outcome = carry_out(again)
    assert outcome.ended == {}
    [failed] = outcome.without_result
    assert (failed.status, failed.now) == ("failed", False)


def test_a_run_of_another_version_is_trained_again(
    cell: Callable[..., Any], place: Any, method_file: Callable[..., Path]
) -> None:
    """Its earlier record is moved away, except if the method is refused now: then the outcome has
    no old number for it."""
    mine = cell("finetune")
    [old] = carry_out(make_plan([mine], place)).records
    newer = replace(mine, method=replace(mine.method, meta=mine.method.meta | {"version": 9}))
    heard = []
    plan = make_plan([newer], place)
    assert plan.chosen == [newer]
    outcome = carry_out(plan, lambda cell, event: heard.append(event))
    assert [record.spec.method.version for record in outcome.records] == [9]
    assert any("another version" in event.text for event in heard if isinstance(event, Note))
    assert read(place.out / "replaced" / f"{old.id}.json") == old

    refuses = "def refuses(self, stream): return 'no.'"
    path = method_file("bad", f"from clbench import Method\nclass X(Method):\n    {refuses}\n")
    bad = cell(str(path))
    broken = replace(mine, method=replace(bad.method, name="finetune"))
    refused = carry_out(make_plan([broken], place))
    assert (refused.records, len(refused.without_result)) == ([], 1)
    assert Store(place.out).read(mine.id) is not None


def test_ctrl_c_passes_through_and_leaves_no_worker(cell: Callable[..., Any], place: Any) -> None:
    import psutil

    def stop(cell: Any, event: Any) -> None:
        if isinstance(event, EpochEnded):
            raise KeyboardInterrupt

    mine = cell(epochs=200, lr_min=0)
    with pytest.raises(KeyboardInterrupt):
        carry_out(make_plan([mine], place), stop)
    assert not Store(place.out).is_running(mine.id)
    below = psutil.Process().children(recursive=True)
    assert not [p for p in below if p.is_running() and place.out in p.cmdline()]


def test_problems_are_one_message() -> None:
    assert Findings().in_words() == ""
    assert Findings(["a"], {"1": "a"}).in_words() == "a"
    several = Findings(["a", "b"], {"1": "c", "2": "c"}).in_words()
    assert [line.strip(" -") for line in several.splitlines()[1:]] == ["a", "b", "c"]
    assert "3" in several.splitlines()[0]


def test_a_listener_that_raises_is_no_failure_of_the_run(
    cell: Callable[..., Any], place: Any
) -> None:
    def broken(cell: Any, event: Any) -> None:
        raise UserError("stop")

    with pytest.raises(UserError, match="stop"):
        carry_out(make_plan([cell()], place), broken)
    record = Store(place.out).read(cell().id)
    assert record is None or record.status != "failed"


LAYERS = """
import sys
import clbench.campaign
print(*sorted(name for name in sys.modules if name.startswith(("clbench.report", "torch"))))
print("numpy" in sys.modules)
"""


def test_a_campaign_knows_no_report_and_imports_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", LAYERS], capture_output=True, text=True)
    assert done.stdout.split("\n")[:2] == ["", "False"], done.stderr
