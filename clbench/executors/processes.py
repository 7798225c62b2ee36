"""Worker processes: forked from a server that has imported torch, and gone with their driver."""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

from clbench.executors.quiet import silence_tracker


def start(target: Callable[..., None], *args: Any) -> tuple[Any, Connection]:
    """Start `target(*args, pipe)` in a process of its own; returns it with our end of the pipe."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["clbench.executors.preload"])
    silence_tracker()
    ours, theirs = context.Pipe()
    process = context.Process(target=_live, args=(target, *args, theirs), daemon=True)
    with _hidden_main(), _safe_helpers():
        process.start()
    theirs.close()
    return process, ours


def why_ended(code: int | None) -> str:
    """The exit code of a process in words."""
    if code == -signal.SIGKILL:
        return "its process was killed (signal 9; is the machine out of memory?)"
    if code is not None and code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"


@contextlib.contextmanager
def _hidden_main() -> Iterator[None]:
    """multiprocessing imports the main module again in every process that it starts. A script that
    calls `clbench.run` without `if __name__ == "__main__":` would run again in each worker. Workers
    need nothing of it, so they see an empty module in its place."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def safe_path() -> dict[str, str]:
    """Environment variables for helper processes. Python starts with the current folder as its
    first place for imports, so that a file `selectors.py` there would run. With these it searches
    what this process searches before the standard library."""
    library = os.path.dirname(os.__file__)
    before = sys.path[: sys.path.index(library)] if library in sys.path else []
    return {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(filter(None, before))}


@contextlib.contextmanager
def _safe_helpers() -> Iterator[None]:
    """multiprocessing starts its helpers with the environment of this process; each worker then
    gets the whole `sys.path` of this process."""
    safe = safe_path()
    usual = {name: os.environ.get(name) for name in safe}
    os.environ.update(safe)
    try:
        yield
    finally:
        for name, value in usual.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _live(target: Callable[..., None], *args: Any) -> None:
    """The life of a process: ignore Ctrl-C, which the driver handles, and end with the driver."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_driver, args=(args[-1],), daemon=True).start()
    try:
        target(*args)
    except OSError:  # the driver is gone
        os._exit(1)
    os._exit(0)  # skips the tear-down of torch, which has nothing left to save


def _end_with_driver(pipe: Connection) -> None:
    """The driver never sends: the read ends only when the driver is gone."""
    try:
        pipe.recv()
    except (EOFError, OSError):
        os._exit(1)
