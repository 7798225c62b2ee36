"""Reading pickles of numpy arrays without running code from them.

CIFAR and the miniImageNet cache are pickles, and a pickle can call any function that it names.
Here stand-ins replace the functions that pickled arrays name, numpy's own unpickling included (it
trusts flags and pointers), and any other name is an error. Arrays of Python 2 are read too.
"""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from clbench.errors import UserError


def unpickle(file: BinaryIO, where: Path | str) -> dict[str, Any]:
    """The dictionary in `file`, with text keys; arrays among its values are read-only."""
    try:
        content = _Unpickler(file, encoding="bytes").load()
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    except Exception as error:  # a broken pickle can raise anything
        raise UserError(f"{where} is damaged or not a pickle ({error}).") from None
    if not isinstance(content, dict):
        raise UserError(f"{where} holds a {type(content).__name__} where a dictionary is needed.")
    return {_text(key): _plain(value) for key, value in content.items()}


class _DType:
    """Stands in for numpy.dtype: numbers only, and the flags in the pickle are ignored."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        self.dtype = np.dtype(_text(code))
        if self.dtype.kind not in "biuf":
            raise UserError(f"holds an array of {self.dtype}, not of numbers")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype = np.dtype(f"{_text(state[1])}{self.dtype.kind}{self.dtype.itemsize}")


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


class _Latin1:
    """Stands in for _codecs.encode(text, 'latin1'): bytes in a Python 3 pickle of protocol 2."""

    def __new__(cls, text: str, encoding: str | bytes = "latin1") -> Any:
        if _text(encoding) != "latin1":
            raise UserError(f"names the codec {encoding!r}: refused")
        return text.encode("latin1")

    def __setstate__(self, state: object) -> None:
        raise UserError("changes a function: refused")


ADMITTED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _DType,
    ("_codecs", "encode"): _Latin1,
    ("collections", "OrderedDict"): dict,
    ("builtins", "range"): range,
}
for _core in ("numpy.core", "numpy._core"):
    ADMITTED[f"{_core}.multiarray", "_reconstruct"] = _Array
    ADMITTED[f"{_core}.multiarray", "scalar"] = _Scalar
    ADMITTED[f"{_core}.numeric", "_frombuffer"] = _Buffer


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return ADMITTED[module, name]
        except KeyError:
            raise UserError(
                f"this pickle calls {module}.{name}, which image data does not need: "
                "refused, because it could run any program"
            ) from None


def _text(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


def _plain(value: Any) -> Any:
    """`value` with arrays instead of stand-ins, in dictionaries and lists too."""
    if isinstance(value, dict):
        return {_text(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], _Array):
        return [_plain(item) for item in value]
    return value.value if isinstance(value, _Array) else value
