"""The checkpoint of a run: its record and the state of its strategy, after the last finished task.

A checkpoint may come from somebody else, so it executes nothing, and it is mapped instead of read.
"""

import io
import math
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clbench import limits
from clbench.data.pickles import KEYS, OPCODES, STEPS, Unpickler
from clbench.files import opened
from clbench.record import Record
from clbench.record_file import encode, parse

STRUCTURE = limits.RECORD + 10**6
"""Bytes of the part that is unpickled: the record, and the state without its tensors."""
DIRECTORY = 16 * 10**6
"""Bytes of the list of parts."""


def packed(record: Record, state: dict[str, Any]) -> bytes:
    """The checkpoint as it is written."""
    file = io.BytesIO()
    torch.save({"record": encode(record).decode(), "state": state}, file)
    return file.getvalue()


def load(path: Path, run_id: str, device: str | None = None) -> tuple[Record, dict[str, Any]]:
    """The record and the state in a checkpoint, the tensors on `device` or where they were. Raises
    exceptions of many kinds for a file that is none, and FileNotFoundError."""
    with opened(path, limits.CHECKPOINT) as file:
        if zipfile._EndRecData(file)[5] > DIRECTORY:  # type: ignore[attr-defined]
            raise ValueError("it has too many parts")
        archive = zipfile.ZipFile(file)
        for part in archive.infolist():
            if part.compress_type != zipfile.ZIP_STORED:
                raise ValueError("a part of it is compressed")
            if part.filename.endswith("/data.pkl"):
                if part.file_size > STRUCTURE:
                    raise ValueError("its structure is too large")
                _check(archive.read(part))
    content = torch.load(str(path), weights_only=True, mmap=True, map_location=device)
    if sum(tensor.nbytes for tensor in tensors_in(content)) > limits.CHECKPOINT:
        raise ValueError("its tensors are larger than any checkpoint")
    return parse(content["record"].encode(), run_id), content["state"]


def _check(structure: bytes) -> None:
    """Raise what torch's reader has no bound for: it would take hours, or all memory."""
    reader = _Structure(io.BytesIO(structure))
    try:
        if _unfolded(reader.load(), {}) > STEPS:
            raise ValueError("it holds the same parts again and again")
    finally:
        reader.__dict__.clear()  # it refers to itself


def _unfolded(tree: Any, known: dict[int, float]) -> float:
    """The parts that a walk over nested containers meets, each as often as it is held."""
    if not isinstance(tree, dict | list | tuple):
        return 1
    if id(tree) not in known:
        known[id(tree)] = math.inf  # of what holds itself
        inside = tree.values() if isinstance(tree, dict) else tree
        known[id(tree)] = 1 + sum(_unfolded(part, known) for part in inside)
    return known[id(tree)]


class _Structure(Unpickler):
    """Goes through a checkpoint without its tensors; every step and copy is counted."""

    opcodes = f"{OPCODES} BINPERSID"
    admitted = {
        (module, name): lambda *_: None
        for module, names in {
            "torch._utils": "_rebuild_tensor_v2 _rebuild_parameter _rebuild_sparse_tensor",
            "torch.serialization": "_get_layout",
            "torch": "device",
        }.items()
        for name in names.split()
    }

    def find_class(self, module: str, name: str) -> Any:
        own: dict[str, Callable[..., Any]] = {
            "torch.Size": self._copy, "builtins.set": self._copy, "__builtin__.set": self._copy,
            "collections.Counter": self._copy, "builtins.bytearray": self._bytes,
            "__builtin__.bytearray": self._bytes,
        }  # fmt: skip
        if f"{module}.{name}" in own:
            return own[f"{module}.{name}"]
        if (module, name) in self.admitted:
            return self.admitted[module, name]
        if module == "torch" and isinstance(getattr(torch, name, None), type | torch.dtype):
            return name  # of a storage or a number: it is named and not called
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> None:
        """Of a tensor's numbers, which are in a part of their own."""

    def load_build(self) -> None:
        self.stack.pop()  # what a state_dict says of its versions
        if type(self.stack[-1]) is not dict:
            raise ValueError("it changes what is no dictionary")

    def is_key(self, key: Any) -> bool:
        if type(key) is tuple:
            return all(map(self.is_key, key))
        return key is None or type(key) is bool or super().is_key(key)

    def _bytes(self, content: str | bytes, encoding: str = "latin1") -> bytes:
        return self._latin1(content if isinstance(content, str) else content.decode("latin1"))

    def _copy(self, items: Iterable[Any] = ()) -> tuple[Any, ...]:
        found = tuple(items)
        self.count(len(found))
        if len(found) > KEYS or not all(map(self.is_key, found)):
            raise ValueError("it has a set of too many things, or of others than names and numbers")
        return found


def tensors_in(tree: Any) -> Iterator[Tensor]:
    """All tensors in nested containers."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, dict | list | tuple):
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from tensors_in(value)
