"""The checkpoint of a run: its record and the state of its strategy, after the last finished task.

A checkpoint may come from somebody else, so it executes nothing, and it is mapped instead of read.
"""

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clbench import limits
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
        for part in zipfile.ZipFile(file).infolist():
            if part.compress_type != zipfile.ZIP_STORED:
                raise ValueError("a part of it is compressed")
            if part.filename.endswith("/data.pkl") and part.file_size > STRUCTURE:
                raise ValueError("its structure is too large")
    content = torch.load(str(path), weights_only=True, mmap=True, map_location=device)
    if sum(tensor.nbytes for tensor in tensors_in(content)) > limits.CHECKPOINT:
        raise ValueError("its tensors are larger than any checkpoint")
    return parse(content["record"].encode(), run_id), content["state"]


def tensors_in(tree: Any) -> Iterator[Tensor]:
    """All tensors in nested containers."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, dict | list | tuple):
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from tensors_in(value)
