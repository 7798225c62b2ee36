"""Reading one numeric variable of a MATLAB 5 file, compressed or not.

scipy's reader is made for files that one trusts: it takes the memory that a file announces, and
goes down into nested cells and objects.
"""

import math
import zlib
from pathlib import Path

import numpy as np

from clbench.errors import UserError
from clbench.files import brief, read_bounded

MATRIX, COMPRESSED = 14, 15
NUMBERS = {
    1: "i1",
    2: "u1",
    3: "i2",
    4: "u2",
    5: "i4",
    6: "u4",
    7: "f4",
    9: "f8",
    12: "i8",
    13: "u8",
}
CLASSES = range(6, 16)
"""The arrays of plain numbers; the others are cells, structures, objects, text, sparse arrays."""
COMPLEX = 8
CHUNK = 2**20
HEAD = 1024
"""Most bytes of an array's name and sizes."""


def variable(path: Path, name: str, limit: int) -> np.ndarray:
    """The array `name`; neither the file nor the array may have more than `limit` bytes."""
    content = memoryview(read_bounded(path, limit))
    order = {b"IM": "<", b"MI": ">"}.get(bytes(content[126:128]))
    if order is None or np.frombuffer(content[124:126], f"{order}u2")[0] != 0x0100:
        raise UserError(f"{path} is damaged or no MATLAB 5 file.")
    place = 128
    try:
        while len(content) - place >= 8:
            kind, size = np.frombuffer(content[place : place + 8], f"{order}u4").tolist()
            body = content[place + 8 : place + 8 + size]
            if kind in (MATRIX, COMPRESSED):
                found = _Element(body, order, packed=kind == COMPRESSED).array(name, limit)
                if found is not None:
                    return found
            place += 8 + size
    except EOFError:
        raise UserError(f"{path} is truncated: it ends before its data does.") from None
    except (ValueError, TypeError, OverflowError, zlib.error) as error:
        raise UserError(f"{path} is damaged or no MATLAB 5 file ({brief(error)}).") from None
    raise UserError(f"{path} has no variable {name!r}: it is truncated, or no SVHN file.")


class _Element:
    """One array of the file, read front to back."""

    def __init__(self, body: memoryview, order: str, packed: bool) -> None:
        self.rest, self.order = body, order
        self.unpacker = zlib.decompressobj() if packed else None
        if packed:
            self.take(8)  # the tag, which an array that is not compressed has outside

    def array(self, name: str, limit: int) -> np.ndarray | None:
        """The array if it has that name."""
        flags, sizes, found = self.numbers(HEAD), self.numbers(HEAD), self.numbers(HEAD)
        if found.tobytes() != name.encode():
            return None
        if flags.size != 2 or flags[0] & 0xFF not in CLASSES or flags[0] >> 8 & COMPLEX:
            raise ValueError(f"{name} is no array of numbers")
        shape = [int(size) for size in sizes]
        values = self.numbers(limit)
        if not shape or min(shape) < 1 or values.size != math.prod(shape):
            raise ValueError(f"{name} has {values.size:,} numbers for the sizes {brief(shape)}")
        return values.reshape(shape, order="F")

    def numbers(self, limit: int) -> np.ndarray:
        """The next numbers, of at most `limit` bytes."""
        kind, size = np.frombuffer(self.take(4), f"{self.order}u2").tolist(), 0
        low, high = kind if self.order == "<" else kind[::-1]
        tail = self.take(4)
        if high:  # up to four bytes stand in the place of the size
            data, size = tail[: min(high, 4)], high
        else:
            size = int(np.frombuffer(tail, f"{self.order}u4")[0])
            if size > limit:
                raise ValueError(f"it announces {size:,} bytes; at most {limit:,} are read")
            data = self.take(size)
            self.take(min(-size % 8, len(self.rest) if self.unpacker is None else 8))
        if low not in NUMBERS or len(data) != size:
            raise ValueError(f"its numbers have the unknown type {low}")
        return np.frombuffer(data, self.order + NUMBERS[low])

    def take(self, count: int) -> memoryview:
        """The next `count` bytes, which are unpacked piece by piece."""
        if self.unpacker is None:
            if count > len(self.rest):
                raise EOFError
            taken, self.rest = self.rest[:count], self.rest[count:]
            return taken
        filled, made = 0, np.empty(count, np.uint8)
        while filled < count:
            piece = self.unpacker.decompress(self.rest[:CHUNK], min(CHUNK, count - filled))
            self.rest = self.rest[len(self.rest[:CHUNK]) - len(self.unpacker.unconsumed_tail) :]
            if not piece and (self.unpacker.eof or not self.rest):
                raise EOFError
            made[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
            filled += len(piece)
        return made.data
