"""A stranger's study, configuration or folder runs no code, and a bad value is a sentence."""

import os
import subprocess
import sys
from pathlib import Path

WORKER = """
import operator, sys
sys.path[:0] = {before!r}
import {module}
from clbench.executors.processes import start
process, pipe = start({module}.answer)
print(pipe.recv())
"""
LIBRARY = ("selectors", "signal", "socket", "struct", "threading", "traceback", "tempfile", "queue")


def in_a_worker(folder: Path, script: str, here: Path) -> str:
    """What a worker answers to the script `folder`/script.py, started in the folder `here`."""
    (folder / "script.py").write_text(script)
    (folder / "torch.py").write_text("raise ImportError")  # the fork server starts sooner
    done = subprocess.run(
        [sys.executable, str(folder / "script.py")], cwd=here, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_helper_processes_import_nothing_from_the_current_folder(tmp_path: Path) -> None:
    """The script's own folder stays importable in workers, as in the driver."""
    (here := tmp_path / "here").mkdir()
    (mine := tmp_path / "mine").mkdir()
    proof = tmp_path / "ran"
    for name in (*LIBRARY, "clbench", "torch"):
        (here / f"{name}.py").write_text(f"open({str(proof)!r}, 'w').write({name!r})\n")
    (mine / "neighbour.py").write_text("def answer(pipe): pipe.send(42)\n")
    assert in_a_worker(mine, WORKER.format(before=[], module="neighbour"), here) == "42"
    assert not proof.exists(), proof.read_text()


def test_workers_have_the_clbench_of_their_driver(tmp_path: Path) -> None:
    """As with `python -m clbench` in a checkout, which is not the clbench that is installed."""
    import clbench

    (checkout := tmp_path / "checkout").mkdir()
    os.symlink(Path(clbench.__file__).parent, checkout / "clbench")
    text = "def answer(pipe):\n    import clbench\n    pipe.send(clbench.__file__)\n"
    (checkout / "neighbour.py").write_text(text)
    answer = in_a_worker(
        tmp_path, WORKER.format(before=[str(checkout)], module="neighbour"), tmp_path
    )
    assert Path(answer).parent.parent == checkout
