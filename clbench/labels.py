"""Names of runs as a user types them: `ewc[strength=500]`, and `epochs=5,device=cuda`."""

from collections.abc import Mapping
from typing import Any


def label(name: str, values: Mapping[str, Any]) -> str:
    """A method or benchmark with the values that are not its defaults."""
    return f"{name}[{_pairs(values)}]" if values else name


def protocol_label(values: Mapping[str, Any], threads: int, device: str) -> str:
    """The protocol and machine settings that differ from the defaults; empty if none do."""
    machine = {"threads": threads} if threads != 1 else {}
    return _pairs({**values, **machine, **({"device": device} if device != "cpu" else {})})


def _pairs(values: Mapping[str, Any]) -> str:
    return ",".join(f"{key}={text(value)}" for key, value in values.items())


def text(value: Any) -> str:
    """A value as the command line takes it."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)
