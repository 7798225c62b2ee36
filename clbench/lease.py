"""Who trains a run: a lease that its holder renews and anyone may take once the holder is gone.

A lease is a small file. Its first holder makes it by a hard link, which fails if it is there, on a
network's file systems too; a heartbeat keeps its time stamp young. The holder is gone if its
process is (where that can be seen: on the same machine), or if the heartbeat has stopped for LAPSE
seconds. Who was only slow learns of its loss before it writes anything, by `Lease.check`.
"""

import contextlib
import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from clbench.errors import UserError

BEAT = 5.0
"""Seconds between two signs of life."""
LAPSE = 60.0
"""Seconds without one after which a holder counts as gone."""


class BusyError(Exception):
    """Another process is training the run."""


class Lease:
    """A held lease."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.token = os.urandom(8).hex()
        self._over = threading.Event()

    def content(self) -> bytes:
        holder = {"machine": _machine(), "pid": os.getpid(), "token": self.token}
        return json.dumps(holder | {"host": socket.gethostname()}).encode()

    def check(self) -> None:
        """Raise BusyError unless the lease is still ours."""
        if _read(self.path).get("token") != self.token:
            raise BusyError(f"another process has taken over {self.path.name}")

    def _beat(self) -> None:
        while not self._over.wait(BEAT):
            with contextlib.suppress(OSError, BusyError):
                self.check()
                os.utime(self.path)


@contextlib.contextmanager
def hold(path: Path) -> Iterator[Lease | None]:
    """Hold the lease while the body runs; yields None if a living process has it."""
    lease = Lease(path)
    if not _take(lease):
        yield None
        return
    heart = threading.Thread(target=lease._beat, daemon=True)
    heart.start()
    try:
        yield lease
    finally:
        lease._over.set()
        heart.join()
        with contextlib.suppress(OSError, BusyError), guard(path.parent):
            lease.check()
            path.unlink()


def is_held(path: Path, now: float | None = None) -> bool:
    """Whether a living process holds the lease; `now` by the clock of its file system."""
    holder = _read(path)
    if not holder:
        return False
    if holder.get("machine") == _machine() and not _process_lives(holder.get("pid")):
        return False
    try:
        return (now or time.time()) - path.stat().st_mtime < LAPSE
    except OSError:
        return False


def _take(lease: Lease) -> bool:
    path = lease.path
    mine = path.with_name(f".{path.name}.{lease.token}")
    try:
        mine.write_bytes(lease.content())
        with contextlib.suppress(FileExistsError):
            os.link(mine, path)
            return True
        with guard(path.parent):  # of two that find the holder gone, one takes the lease
            if is_held(path, now=mine.stat().st_mtime):
                return False
            os.replace(mine, path)
            return True
    except OSError as error:
        raise UserError(f"{path.parent} cannot be written to: {error.strerror}.") from error
    finally:
        mine.unlink(missing_ok=True)


@contextlib.contextmanager
def guard(folder: Path) -> Iterator[None]:
    """One process at a time changes what is in a folder, where the file system has locks; where it
    has none, `Lease.check` tells two that took the same lease apart."""
    with (folder / ".guard").open("a") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _process_lives(pid: Any) -> bool:
    if type(pid) is not int or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    with contextlib.suppress(OSError):  # killed, and not yet buried by its parent
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return True


@cache
def _machine() -> str:
    """Tells whether a process number means the same here as there: the boot and, in containers,
    the space that processes are numbered in."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    return socket.gethostname()
