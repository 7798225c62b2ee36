"""RunSpec: everything that determines a run, its canonical form and its id.

Two runs with equal specs give the same accuracy matrix, bit for bit, on the same machine. So
`threads` and `device` belong to a spec: the order of a floating-point sum depends on them.
"""

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from clbench.backbone import MLP, Network
from clbench.declare import Declaration
from clbench.labels import label, protocol_label
from clbench.protocol import Protocol
from clbench.record import Differs, Spec
from clbench.scenario import TASK


@dataclass(frozen=True)
class RunSpec:
    """One method on one benchmark with one seed."""

    benchmark: str
    method: str
    seed: int
    benchmark_params: dict[str, Any] = field(default_factory=dict)
    method_params: dict[str, Any] = field(default_factory=dict)
    protocol: Protocol = field(default_factory=Protocol)
    threads: int = 1
    device: str = "cpu"
    benchmark_code: str = ""
    """Digest of its code; empty for clbench's own."""
    method_code: str = ""
    trial: int = 0
    """Number of first tasks that a trial of a search learns, tested on validation data; 0: no
    trial."""

    def canonical(self) -> dict[str, Any]:
        """The spec as plain JSON values, as it stands in a record."""
        return {
            "benchmark": _part(self.benchmark, self.benchmark_params, self.benchmark_code),
            "method": _part(self.method, self.method_params, self.method_code),
            "protocol": self.protocol.recorded(),
            "seed": self.seed,
            "threads": self.threads,
            "device": self.device,
            **({"trial": self.trial} if self.trial else {}),
        }

    @functools.cached_property
    def id(self) -> str:
        """Twelve hex digits of the SHA-256 of the canonical form."""
        text = json.dumps(self.canonical(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def _part(name: str, params: dict[str, Any], digest: str) -> dict[str, Any]:
    part = {"name": name, "params": dict(params)}
    return part | {"source": digest} if digest else part


@dataclass(frozen=True)
class Cell:
    """A spec with its declarations and the labels that a user reads."""

    spec: RunSpec
    method: Declaration
    benchmark: Declaration
    differs: Differs
    """The values that are not the defaults: labels are made of them."""
    network: Network = MLP
    """What ordinary methods train."""
    until: int | None = None
    """The task after which the run pauses; a later call goes on from there."""
    tuned: str = ""
    """How its values were tuned, in words; empty for the values that clbench declares."""

    @functools.cached_property
    def labels(self) -> dict[str, str]:
        """The names that a user reads."""
        spec, differs = self.spec, self.differs
        return {
            "benchmark": label(spec.benchmark, differs.benchmark),
            "method": label(spec.method, differs.method),
            "protocol": protocol_label(differs.protocol, spec.threads, spec.device),
        }

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def scenario(self) -> str:
        """`task`, `class` or `domain`."""
        return scenario_of(self.benchmark, self.spec.benchmark_params)

    def versioned(self) -> Spec:
        """The spec with the versions of the method and the benchmark, as records carry it."""
        spec = self.spec.canonical()
        for kind, declaration in (("method", self.method), ("benchmark", self.benchmark)):
            spec[kind]["version"] = declaration.version
        return msgspec.convert(spec, Spec)

    def __str__(self) -> str:
        extra = f" ({self.labels['protocol']})" if self.labels["protocol"] else ""
        return f"{self.labels['benchmark']} {self.labels['method']} seed {self.spec.seed}{extra}"


def scenario_of(benchmark: Declaration, given: Mapping[str, Any]) -> str:
    """The scenario that a benchmark declares, or has as a parameter."""
    declared = benchmark.defaults | benchmark.meta | dict(given)
    return str(declared.get("scenario", TASK))
