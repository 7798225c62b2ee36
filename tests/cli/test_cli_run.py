"""`clbench run`: the grid, failures, repeats, re-runs, configuration files."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clbench.record import Record
from clbench.record_file import read
from clbench.store import Place, Store


def records(out: Path) -> dict[tuple[str, int], Record]:
    found, problems = Store(out).records()
    assert problems == []
    return {(r.method, r.spec.seed): r for r in found}


def test_the_same_command_again_trains_nothing_and_prints_the_same(
    here: Path, clbench: Callable[..., Any]
) -> None:
    command = "run --methods finetune,er-res --benchmarks ./tiny.py --seeds 2 --workers 2"
    first = clbench(command)
    assert first.code == 0
    assert re.search(r"finetune\s+\d+\.\d\d ± ", first.out)
    assert "Records: results/records" in first.out
    assert "[4/4]" in first.err
    before = {p: p.stat().st_mtime_ns for p in (here / "results" / "records").iterdir()}
    assert len(before) == 4
    second = clbench(command)
    assert (second.code, second.out, second.err) == (0, first.out, "")
    assert {p: p.stat().st_mtime_ns for p in (here / "results" / "records").iterdir()} == before


def test_any_number_of_workers_and_this_process_give_the_same_numbers(
    here: Path, clbench: Callable[..., Any], cell: Callable[..., Any]
) -> None:
    from clbench.runner import run

    methods = ["ewc", "agem", "er-res", "joint"]
    command = f"run --methods {','.join(methods)} --benchmarks ./tiny.py --seeds 3,"
    assert clbench(f"{command} --workers 1 --out one").code == 0
    assert clbench(f"{command} --workers 2 --out two").code == 0
    one, two = records(here / "one"), records(here / "two")
    for method in methods:
        alone = run(cell(method, 3), Place(here / "alone", here))
        assert one[method, 3].R == two[method, 3].R == alone.R
        losses = [
            [(e.loss, e.valid_loss) for e in r.curve]
            for r in (one[method, 3], two[method, 3], alone)
        ]
        assert losses[0] == losses[1] == losses[2]
        assert one[method, 3].id == alone.id


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


def test_a_failed_run_is_kept_as_failed_and_the_others_go_on(
    here: Path, clbench: Callable[..., Any], method_file: Callable[..., Path]
) -> None:
    method_file("fails", FAILS)
    command = "run --methods ./fails.py,finetune --benchmarks ./tiny.py --workers 1 --out out"
    result = clbench(command)
    assert result.code == 1
    assert "tiny fails seed 0: failed: RuntimeError: task two is too hard" in result.err
    assert "1 of 2 runs" in result.err.splitlines()[-1]
    assert re.search(r"finetune\s+\d", result.out)
    failed = records(here / "out")["fails", 0]
    assert (failed.status, failed.done) == ("failed", 1)
    assert failed.failure is not None
    assert "in learn" in failed.failure.traceback
    assert records(here / "out")["finetune", 0].status == "done"
    shown = clbench(f"show {failed.id} --out out")
    assert "RuntimeError: task two is too hard" in shown.out
    assert (
        "1: failed" in clbench("status --out out").out
        or "failed 1/3" in clbench("status --out out").out
    )

    again = clbench(command)  # a failed run is not tried again unless asked for
    assert again.code == 1
    assert "RuntimeError: task two is too hard" in again.err
    assert "--rerun failed" in again.err
    assert records(here / "out")["fails", 0] == failed

    tried = clbench(f"{command} --rerun failed")
    assert tried.code == 1
    assert read(here / "out" / "replaced" / f"{failed.id}.json") == failed
    method_file("fails", FAILS.replace("k == 1", "False"))
    assert clbench(command).code == 0, "mended code is another run"
    statuses = [record.status for record in Store(here / "out").records()[0]]
    assert sorted(statuses) == ["done", "done", "failed"]


def test_a_loss_that_is_no_number_exits_1(here: Path, clbench: Callable[..., Any]) -> None:
    result = clbench("run --methods finetune --benchmarks ./tiny.py --lr 1e30 --workers 1")
    assert result.code == 1
    assert "failed: FloatingPointError" in result.err
    assert "Traceback" not in result.err


CONFIG = """
methods = ["ewc[strength=500]", "er-res"]
benchmarks = "split-mnist-5k"
seeds = [7]
epochs = 1
lr_min = 0.001
out = "from-config"
dry-run = true
"""


def test_a_config_file_is_the_same_as_its_flags(here: Path, clbench: Callable[..., Any]) -> None:
    (here / "grid.toml").write_text(CONFIG)
    config = clbench("run --config grid.toml")
    flags = clbench(
        "run --methods 'ewc[strength=500],er-res' --benchmarks split-mnist-5k --seeds 7, "
        "--epochs 1 --lr-min 0.001 --out from-config --dry-run"
    )
    assert config.code == flags.code == 0
    assert config.out == flags.out
    assert clbench("run --config grid.toml").out == config.out
    ids = re.findall(r"\b[0-9a-f]{12}\b", config.out)
    assert len(ids) == 2


def test_the_executor_has_a_table_of_its_own_in_a_config_file(
    here: Path, clbench: Callable[..., Any]
) -> None:
    (here / "grid.toml").write_text(f'{CONFIG}[executor]\nname = "slurm"\npartition = "main"\n')
    assert "2 of 2 runs" in clbench("run --config grid.toml").out
    (here / "grid.toml").write_text(f'{CONFIG}[executor]\nname = "slrm"\n')
    assert "'slrm' is not one of 'local', 'slurm', 'ray'" in clbench("run --config grid.toml").err
    (here / "grid.toml").write_text(f"{CONFIG}[executor]\nspeed = 3\n")
    assert "Unknown key in grid.toml: 'speed'" in clbench("run --config grid.toml").err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('ray-address = "10.0.0.1:6379"', "--ray-address"),
        ('out = "/etc/elsewhere"', "'/etc/elsewhere'"),
        ('out = "../elsewhere"', "'../elsewhere'"),
        ('partition = "main\\ntouch pwned\\n#"', "--partition"),
    ],
)
def test_a_strangers_config_file_runs_nothing_and_writes_nowhere_else(
    here: Path, clbench: Callable[..., Any], line: str, words: str
) -> None:
    (here / "grid.toml").write_text(f"{line}\ndry-run = true\n")
    result = clbench("run --config grid.toml")
    assert result.code == 2
    assert words in result.err


def test_a_flag_beats_the_config_file_wherever_it_stands(
    here: Path, clbench: Callable[..., Any]
) -> None:
    (here / "grid.toml").write_text(CONFIG)
    before = clbench("run --seeds 2 --config grid.toml")
    after = clbench("run --config grid.toml --seeds 2")
    assert before.out == after.out
    assert "4 of 4 runs" in before.out


@pytest.mark.parametrize(("seeds", "count"), [("3", 3), ('"0,4"', 2), ("[5]", 1), ("[1, 2, 2]", 2)])
def test_seeds_in_a_config_file(
    here: Path, clbench: Callable[..., Any], seeds: str, count: int
) -> None:
    (here / "grid.toml").write_text(f'methods = "ewc"\nseeds = {seeds}\ndry-run = true\n')
    assert f"{count} of {count} runs" in clbench("run --config grid.toml").out


def test_what_another_process_trains_is_waited_for(
    here: Path, clbench: Callable[..., Any], cell: Callable[..., Any]
) -> None:
    """The lock is let go after a moment; then the run is trained here."""
    import threading

    store = Store(here / "results")
    store.prepare()
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with store.lease(cell().id) as mine:
            assert mine
            held.set()
            release.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(60)
    dry = clbench("run --methods finetune --benchmarks ./tiny.py --dry-run")
    assert "running" in dry.out
    threading.Timer(1.0, release.set).start()
    result = clbench("run --methods finetune --benchmarks ./tiny.py --workers 1")
    holder.join()
    assert result.code == 0
    assert records(here / "results")["finetune", 0].status == "done"


def test_a_result_on_other_data_is_trained_again(here, clbench):
    command = "run --methods finetune --epochs 1 --out out"
    first = clbench(command)
    assert first.code == 0, first.err
    record = next((here / "out" / "records").glob("*.json"))
    content = json.loads(record.read_text())
    content["data"]["mnist-5k"]["sha256"] = "0" * 64
    record.write_text(json.dumps(content))
    planned = clbench(f"{command} --dry-run").out
    assert "stale" in planned
    assert "1 of 1 runs to train" in planned
    assert "other data" in clbench(command).err
    assert (here / "out" / "replaced" / record.name).exists()
    assert clbench(command).err == ""


def test_what_a_method_refuses_is_said_before_anything_is_trained(here, clbench):
    options = "--weight-decay 0.01 --epochs 1 --workers 1"
    result = clbench(f"run --methods finetune,hat,packnet {options}")
    assert result.code == 2
    assert "2 of 3 runs" in result.err.splitlines()[-1]
    for method in ("hat", "packnet"):
        said = result.err.index(f"{method} cannot run on split-mnist-5k")
        assert said < result.err.index("finetune seed 0")


def test_a_stream_that_cannot_be_made_is_a_mistake_of_the_command(here, clbench):
    Path("seven.py").write_text(
        "from clbench import UserError\n"
        "from clbench.benchmark import Benchmark\n"
        "class Seven(Benchmark):\n"
        '    """A benchmark that cannot be made."""\n'
        '    title = "Seven"\n'
        "    def sources(self, data, seed):\n"
        '        raise UserError("ten classes cannot be split into 7 equal tasks")\n'
    )
    result = clbench("run --methods finetune --benchmarks ./seven.py")
    assert result.code == 2
    assert "ten classes cannot be split into 7 equal tasks" in result.err
    assert "Traceback" not in result.err


def test_all_problems_come_in_one_message_and_nothing_is_trained(
    here: Path, clbench: Callable[..., Any], method_file: Callable[..., Path]
) -> None:
    method_file("broken", "import no_such_thing\nclass A(Method): title = 'A'\n")
    result = clbench(
        "run --methods finetune,hat,./broken.py --weight-decay 0.01 --device no-such-device "
        "--benchmarks split-mnist-5k,split-mnist,split-cifar100 --data-root nowhere"
    )
    assert result.code == 2
    assert result.out == ""
    for fact in (
        "broken.py", "no_such_thing", "--device no-such-device", "MNIST/raw", "cifar-100-python",
        "hat cannot run on split-mnist-5k",
    ):  # fmt: skip
        assert result.err.count(fact) >= 1, fact
    assert "Traceback" not in result.err
    assert Store(here / "results").records() == ([], [])


def test_the_driver_opens_each_data_set_once(
    here: Path, clbench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from clbench import data

    opened: list[str] = []
    load = data.load

    def counted(name: str, *more: Any) -> Any:
        opened.append(name)
        return load(name, *more)

    monkeypatch.setattr(data, "load", counted)
    command = "run --methods finetune --seeds 2 --benchmarks split-mnist-5k --epochs 1"
    assert clbench(command).code == 0
    assert opened == ["mnist-5k"]


SLOW = """
import time
from pathlib import Path

from clbench import Method, Strategy, ordinary


class Sleeping(Strategy):
    def learn(self, k):
        if k == 1 and Path("stop").exists():
            Path("stop").unlink()
            import os
            os._exit(3)
        time.sleep(1.2)
        return super().learn(k)


class {name}(Method):
    title = "Slow"
    family = "reference"

    def build(self, stream):
        return Sleeping(model=ordinary(stream), stream=stream)
"""


def test_a_resumed_run_says_what_this_command_and_what_the_run_took(
    here: Path, clbench: Callable[..., Any], method_file: Callable[..., Path]
) -> None:
    method_file("slow", SLOW)
    (here / "stop").touch()
    command = "run --methods ./slow.py --benchmarks ./tiny.py --workers 1"
    first = clbench(command)
    assert first.code == 1
    assert "died" in first.err
    [partial] = records(here / "results").values()
    assert (partial.status, partial.done) == ("partial", 1)
    second = clbench(command)
    assert second.code == 0
    [done] = records(here / "results").values()
    [said] = [line for line in second.err.splitlines() if line.startswith("This command took")]
    _, run, earlier = re.findall(r"\d+ s\b", said)
    assert run == f"{round(done.seconds.total)} s"
    assert earlier == f"{round(partial.seconds.total)} s"
    assert "This command took" not in clbench(command).err, "nothing was trained"
