"""Reading a file of bounded size, and writing one atomically below a folder.

Whatever comes from outside is read here: a device, a pipe or a file that is too large is an OSError
whose `strerror` says so.
"""

import contextlib
import errno
import os
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from clbench.errors import UserError

SOURCE = 10**6
"""The most bytes that a file of Python code may have."""
TOML = 10**6
"""The most bytes that a TOML file may have."""
DOTS = 100
"""The most dots in a line of TOML: a key of very many parts would take tomllib hours."""


def named_path(text: str, where: str, home: bool = False) -> Path:
    """The path that a user named, whether there is a file or not; with `home` it may begin with ~.
    A UserError if no file can have it."""
    try:
        path = Path(text).expanduser() if home else Path(text)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            os.lstat(path)
    except RuntimeError:
        raise UserError(f"{where} {text}: there is no such user; write the whole path.") from None
    except OSError as error:
        raise UserError(f"{where} {text:.60}: {error.strerror}.") from None
    except ValueError:
        raise UserError(f"{where} {text!r:.60} is no path: it has a NUL.") from None
    return path


@contextlib.contextmanager
def opened(path: Path, limit: int) -> Iterator[BinaryIO]:
    """A regular file of at most `limit` bytes, open for reading; never waits for a pipe."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(number)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if found.st_size > limit:
            raise _too_large(path, found.st_size, limit)
        with open(number, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(number)


def read_bounded(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes."""
    with opened(path, limit) as file:
        # not `limit` at once, because `read` takes the memory for it before it reads
        content = file.read(min(os.fstat(file.fileno()).st_size, limit) + 1)
        while len(content) <= limit and (more := file.read(2**16)):
            content += more
    if len(content) > limit:
        raise _too_large(path, len(content), limit)
    return content


def _too_large(path: Path, size: int, limit: int) -> OSError:
    what = f"it has {size:,} bytes or more; at most {limit:,} are read"
    return OSError(errno.EFBIG, what, str(path))


def read_text(path: Path, limit: int) -> str:
    """The same as text. It is UTF-8, with or without a byte order mark."""
    try:
        return read_bounded(path, limit).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{shown(path)} is not a text in UTF-8.") from None


def read_toml(path: Path, where: str) -> dict[str, Any]:
    """The content of a TOML file; UserErrors call it `where`."""
    try:
        text = read_bounded(path, TOML).decode("utf-8-sig")
        if any(line.count(".") > DOTS for line in text.splitlines()):
            raise ValueError(f"a line has more than {DOTS} dots")
        return tomllib.loads(text)
    except OSError as error:
        raise UserError(f"{where}: {error.strerror}.") from None
    except RecursionError:
        raise UserError(f"{where} is not valid TOML: it is nested too deeply.") from None
    except ValueError as error:  # bad TOML, bad UTF-8, NUL in the path, an integer without end
        raise UserError(f"{where} is not valid TOML: {error}") from None


def write_atomically(path: Path, content: bytes, root: Path | None = None) -> None:
    """Write beside `path`, flush to disk and rename; a failure leaves the old file.

    A folder between `root` and the file that is a symbolic link is an OSError: what is written
    below `root` stays there.
    """
    if root is not None:
        refuse_links(path.parent, root)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def refuse_links(folder: Path, root: Path) -> None:
    """OSError if `folder`, or a folder between `root` and it, is a symbolic link, or if `folder` is
    not below `root`."""
    while folder != root:
        if folder == folder.parent or folder.name == "..":
            raise OSError(errno.EINVAL, f"it is not inside {shown(root)}", str(folder))
        if folder.is_symlink():
            raise OSError(errno.ELOOP, f"{shown(folder)} is a link", str(folder))
        folder = folder.parent


def absolute(path: Path) -> Path:
    """The path from the root on, with links as they are."""
    try:
        return Path(os.path.abspath(path))
    except FileNotFoundError:
        raise UserError(f"{path}: the current folder is gone; name an absolute path.") from None


def as_typed(path: Path) -> Path:
    """A path in a message: from the current folder on, if it is below."""
    with contextlib.suppress(ValueError, OSError):
        return path.relative_to(Path.cwd())
    return path


def shown(path: object) -> str:
    """A path or text in a message: what would steer a terminal is replaced."""
    return "".join(c if c.isprintable() else "?" for c in str(path))


def brief(error: object) -> str:
    """What a library said of a damaged file, which may quote all of that file."""
    return shown(str(error)[:200])
