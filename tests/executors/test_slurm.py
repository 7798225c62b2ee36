"""Runs as jobs of a real SLURM: its controller, its node and its authentication, on loopback."""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from clbench.events import Ended
from clbench.grid import make_grid
from clbench.store import Place, Store

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")
MISSING = [name for name in NEEDED if shutil.which(name) is None]
pytest.importorskip("submitit", reason="submitit is not installed: pip install 'clbench[slurm]'")
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)}: apt install slurm-wlm"),
    pytest.mark.skipif(os.getuid() != 0, reason="slurmd must be started by root"),
]

CONF = """\
ClusterName=clbench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.sock
StateSaveLocation={root}/ctld
SlurmdSpoolDir={root}/slurmd
SlurmctldPidFile={root}/ctld.pid
SlurmdPidFile={root}/slurmd.pid
SlurmctldLogFile={root}/ctld.log
SlurmdLogFile={root}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0
ReturnToService=2
MpiDefault=none
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=8000 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""

FLAGS = "--epochs 6 --batch-size 16"
BUDGET = {"epochs": 6, "batch_size": 16}


def free_ports(n: int) -> list[int]:
    sockets = [socket.socket() for _ in range(n)]
    for made in sockets:
        made.bind(("127.0.0.1", 0))
    ports = [made.getsockname()[1] for made in sockets]
    for made in sockets:
        made.close()
    return ports


def wait_until(what: Callable[[], Any], why: Callable[[], Any] = str) -> None:
    deadline = time.monotonic() + 120
    while not what():
        assert time.monotonic() < deadline, why()
        time.sleep(0.2)


def call(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.fixture(scope="module", autouse=True)
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("slurm")
    for folder in ("ctld", "slurmd"):
        (root / folder).mkdir()
    key = root / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    host = socket.gethostname().partition(".")[0]
    (root / "slurm.conf").write_text(CONF.format(root=root, host=host, ports=free_ports(2)))
    names = ("key-file", "pid-file", "log-file", "seed-file", "socket")
    files = dict(zip(names, ("key", "pid", "log", "seed", "sock"), strict=True))
    call("munged", "--force", *(f"--{n}={root / f'munge.{end}'}" for n, end in files.items()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(root / "slurm.conf"))
        call("slurmctld", "-i")
        call("slurmd", "-c")
        wait_until(lambda: "idle" in call("sinfo", "-h", "-o", "%T"), (root / "ctld.log").read_text)
        yield root
        call("scancel", "--me")
        wait_until(lambda: not jobs("running,pending,completing"))
        for name in ("slurmd", "ctld", "munge"):
            daemon = psutil.Process(int((root / f"{name}.pid").read_text()))
            daemon.terminate()
            daemon.wait(60)


def start(words: str, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "clbench", "run", *shlex.split(words), "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(driver: subprocess.Popen[str]) -> tuple[int, str]:
    said, problems = driver.communicate(timeout=600)
    return driver.returncode, said + problems


def records(out: Path) -> dict[str, Any]:
    return {r.method: r for r in Store(out).records()[0]}


def jobs(states: str) -> list[str]:
    return call("squeue", "--me", "-h", "-r", "-t", states, "-o", "%i").split()


def wait_for_a_task(driver: subprocess.Popen[str], out: Path) -> None:
    wait_until(lambda: driver.poll() is not None or any(r.done for r in records(out).values()))
    assert driver.poll() is None, driver.communicate()


def assert_as_alone(out: Path, alone: Path, methods: str) -> None:
    from clbench.runner import run

    for cell in make_grid(methods, "split-mnist-5k", [0], BUDGET):
        found = records(out)[cell.method.name]
        assert found.status == "done"
        assert found.R == run(cell, Place(alone, Path("no-data"))).R


def test_a_driver_that_comes_back_submits_nothing_twice(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = f"--methods finetune,er-res {FLAGS} --executor slurm --workers 2"
    driver = start(words, out)
    wait_for_a_task(driver, out)
    driver.kill()  # the jobs go on
    driver.communicate()
    code, said = end(start(words, out))
    assert code == 0, said
    assert len(list(out.glob("slurm/*_submission.sh"))) == 1, "one array was submitted"
    assert_as_alone(out, tmp_path / "alone", "finetune,er-res")


def test_a_job_that_must_make_room_goes_on_when_it_is_its_turn_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    driver = start(f"--methods finetune {FLAGS} --executor slurm", out)
    wait_for_a_task(driver, out)
    [job] = jobs("running")
    call("scancel", "--signal=USR2", job)  # as SLURM does a minute before the time is over
    wait_until(lambda: jobs("pending") == [job], driver.poll)
    kept = records(out)["finetune"].seconds.train
    assert 1 <= len(kept) < 5
    call("scontrol", "update", f"JobId={job}", "StartTime=now")  # else it waits for two minutes
    code, said = end(driver)
    assert code == 0, said
    assert len(list(out.glob("slurm/*_submission.sh"))) == 1, (
        "the job itself went back into the queue"
    )
    assert records(out)["finetune"].seconds.train[: len(kept)] == kept, "no task was learned again"
    assert_as_alone(out, tmp_path / "alone", "finetune")


def test_an_end_is_found_whichever_driver_submitted_the_job(
    cell: Callable[..., Any], place: Place
) -> None:
    from clbench.executors.slurm import Ticket, _ended, _path, _write
    from clbench.runner import run

    mine, store = cell(), Store(place.out)
    (place.out / "slurm").mkdir(parents=True)
    assert _ended(place, store, mine) is None, "never submitted"
    _write(_path(place, mine), Ticket("7_0"))
    gone = _ended(place, store, mine)
    assert gone is not None
    assert gone.status == "died"
    assert "7_0" in gone.text
    refused = Ended("refused", "no time")
    _write(_path(place, mine), Ticket("7_0", refused))
    assert _ended(place, store, mine) == refused
    run(mine, place)
    assert _ended(place, store, mine) == Ended("done")
    _path(place, mine).unlink()  # by the other driver
    assert _ended(place, store, mine) == Ended("done")


def test_a_job_that_is_not_requeued_ends_without_a_failure_of_its_method() -> None:
    from clbench.executors.slurm import _end_when_not_requeued

    def refuse(number: int, frame: Any) -> None:
        raise RuntimeError("not requeued")

    before = signal.signal(signal.SIGUSR2, refuse)
    try:
        _end_when_not_requeued()
        with pytest.raises(SystemExit, match="RuntimeError: not requeued"):
            signal.raise_signal(signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_ctrl_c_cancels_the_jobs_and_keeps_what_is_done(tmp_path: Path) -> None:
    out = tmp_path / "out"
    driver = start("--methods finetune --epochs 40 --batch-size 8 --executor slurm", out)
    wait_for_a_task(driver, out)
    driver.send_signal(signal.SIGINT)
    code, said = end(driver)
    assert code == 130
    assert "the same command goes on from there" in said
    wait_until(lambda: not jobs("running,pending"))
    assert records(out)["finetune"].done >= 1


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--partition nowhere", "invalid partition"),
        ("--cpus-per-run 64", "SLURM can never start its job (PartitionConfig)"),
    ],
)
def test_what_slurm_does_not_take_is_a_sentence(tmp_path: Path, flags: str, words: str) -> None:
    code, said = end(start(f"--methods finetune --executor slurm {flags}", tmp_path / "out"))
    assert code == 2
    assert words in said
    assert "Traceback" not in said


def test_a_controller_that_does_not_answer_is_a_sentence(
    tmp_path: Path, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = (slurm / "slurm.conf").read_text().splitlines()
    port = free_ports(1)[0]
    other = [f"SlurmctldPort={port}" if "SlurmctldPort" in line else line for line in conf]
    (tmp_path / "slurm.conf").write_text("\n".join([*other, "MessageTimeout=3", ""]))
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    code, said = end(start("--methods finetune --executor slurm", tmp_path / "out"))
    assert code == 2
    assert "SLURM does not answer" in said
    assert "Traceback" not in said
