"""Runs on a real Ray cluster of several nodes, one of which is lost on the way."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clbench.data import load
from clbench.executors.ray import _datasets
from clbench.grid import make_grid
from clbench.store import Place, Store

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'clbench[ray]'")
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves files open
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

WORDS = "run --methods finetune,ewc,er-res --epochs 6 --batch-size 16"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    yield made
    ray.shutdown()
    made.shutdown()


def start(words: str, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "clbench", *shlex.split(words), "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def results(out: Path) -> dict[str, Any]:
    return {r.method: r for r in Store(out).records()[0]}


def test_a_run_whose_node_is_lost_goes_on_elsewhere_to_the_same_numbers(
    cluster: Any, tmp_path: Path
) -> None:
    first = cluster.add_node(num_cpus=1)
    cluster.add_node(num_cpus=1)
    out = tmp_path / "out"
    driver = start(f"{WORDS} --workers 2 --executor ray --ray-address {cluster.address}", out)
    while driver.poll() is None and sum(r.done > 0 for r in results(out).values()) < 2:
        time.sleep(0.1)
    assert driver.poll() is None, driver.communicate()[1]
    cluster.remove_node(first, allow_graceful=False)
    said, problems = driver.communicate(timeout=600)
    assert driver.returncode == 0, problems
    assert "ER-RES" in said or "er-res" in said
    from clbench.runner import run

    place = Place(tmp_path / "alone", Path("no-data"))
    for cell in make_grid(
        "finetune,ewc,er-res", "split-mnist-5k", [0], {"epochs": 6, "batch_size": 16}
    ):
        found = results(out)[cell.method.name]
        assert found.status == "done"
        assert found.R == run(cell, place).R, "the same bits wherever it ran"
        assert found.id == cell.id
    assert not any(Store(out).is_running(run.id) for run in results(out).values())


def test_what_another_driver_did_meanwhile_is_not_done_again(cluster: Any, tmp_path: Path) -> None:
    from clbench.runner import run

    cluster.add_node(num_cpus=1)
    elsewhere, store = Place(tmp_path / "elsewhere", Path("no-data")), Store(tmp_path / "out")
    store.prepare()
    done, damaged = make_grid("finetune,ewc", "split-mnist-5k", [0], {"epochs": 1})
    for cell in (done, damaged):
        run(cell, elsewhere)
    with store.lease(done.id) as held:
        assert held
        words = "run --methods finetune,ewc --epochs 1 --executor ray --ray-address"
        whole = Store(elsewhere.out).record_path(damaged.id).read_bytes()
        store.record_path(damaged.id).write_bytes(whole[:500])
        driver = start(f"{words} {cluster.address}", store.root)
        deadline = time.monotonic() + 300
        while driver.poll() is None:
            if (record := store.read(damaged.id)) is not None and record.status == "done":
                break
            assert time.monotonic() < deadline
            time.sleep(0.1)
        for kind in ("record_path", "checkpoint_path"):
            content = getattr(Store(elsewhere.out), kind)(done.id).read_bytes()
            getattr(store, kind)(done.id).write_bytes(content)
    _, problems = driver.communicate(timeout=300)
    assert driver.returncode == 0, problems
    assert store.read(done.id) == Store(elsewhere.out).read(done.id), "not trained a second time"
    found, expected = store.read(damaged.id), Store(elsewhere.out).read(damaged.id)
    assert found is not None
    assert expected is not None
    assert found.R == expected.R
    assert len(list((store.root / "replaced").iterdir())) == 1
    assert f"{damaged.id}.json" in problems


def test_workers_import_nothing_from_the_current_folder(tmp_path: Path) -> None:
    """Also not in the Ray that clbench starts."""
    (tmp_path / "numpy.py").write_text("open('ran', 'w').close()\nraise ImportError")
    words = "run --methods finetune --epochs 1 --executor ray --workers 1 --out out"
    command = [sys.executable, "-P", "-m", "clbench", *words.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert not (tmp_path / "ran").exists()
    assert done.returncode == 0, done.stderr


STRANGER = """
import sys, ray
ray.init(address=sys.argv[1], log_to_driver=False)
print("inside", ray.get(ray.remote(lambda: 1).remote()))
"""


@pytest.mark.skipif(
    tuple(map(int, ray.__version__.split(".")[:2])) < (2, 59), reason="Ray asks for no token"
)
def test_nobody_without_the_token_gets_into_the_ray_that_clbench_starts(tmp_path: Path) -> None:
    script = """
import os, subprocess, sys
from clbench.executors import Resources
from clbench.executors.ray import _connect
ray = _connect(Resources(workers=1))
mine = ray.get(ray.remote(lambda: 1).remote())
other = {name: value for name, value in os.environ.items() if "RAY" not in name}
address = ray.get_runtime_context().gcs_address
command = [sys.executable, "-W", "ignore", "-c", sys.argv[1], address]
done = subprocess.run(command, env=other | {"HOME": sys.argv[2]}, capture_output=True, text=True)
ray.shutdown()
print(mine, done.returncode, done.stdout)
"""
    command = [sys.executable, "-P", "-W", "ignore", "-c", script, STRANGER, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["1", "1"], done.stderr


def test_what_no_node_has_is_refused_in_words(cluster: Any, tmp_path: Path) -> None:
    cluster.add_node(num_cpus=1)
    words = f"run --methods finetune --executor ray --ray-address {cluster.address}"
    driver = start(f"{words} --gpus-per-run 3", tmp_path / "out")
    _, problems = driver.communicate(timeout=300)
    assert driver.returncode == 2
    assert "No node of the Ray cluster has what a run asks for" in problems
    assert "0 GPU" in problems


def test_a_cluster_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    driver = start(
        "run --methods finetune --executor ray --ray-address 127.0.0.1:1", tmp_path / "o"
    )
    _, problems = driver.communicate(timeout=300)
    assert driver.returncode == 2
    assert "--ray-address 127.0.0.1:1: no Ray cluster answers" in problems
    assert "Traceback" not in problems


def test_a_node_without_the_data_gets_them_from_the_driver(cluster: Any, tmp_path: Path) -> None:
    [cell] = make_grid("finetune", "split-mnist-5k", [0], {})
    nowhere = Place(tmp_path, tmp_path / "nothing")
    meta = cell.benchmark.meta | {"datasets": ("mnist",)}
    cell = replace(cell, benchmark=replace(cell.benchmark, meta=meta))
    ray.init(address=cluster.address, log_to_driver=False, ignore_reinit_error=True)
    given = load("mnist-5k", tmp_path, True)  # stands in for a set that the node does not have
    sent = {"mnist": (given.sha256, ray.put(given))}
    assert _datasets(ray, cell, nowhere, sent)["mnist"].sha256 == given.sha256
    meta = meta | {"datasets": ("mnist-5k",)}
    cell = replace(cell, benchmark=replace(cell.benchmark, meta=meta))
    other = replace(given, sha256="0" * 64)
    sent = {"mnist-5k": (other.sha256, ray.put(other))}
    assert _datasets(ray, cell, nowhere, sent)["mnist-5k"].sha256 == other.sha256, "not the node's"
    ray.shutdown()
