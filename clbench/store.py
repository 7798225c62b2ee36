"""Records and checkpoints on disk.

    <out>/records/<id>.json      one record per run, rewritten after every task
    <out>/checkpoints/<id>.pt    the state after the last finished task
    <out>/replaced/<id>.json     the record that a re-run replaced, or a file that was in its place
    <out>/leases/<id>            held while a process trains the run

Files are written beside their place and moved over it, so that a reader sees the old or the new
file and never half of one.
"""

import contextlib
import itertools
import json
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clbench.errors import UserError
from clbench.files import write_atomically
from clbench.lease import Lease, hold, is_held

SCHEMA = 1
"""Version of the record's layout; docs/record.md describes it key by key."""

# what every reader of a record relies on, and its type
_NEEDED: dict[str, type] = {
    "id": str,
    "status": str,
    "spec": dict,
    "labels": dict,
    "tasks": int,
    "done": int,
    "R": list,
    "memory": dict,
    "seconds": dict,
    "curve": list,
    "data": dict,
}
_LABELS = ("benchmark", "method", "protocol")


@dataclass(frozen=True)
class Place:
    """Where a run finds its data and leaves its record."""

    out: Path
    data_root: Path
    accept_data: bool = False


class Store:
    """The runs in one output folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._leases: dict[str, Lease] = {}

    def prepare(self) -> None:
        """Make the folders, or say why this cannot be an output folder."""
        if self.root.exists() and not self.root.is_dir():
            raise UserError(f"--out {self.root} is a file; name a folder.")
        try:
            for name in ("records", "checkpoints", "leases"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.root / "records"):
                pass
        except OSError as error:
            raise UserError(
                f"--out {self.root} cannot be written to: {error.strerror}. "
                "Name another folder or change its permissions."
            ) from None

    def record_path(self, run_id: str) -> Path:
        return self.root / "records" / f"{run_id}.json"

    def checkpoint_path(self, run_id: str) -> Path:
        return self.root / "checkpoints" / f"{run_id}.pt"

    def read(self, run_id: str) -> dict[str, Any] | None:
        """The record of a run; None if there is none or it cannot be read."""
        path = self.record_path(run_id)
        if not path.exists():
            return None
        try:
            return parse_record(path)
        except (ValueError, FileNotFoundError):
            return None

    def each(self, problems: list[str]) -> Iterator[dict[str, Any]]:
        """All readable records, by id, one at a time: there may be very many.

        `problems` gets a sentence for every file that is not one.
        """
        for path in sorted((self.root / "records").glob("*.json")):
            try:
                yield parse_record(path)
            except FileNotFoundError:  # replaced while we were reading
                continue
            except ValueError as error:
                shown = "".join(c if c.isprintable() else "?" for c in str(path))
                problems.append(f"{shown} is skipped: {error}")

    def records(self) -> tuple[list[dict[str, Any]], list[str]]:
        """All of them, and the sentences."""
        problems: list[str] = []
        return list(self.each(problems)), problems

    def write(self, record: dict[str, Any], checkpoint: bytes | None = None) -> None:
        """Put a run's checkpoint, if there is one, and its record in their places, atomically.

        Raises BusyError if the run was leased and another process has taken it over since.
        """
        run_id = record["id"]
        if run_id in self._leases:
            self._leases[run_id].check()
        text = json.dumps(record, indent=1, allow_nan=False) + "\n"
        try:
            if checkpoint is not None:
                write_atomically(self.checkpoint_path(run_id), checkpoint)
            write_atomically(self.record_path(run_id), text.encode())
        except OSError as error:
            raise UserError(
                f"{self.root} cannot be written to: {error.strerror or error}. All tasks that were "
                "finished before are kept; mend the cause and give the same command again."
            ) from error

    def replace(self, run_id: str) -> None:
        """Set a run's record aside and forget its checkpoint, so that it is trained anew."""
        if self.record_path(run_id).exists():
            self.set_aside(run_id)
        self.checkpoint_path(run_id).unlink(missing_ok=True)

    def set_aside(self, run_id: str) -> Path:
        """Move a run's file to the folder `replaced`, where it overwrites nothing."""
        folder = self.root / "replaced"
        folder.mkdir(exist_ok=True)
        names = itertools.chain(
            [f"{run_id}.json"], (f"{run_id}.{n}.json" for n in itertools.count(1))
        )
        target = next(folder / name for name in names if not (folder / name).exists())
        os.replace(self.record_path(run_id), target)
        return target

    def clear_damaged(self, run_id: str) -> str:
        """Set aside what is in the place of a run's record and is none; a sentence if there was."""
        path = self.record_path(run_id)
        if not path.exists() or self.read(run_id) is not None:
            return ""
        return f"{path} is no record that can be read; it is kept as {self.set_aside(run_id)}."

    @contextlib.contextmanager
    def lease(self, run_id: str) -> Iterator[bool]:
        """Hold the run's lease; yields False if another process has it."""
        with hold(self.root / "leases" / run_id) as lease:
            if lease is None:
                yield False
                return
            self._leases[run_id] = lease
            self._sweep(run_id)
            try:
                yield True
            finally:
                del self._leases[run_id]

    def _sweep(self, run_id: str) -> None:
        """Remove what a process that was killed left half-written."""
        for path in (self.record_path(run_id), self.checkpoint_path(run_id)):
            for left in path.parent.glob(f".{path.name}.*"):
                with contextlib.suppress(OSError):
                    left.unlink()

    def is_running(self, run_id: str) -> bool:
        """Whether some process trains the run at this moment."""
        return is_held(self.root / "leases" / run_id)

    def running(self) -> list[str]:
        """Ids of all runs that some process is training at this moment."""
        names = sorted(p.name for p in (self.root / "leases").glob("[!.]*"))
        return [name for name in names if self.is_running(name)]

    def find(self, text: str) -> dict[str, Any]:
        """The record whose id starts with `text`."""
        folder = self.root / "records"
        matches = sorted(p.stem for p in folder.glob("*.json") if p.stem.startswith(text))
        if len(matches) != 1:
            what = "No run" if not matches else f"{len(matches)} runs"
            raise UserError(
                f"{what} in {self.root} with an id that starts with {text!r}. "
                f"`clbench ls results --out {self.root}` lists the ids."
            )
        try:
            return parse_record(folder / f"{matches[0]}.json")
        except ValueError as error:
            raise UserError(f"{folder / matches[0]}.json cannot be shown: {error}") from None


# an escaped backslash or a pair of surrogates, which must stay; else half a pair, or an escape or a
# code of a control character that is neither tab nor newline
_CONTROL = re.compile(
    rb"(\\\\|\\ud[89ab]..\\ud[c-f]..)|\\ud[89a-f]..|\\u00(?:0[0-8b-f]|1[0-9a-f]|7f|[89][0-9a-f])"
    rb"|\\[bfr]|\x7f|\xc2[\x80-\x9f]",
    re.I,
)


def _tamed(text: bytes) -> bytes:
    """JSON whose strings cannot steer a terminal, whoever wrote them."""
    if not any(sign in text for sign in (b"\\", b"\x7f", b"\xc2")):
        return text  # nearly every record; the pattern is slow
    return _CONTROL.sub(lambda found: found[1] or b"?", text)


def parse_record(path: Path) -> dict[str, Any]:
    """Read one record; a ValueError says in words why a file is not one."""
    try:
        record = json.loads(_tamed(path.read_bytes()))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError("it is not whole JSON (cut off, or damaged).") from None
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"it cannot be read ({error.strerror}).") from None
    if not isinstance(record, dict) or "schema" not in record:
        raise ValueError("it is not a clbench record.")
    if record["schema"] != SCHEMA:
        raise ValueError(
            f"it has schema {record['schema']!r}, and this clbench reads schema {SCHEMA}."
        )
    if missing := [key for key in _NEEDED if key not in record]:
        raise ValueError(f"it lacks {', '.join(missing)}.")
    if wrong := [key for key, kind in _NEEDED.items() if type(record[key]) is not kind]:
        raise ValueError(f"its {', '.join(wrong)} is not of the right type.")
    labels = [record["labels"].get(key) for key in _LABELS]
    if type(record["spec"].get("seed")) is not int or any(type(la) is not str for la in labels):
        raise ValueError("it lacks labels or a seed.")
    if record["status"] not in ("partial", "done", "failed"):
        raise ValueError("its status is none that a run can have.")
    failure = record.setdefault("failure", None)
    if failure is not None and not (
        isinstance(failure, dict)
        and all(isinstance(failure.get(part), str) for part in ("error", "traceback"))
    ):
        raise ValueError("its failure is not of the right type.")
    if type(record.get("peak_memory", 0)) is not int:
        raise ValueError("its peak_memory is not of the right type.")
    if not all(isinstance(used, dict) and "sha256" in used for used in record["data"].values()):
        raise ValueError("its data sets have no checksums.")
    if record["id"] != path.stem:
        raise ValueError(f"it is the record of run {record['id']}, under another name.")
    return record
