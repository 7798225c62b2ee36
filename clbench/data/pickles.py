"""Reading pickles of numpy arrays without running code from them.

CIFAR and the miniImageNet cache are pickles, and a pickle can call any function that it names.
Here stand-ins replace the functions that pickled arrays name, numpy's own unpickling included (it
trusts flags and pointers), and any other name is an error. Arrays of Python 2 are read too.
Python's own unpickler is used and not that in C, which takes the memory that a few bytes announce.
"""

import os
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np

from clbench.errors import UserError
from clbench.files import brief

STEPS = 2_000_000
"""Most steps of a pickle: 60,000 images with 33 each. A step takes up to 0.2 kB."""
KEYS = 10_000
"""Most entries of a dictionary; a class of miniImageNet has one."""


def unpickle(file: BinaryIO, where: Path | str) -> dict[str, Any]:
    """The dictionary in `file`, with text keys; arrays among its values are read-only."""
    unpickler = Unpickler(file)
    try:
        content = unpickler.load()
        if not isinstance(content, dict):
            kind = type(content).__name__
            raise UserError(f"holds a {kind} where a dictionary is needed")
        return dict(_plain(content, {}))
    except UserError as error:
        raise UserError(f"{where}: {brief(error)}.") from None
    except Exception as error:  # a broken pickle can raise anything
        raise UserError(f"{where} is damaged or not a pickle ({brief(error)}).") from None
    finally:
        unpickler.__dict__.clear()  # it refers to itself, and would keep all it read for a while


class _DType:
    """Stands in for numpy.dtype: numbers only, and the flags in the pickle are ignored."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        self.dtype = np.dtype(_text(code))
        if self.dtype.kind not in "biuf":
            raise UserError(f"holds an array of {self.dtype}, not of numbers")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype = self.dtype.newbyteorder(_order(state[1]))


class _Array:
    """Stands in for an array under construction; `value` is a view of the pickle's bytes."""

    value: np.ndarray

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, shape, dtype, fortran, raw = state
        flat = np.frombuffer(raw, dtype=dtype.dtype)
        self.value = flat.reshape(shape, order="F" if fortran else "C")


class _Buffer(_Array):
    """An array of pickle protocol 5, made by one call."""

    def __init__(self, raw: bytes, dtype: _DType, shape: tuple[int, ...], order: str) -> None:
        self.__setstate__((1, shape, dtype, order == "F", raw))


class _Scalar(_Array):
    """A numpy number."""

    def __init__(self, dtype: _DType, raw: bytes) -> None:
        self.value = np.frombuffer(raw, dtype=dtype.dtype)[0]


ADMITTED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _DType,
}
for _core in ("numpy.core", "numpy._core"):
    ADMITTED[f"{_core}.multiarray", "_reconstruct"] = _Array
    ADMITTED[f"{_core}.multiarray", "scalar"] = _Scalar
    ADMITTED[f"{_core}.numeric", "_frombuffer"] = _Buffer

OPCODES = (
    "PROTO FRAME STOP MARK POP POP_MARK NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG "
    "LONG1 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING UNICODE SHORT_BINUNICODE BINUNICODE "
    "BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8 EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 "
    "TUPLE3 EMPTY_LIST LIST APPEND APPENDS EMPTY_DICT DICT SETITEM SETITEMS GLOBAL STACK_GLOBAL "
    "REDUCE BUILD PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET"
)
"""What image data needs: no sets, no objects, nothing from outside of the pickle."""


if TYPE_CHECKING:
    Base = Any
else:
    Base = pickle._Unpickler


class Unpickler(Base):
    """Makes plain values and the stand-ins, in steps that are counted."""

    admitted = ADMITTED
    opcodes = OPCODES

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(_Whole(file), encoding="bytes")
        self.left, self.encoded = STEPS, 0
        self.dispatch = _Steps(self)

    def count(self, steps: int = 1) -> None:
        """Use up some of the steps."""
        self.left -= steps
        if self.left < 0:
            raise UserError(f"it has more than {STEPS:,} steps, more than image data needs")

    def find_class(self, module: str, name: str) -> Any:
        own = {
            ("_codecs", "encode"): self._latin1,
            ("collections", "OrderedDict"): self._ordered,
            ("builtins", "range"): self._range,
        }
        try:
            return own.get((module, name)) or self.admitted[module, name]
        except KeyError:
            raise UserError(
                f"this pickle calls {module}.{name}, which image data does not need: "
                "refused, because it could run any program"
            ) from None

    def _latin1(self, text: str, encoding: str | bytes = "latin1") -> bytes:
        """_codecs.encode(text, 'latin1'): bytes in a Python 3 pickle of protocol 2."""
        if _text(encoding) != "latin1":
            raise UserError("names another codec than latin1: refused")
        self.encoded += len(text)
        if self.encoded > self._file_read.__self__.size:
            raise UserError("repeats its texts, which image data does not need: refused")
        return text.encode("latin1")

    def _ordered(self, pairs: Iterable[Any] = ()) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key, value in pairs:
            self.count()
            self.store(made, key, value)
        return made

    def _range(self, *numbers: int) -> list[int]:
        self.count(len(range(*numbers)))
        return list(range(*numbers))

    def _key_values(self, target: dict[Any, Any], items: list[Any]) -> None:
        for key, value in zip(items[::2], items[1::2], strict=True):
            self.store(target, key, value)

    def load_dict(self) -> None:
        items = self.pop_mark()
        made: dict[Any, Any] = {}
        self._key_values(made, items)
        self.append(made)

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.store(self.stack[-1], key, value)

    def load_setitems(self) -> None:
        items = self.pop_mark()
        self._key_values(self.stack[-1], items)

    def load_appends(self) -> None:
        items = self.pop_mark()
        _list(self.stack[-1]).extend(items)

    def load_append(self) -> None:
        item = self.stack.pop()
        _list(self.stack[-1]).append(item)

    def load_build(self) -> None:
        state = self.stack.pop()
        if not isinstance(self.stack[-1], _Array | _DType):
            raise UserError("changes a function: refused")
        self.stack[-1].__setstate__(state)

    def store(self, target: Any, key: Any, value: Any) -> None:
        """Fill a dictionary whose keys cannot be chosen so that they are slow to look up."""
        if type(target) is not dict or len(target) >= KEYS:
            raise UserError(f"fills no dictionary, or one of more than {KEYS:,} keys: refused")
        if not self.is_key(key):
            raise UserError("has a key that is no text and no small number: refused")
        target[key] = value

    def is_key(self, key: Any) -> bool:
        return type(key) in (str, bytes) or (type(key) is int and abs(key) < 2**60)

    def load_bytearray8(self) -> None:
        self.append(self.read(int.from_bytes(self.read(8), "little")))


class _Steps(dict[int, Callable[[Unpickler], None]]):
    """The functions of the admitted opcodes; each look-up is counted."""

    def __init__(self, unpickler: Unpickler) -> None:
        own = {
            getattr(pickle, name)[0]: getattr(type(unpickler), f"load_{name.lower()}", None)
            for name in unpickler.opcodes.split()
        }
        super().__init__({code: function or Base.dispatch[code] for code, function in own.items()})
        self.count = unpickler.count

    def __getitem__(self, code: int) -> Callable[[Unpickler], None]:
        self.count()
        if code not in self:
            raise UserError(
                f"has the opcode {chr(code)!r}, which image data does not need: refused"
            )
        return super().__getitem__(code)


class _Whole:
    """A file that gives what is asked for or ends, and never takes memory for what it lacks."""

    def __init__(self, file: BinaryIO) -> None:
        self.size = file.seek(0, os.SEEK_END)
        file.seek(0)
        self.file, self.readline = file, file.readline

    def read(self, count: int) -> bytes:
        if count > self.size - self.file.tell():
            raise EOFError("it ends before its data does")
        return self.file.read(count)


def _order(mark: Any) -> Literal["<", ">", "|"]:
    """The order of bytes; an array of single bytes has none."""
    orders: dict[str, Literal["<", ">", "|"]] = {"<": "<", ">": ">", "|": "|"}
    return orders[_text(mark)]


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise UserError("appends to something that is no list: refused")
    return value


def _text(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


def _plain(value: Any, seen: dict[int, Any]) -> Any:
    """`value` with arrays instead of stand-ins, in dictionaries and lists too."""
    if isinstance(value, _Array):
        return value.value
    if not isinstance(value, dict | list):
        return value
    if id(value) not in seen:  # each once, because a pickle can hold one a million times
        if isinstance(value, dict):
            made = seen[id(value)] = {}
            made.update((_text(key), _plain(item, seen)) for key, item in value.items())
        elif value and isinstance(value[0], _Array):
            seen[id(value)] = [i.value if isinstance(i, _Array) else i for i in value]
        else:
            return value
    return seen[id(value)]
