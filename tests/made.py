"""A small record for tests that need one on disk."""

from typing import Any

from msgspec.structs import replace

from clbench.record import DataUse, Part, Record, Spec


def record(run_id: str, **changes: Any) -> Record:
    part = Part(name="p", version=1)
    spec = Spec(benchmark=part, method=part, protocol={}, seed=0, threads=1, device="cpu")
    data = {"mnist": DataUse(sha256="ab")}
    made = Record(id=run_id, spec=spec, status="done", tasks=1, done=1, R=[[50.0]], data=data)
    return replace(made, **changes)
