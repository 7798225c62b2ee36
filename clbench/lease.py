"""Which process trains a run: a lease that its holder renews, and that others take when it is gone.

A lease is a small file, made by a hard link: that fails if the file exists, on network file systems
too. A heartbeat keeps its time stamp young. The holder is gone if its process has ended (seen only
on the same machine) or if the heartbeat has stopped for LAPSE seconds. A holder that was only slow
notices its loss by `Lease.check`, before it writes anything.
"""

import contextlib
import fcntl
import hashlib
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
"""Seconds without a sign of life after which a holder counts as gone."""


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
        with contextlib.suppress(OSError), guard(path.parent):
            _remove(path, lease.content())


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
        if _linked(mine, path):
            return True
        with guard(path.parent), contextlib.suppress(FileNotFoundError):
            found = path.read_bytes()
            now = mine.stat().st_mtime
            if is_held(path, now):
                return False
            _remove(path, found, now)
        return _linked(mine, path)
    except OSError as error:
        raise UserError(f"{path.parent} cannot be written to: {error.strerror}.") from error
    finally:
        mine.unlink(missing_ok=True)


def _linked(mine: Path, path: Path) -> bool:
    with contextlib.suppress(FileExistsError):
        os.link(mine, path)
        return True
    return False


def _remove(path: Path, content: bytes, now: float = 0.0) -> None:
    """Remove the lease with this content, and no other.

    Several processes can find the same holder gone. The slowest must not remove the lease that the
    fastest has taken since, even without the locks of `guard`. So each first makes a file named
    after the lease that it removes, which only one at a time can. If a process was killed at that
    point, its file stays, and is removed when it is older than LAPSE at the time `now`.
    """
    claim = path.with_name(f".{path.name}.{hashlib.sha256(content).hexdigest()[:16]}.end")
    try:
        claim.touch(exist_ok=False)
    except FileExistsError:
        if now - claim.stat().st_mtime > LAPSE:
            claim.unlink()
        return
    try:
        if path.read_bytes() == content:
            path.unlink()
    finally:
        claim.unlink(missing_ok=True)


@contextlib.contextmanager
def guard(folder: Path) -> Iterator[None]:
    """Let only one process at a time change a folder, if the file system supports locks."""
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
    with contextlib.suppress(OSError):  # killed, but not yet reaped
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return True


@cache
def _machine() -> str:
    """Equal for processes that share their process ids: one boot and, in containers, one pid
    namespace."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    return socket.gethostname()
