"""Runs as jobs of a real SLURM: its controller, its node and its authentication, on loopback."""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clbench.store import Store

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


def free_ports(n: int) -> list[int]:
    sockets = [socket.socket() for _ in range(n)]
    for made in sockets:
        made.bind(("127.0.0.1", 0))
    ports = [made.getsockname()[1] for made in sockets]
    for made in sockets:
        made.close()
    return ports


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
        deadline = time.monotonic() + 60
        while "idle" not in call("sinfo", "-h", "-o", "%T"):
            assert time.monotonic() < deadline, (root / "ctld.log").read_text()
            time.sleep(0.2)
        yield root
        subprocess.run(["scancel", "--me"], timeout=60, check=False)
        for name in ("slurmd", "ctld", "munge"):
            os.kill(int((root / f"{name}.pid").read_text()), signal.SIGTERM)


def start(words: str, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "clbench", "run", *shlex.split(words), "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(driver: subprocess.Popen[str]) -> tuple[int, str]:
    said, problems = driver.communicate(timeout=600)
    return driver.returncode, said + problems


def records(out: Path) -> dict[str, Any]:
    return {r["labels"]["method"]: r for r in Store(out).records()[0]}


def jobs(states: str = "all") -> list[str]:
    return call("squeue", "--me", "-h", "-r", "-t", states, "-o", "%i").split()


def wait_for_a_task(driver: subprocess.Popen[str], out: Path) -> None:
    while driver.poll() is None and not any(r["done"] for r in records(out).values()):
        time.sleep(0.1)
    assert driver.poll() is None, driver.communicate()


def test_ctrl_c_cancels_the_jobs_and_keeps_what_is_done(tmp_path: Path) -> None:
    out = tmp_path / "out"
    driver = start("--methods finetune --epochs 40 --batch-size 8 --executor slurm", out)
    wait_for_a_task(driver, out)
    driver.send_signal(signal.SIGINT)
    code, said = end(driver)
    assert code == 130
    assert "the same command goes on from there" in said
    deadline = time.monotonic() + 60
    while jobs("running,pending"):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert records(out)["finetune"]["done"] >= 1


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
