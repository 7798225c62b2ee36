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
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from clbench.errors import UserError
from clbench.files import absolute, as_typed, refuse_links, shown, write_atomically
from clbench.lease import Lease, hold, holder, is_held
from clbench.limits import checked_id
from clbench.record import Record
from clbench.record_file import DamagedRecordError, encode, read


@dataclass(frozen=True)
class Place:
    """Where a run finds its data and leaves its record."""

    out: Path
    data_root: Path
    accept_data: bool = False

    def absolute(self) -> "Place":
        """The same place whatever the current folder is: a method may change it."""
        return Place(absolute(self.out), absolute(self.data_root), self.accept_data)


class Store:
    """The runs in one output folder."""

    def __init__(self, root: Path) -> None:
        self.root = absolute(root)
        self._leases: dict[str, Lease] = {}

    def prepare(self) -> None:
        """Make the folders, or say why this cannot be an output folder."""
        typed = as_typed(self.root)
        if self.root.exists() and not self.root.is_dir():
            raise UserError(f"--out {typed} is a file; name a folder.")
        try:
            for name in ("records", "checkpoints", "leases"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
                refuse_links(self.root / name, self.root)
            with tempfile.TemporaryFile(dir=self.root / "records"):
                pass
        except OSError as error:
            reason = f"{error.strerror}. Name another folder or change its permissions"
            raise UserError(f"--out {typed} cannot be written to: {reason}.") from None

    def record_path(self, run_id: str) -> Path:
        return self.root / "records" / f"{checked_id(run_id)}.json"

    def checkpoint_path(self, run_id: str) -> Path:
        return self.root / "checkpoints" / f"{checked_id(run_id)}.pt"

    def lease_path(self, run_id: str) -> Path:
        return self.root / "leases" / checked_id(run_id)

    def read(self, run_id: str) -> Record | None:
        """The record of a run; None if there is none or it is damaged."""
        try:
            return read(self.record_path(run_id))
        except (DamagedRecordError, FileNotFoundError):
            return None

    def each(self, problems: list[str]) -> Iterator[Record]:
        """All records, by id, one at a time: there may be very many. `problems` gets a sentence
        for every file that is no record."""
        for path in self._files():
            try:
                yield read(path)
            except FileNotFoundError:  # replaced while we were reading
                continue
            except DamagedRecordError as error:
                problems.append(f"{shown(path)} is skipped: {error}")

    def records(self) -> tuple[list[Record], list[str]]:
        """All of them, and the sentences."""
        problems: list[str] = []
        return list(self.each(problems)), problems

    def write(self, record: Record, checkpoint: bytes | None = None) -> None:
        """Put a run's checkpoint, if there is one, and its record in their places, atomically.

        Raises BusyError if the run was leased and another process has taken it over since.
        """
        if record.id in self._leases:
            self._leases[record.id].check()
        content = encode(record)
        try:
            if checkpoint is not None:
                write_atomically(self.checkpoint_path(record.id), checkpoint, self.root)
            write_atomically(self.record_path(record.id), content, self.root)
        except OSError as error:
            raise UserError(
                f"{self.root} is not writable: {error.strerror or error}. Every task finished "
                "before is kept. Fix the cause and run the same command again."
            ) from error

    def replace(self, run_id: str) -> None:
        """Move a run's record away and delete its checkpoint, so that it is trained again."""
        if self.record_path(run_id).exists():
            self.set_aside(run_id)
        self.checkpoint_path(run_id).unlink(missing_ok=True)

    def set_aside(self, run_id: str) -> Path:
        """Move a run's file to the folder `replaced`, where it overwrites nothing."""
        folder = self.root / "replaced"
        try:
            folder.mkdir(exist_ok=True)
            refuse_links(folder, self.root)
        except OSError as error:
            raise UserError(f"{folder} cannot be written to: {error.strerror}.") from None
        names = itertools.chain(
            [f"{run_id}.json"], (f"{run_id}.{n}.json" for n in itertools.count(1))
        )
        target = next(folder / name for name in names if not (folder / name).exists())
        os.replace(self.record_path(run_id), target)
        return target

    def clear_damaged(self, run_id: str) -> str:
        """Set aside a damaged record of the run; a sentence if there was one."""
        path = self.record_path(run_id)
        if not path.exists() or self.read(run_id) is not None:
            return ""
        return f"{path} is not a record. It was moved to {self.set_aside(run_id)}."

    @contextlib.contextmanager
    def lease(self, run_id: str) -> Iterator[bool]:
        """Hold the run's lease; yields False if another process has it."""
        with hold(self.lease_path(run_id)) as lease:
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
        return is_held(self.lease_path(run_id))

    def holder(self, run_id: str) -> str:
        """The process that trains the run, in words."""
        return holder(self.lease_path(run_id))

    def find(self, text: str) -> Record:
        """The record whose id starts with `text`."""
        matches = [path for path in self._files() if path.stem.startswith(text)]
        if len(matches) != 1:
            what = "No run" if not matches else f"{len(matches)} runs"
            raise UserError(
                f"{what} in {self.root} with an id that starts with {text!r}. "
                f"`clbench ls results --out {as_typed(self.root)}` lists the ids."
            )
        try:
            return read(matches[0])
        except DamagedRecordError as error:
            raise UserError(f"{shown(matches[0])} is damaged: {error}") from None

    def _files(self) -> list[Path]:
        return sorted((self.root / "records").glob("*.json"))
