"""Reading TOML, and writing a file atomically."""

import contextlib
import os
import tomllib
from pathlib import Path
from typing import Any

from clbench.errors import UserError


def read_toml(file: Any, where: str) -> dict[str, Any]:
    """The content of a file that a user named."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{where}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{where} is not valid TOML: {error}") from None


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside `path`, flush to disk and rename; a failure leaves the old file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
