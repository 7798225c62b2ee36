"""A small record for tests that need one on disk."""

import hashlib
from typing import Any

from msgspec.structs import replace

from clbench.limits import is_id
from clbench.record import DataUse, Part, Record, Spec


def an_id(name: str) -> str:
    """An id that a name stands for; an id itself is itself."""
    return name if is_id(name) else hashlib.sha256(name.encode()).hexdigest()[:12]


def record(run_id: str, **changes: Any) -> Record:
    part = Part(name="p", version=1)
    spec = Spec(benchmark=part, method=part, protocol={}, seed=0, threads=1, device="cpu")
    data = {"mnist": DataUse(sha256="ab")}
    made = Record(
        id=an_id(run_id), spec=spec, status="done", tasks=1, done=1, R=[[50.0]], data=data
    )
    return replace(made, **changes)
