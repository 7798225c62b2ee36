"""Which process trains a run: a lease that its holder renews, and that others take when it is gone.

A lease is a small file with the token of its holder; whose token is in the file has the run. A
heartbeat keeps its time stamp young. Its states are

    free      there is no file
    held      its process lives (seen only on the same machine), and it has a young time stamp
    gone      its process has ended, or there was no heartbeat for LAPSE seconds, or its time stamp
              lies as far in the future, or it has no token
    unknown   it cannot be read, or is no regular file: nobody takes it, and a UserError says so

and these are the rules:

    take      from free to held by a hard link, which fails if the file exists, on network file
              systems too
    remove    from gone to free, and from held to free by its holder. Who removes first makes a
              claim, a file that is named after the content that it has seen, and that only one can
              make; it removes the lease if that is still its content, and then the claim. So who
              is slow cannot remove a lease that another has taken since. A claim that is older
              than LAPSE is of a killed process, and is removed.
    write     a holder looks whether the lease has its token before each write. If another token is
              there, or none, it has lost the run, and writes nothing (BusyError).

The lock of `guard` only keeps processes from doing this at the same time; the rules hold without.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from clbench.errors import UserError
from clbench.files import read_bounded, shown
from clbench.limits import cut, tamed

BEAT = 5.0
"""Seconds between two signs of life."""
LAPSE = 60.0
"""Seconds without a sign of life after which a holder counts as gone."""
SKEW = 3600.0
"""Seconds that the clocks of two machines may differ, where only this machine's is at hand."""
PATIENCE = 30.0
"""Seconds to wait for the lock of a folder; it is held for milliseconds."""
LIMIT = 10_000
"""Bytes of a lease."""
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Errors of `os.link` on file systems without hard links."""


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
        """Raise BusyError if another process has taken the lease over, and UserError if that cannot
        be found out."""
        try:
            holder = _read(self.path)
        except FileNotFoundError as error:
            if not self.path.parent.is_dir():
                raise UserError(_gone(self.path.parent)) from error
            holder = {}
        except OSError as error:
            raise UserError(
                f"{_unreadable(self.path, error)} Run the same command again."
            ) from None
        if holder.get("token") != self.token:
            raise BusyError(f"{_named(holder)} has taken it over")

    def _beat(self) -> None:
        while not self._over.wait(BEAT):
            with contextlib.suppress(OSError, BusyError, UserError):
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
    try:
        holder, stamp = _read(path), path.lstat().st_mtime
    except OSError:
        return False
    if not holder:
        return False
    if holder.get("machine") == _machine() and not _process_lives(holder.get("pid")):
        return False
    if now is None:
        return -SKEW < time.time() - stamp < LAPSE
    return abs(now - stamp) < LAPSE


def holder(path: Path) -> str:
    """Who holds the lease, in words."""
    with contextlib.suppress(OSError):
        return _named(_read(path))
    return "another process"


def _take(lease: Lease) -> bool:
    path = lease.path
    mine = path.with_name(f".{path.name}.{lease.token}")
    try:
        mine.write_bytes(lease.content())
        if _linked(mine, path):
            return True
        with guard(path.parent), contextlib.suppress(FileNotFoundError):
            try:
                found = read_bounded(path, LIMIT)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise UserError(_unreadable(path, error)) from None
            now = mine.stat().st_mtime
            if is_held(path, now):
                return False
            _remove(path, found, now)
        return _linked(mine, path)
    except OSError as error:
        raise UserError(f"{path.parent} cannot be written to: {error.strerror}.") from error
    finally:
        with contextlib.suppress(OSError):
            mine.unlink()


def _linked(mine: Path, path: Path) -> bool:
    try:
        os.link(mine, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        raise UserError(
            f"{path.parent} is on a file system without hard links ({error.strerror}), by which "
            "processes agree on who trains a run: name an --out on another."
        ) from None
    return True


def _remove(path: Path, content: bytes, now: float = 0.0) -> None:
    """Remove the lease with this content, and no other: the rule `remove` above, at the time `now`
    of the file system."""
    claim = path.with_name(f".{path.name}.{hashlib.sha256(content).hexdigest()[:16]}.end")
    try:
        claim.touch(exist_ok=False)
    except FileExistsError:
        if abs(now - claim.lstat().st_mtime) > LAPSE:
            claim.unlink()
        return
    try:
        if read_bounded(path, LIMIT) == content:
            path.unlink()
    finally:
        claim.unlink(missing_ok=True)


@contextlib.contextmanager
def guard(folder: Path) -> Iterator[None]:
    """Let one process at a time change what is in a folder, if the file system has locks. OSError
    if a process has the lock for longer than PATIENCE."""
    path = folder / ".guard"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    number = os.open(path, flags, 0o666)
    try:
        found = os.fstat(number)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, f"{shown(path)} is not a regular file", str(path))
        deadline = time.monotonic() + PATIENCE
        while not _locked(number):
            if time.monotonic() > deadline:
                what = f"{shown(path)} was locked by {_locker(found.st_ino)} for {PATIENCE:.0f} s"
                raise OSError(errno.EAGAIN, what, str(path))
            time.sleep(0.02)
        yield
    finally:
        os.close(number)


def _locked(number: int) -> bool:
    """Whether the file is locked by us now, or cannot be locked by anybody."""
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _locker(inode: int) -> str:
    """The process that has locked a file, if Linux tells."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()  # 1: FLOCK ADVISORY WRITE 12 08:01:345 0 EOF
            if words[1] == "FLOCK" and int(words[5].rpartition(":")[2]) == inode:
                return f"process {words[4]}"
    return "another process"


def _read(path: Path) -> dict[str, Any]:
    """What is in a lease, empty if it is none; OSError if there is nothing to read."""
    try:
        found = json.loads(read_bounded(path, LIMIT))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _named(holder: dict[str, Any]) -> str:
    if "pid" not in holder:
        return "another process"
    host = cut(tamed(str(holder.get("host", "another machine"))), 100)
    return f"process {cut(tamed(str(holder['pid'])), 20)} on {host}"


def _unreadable(path: Path, error: OSError) -> str:
    return (
        f"{shown(path)} says who trains the run, and cannot be read: {error.strerror}. "
        "Remove it if no process does, and run the same command again."
    )


def _gone(folder: Path) -> str:
    return f"The folder {shown(folder)} is gone, which says who trains a run. Run it again."


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
