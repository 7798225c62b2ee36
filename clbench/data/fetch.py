"""Download one file: show progress, resume after a cut, verify the checksum."""

import hashlib
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

from clbench.errors import UserError

CHUNK = 1 << 18
TIMEOUT = 30.0
LARGEST = 2**30
"""Most bytes of a file; the largest official one has 182 MB."""
Progress = Callable[[int, int], None]
"""Called with the bytes received and the bytes expected (0 if unknown)."""


def fetch(urls: Sequence[str], target: Path, md5: str, advice: str = "") -> None:
    """Download `target` from the first of `urls` that has all of it.

    Bytes stay in `<target>.part` after a cut, so the next attempt asks only for the rest. A server
    is asked again as long as it sends new bytes; then comes the next server.
    """
    part = target.with_name(f"{target.name}.part")
    failures = []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for url in urls:
            failure = _from(url, part, md5)
            if not failure:
                os.replace(part, target)
                return
            failures.append(f"{url} ({failure})")
    except OSError as error:  # an error of the disk: those of the network are failures
        raise UserError(f"{part} cannot be written ({error.strerror}).") from None
    raise UserError(f"Could not download {target.name} from {' or '.join(failures)}. {advice}")


def _from(url: str, part: Path, md5: str) -> str:
    """Complete `part` from one server; returns what failed, or an empty string."""
    while True:
        before = _size(part)
        try:
            with _progress(part.name.removesuffix(".part")) as progress:
                _transfer(url, part, progress)
        except _TransferError as failure:
            if _size(part) > before:
                continue
            return str(failure)
        with part.open("rb") as file:
            found = hashlib.file_digest(file, "md5").hexdigest()
        if found == md5:
            return ""
        part.unlink()
        if not before:  # else the old beginning may be wrong: try once more from the start
            return f"it sent a file with md5 {found}, not {md5}"


class _TransferError(Exception):
    """The transfer ended early; the bytes received so far are kept."""


def _transfer(url: str, part: Path, progress: Progress) -> None:
    start = _size(part)
    headers = {"User-Agent": "clbench"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        response = urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=TIMEOUT
        )
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and start:  # all bytes are here, and the checksum is next
            return
        raise _TransferError(str(error)) from None
    except (OSError, HTTPException) as error:
        raise _TransferError(str(getattr(error, "reason", error))) from None
    with response:
        if response.status != 206:  # a server that cannot resume sends the whole file
            start = 0
        length = int(response.headers.get("Content-Length") or 0)
        received, total = start, start + length if length else 0
        with part.open("ab" if start else "wb") as file:
            while chunk := _read(response):
                file.write(chunk)
                received += len(chunk)
                if received > LARGEST:
                    part.unlink()
                    raise _TransferError(f"it sends more than {LARGEST:,} bytes")
                progress(received, total)
            file.flush()
            os.fsync(file.fileno())
    if received < total:
        raise _TransferError(f"the connection was cut after {received:,} of {total:,} bytes")


def _read(response: object) -> bytes:
    """The next bytes; an error of the network becomes a failure, unlike one of the disk."""
    try:
        data: bytes = response.read(CHUNK)  # type: ignore[attr-defined]
        return data
    except (OSError, HTTPException) as error:
        raise _TransferError(f"the connection was cut: {error}") from None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def _progress(name: str) -> Iterator[Progress]:
    """A progress bar on a terminal, else a line per 10 % of the file."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = "{task.description}", BarColumn(), DownloadColumn(), TimeRemainingColumn()
        with Bar(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(name, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total or None)
        return
    told = -1

    def line(done: int, total: int) -> None:
        nonlocal told
        tenth = 10 * done // total if total else done // (10 * 2**20)
        if tenth > told:
            told = tenth
            share = f" of {total / 1e6:,.1f}" if total else ""
            print(f"{name}: {done / 1e6:,.1f}{share} MB", file=sys.stderr)

    yield line
