"""RunSpec: all that determines a run, its canonical form and its id.

Two runs with equal specs give the same accuracy matrix, bit for bit, on the same machine. So
`threads` and `device` belong to a spec: the order of a floating-point sum depends on them.
"""

import functools
import hashlib
import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import msgspec

from clbench.declare import (
    Declaration,
    Field,
    Fraction,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    fields_of,
)
from clbench.errors import UserError
from clbench.labels import label, protocol_label
from clbench.record import Differs, Spec


@dataclass(frozen=True)
class Protocol:
    """How every method is trained on a benchmark, unless the method's paper demands otherwise."""

    lr: PositiveFloat = 0.05
    """learning rate of SGD at the start of every task"""
    momentum: Fraction = 0.0
    """momentum of SGD"""
    weight_decay: NonNegativeFloat = 0.0
    """weight decay of SGD"""
    batch_size: PositiveInt = 64
    """samples in a batch"""
    epochs: PositiveInt = 200
    """cap on the epochs of a task"""
    patience: PositiveInt = 5
    """epochs without a better validation loss before the learning rate drops"""
    lr_factor: PositiveFloat = 3.0
    """what the learning rate is divided by at a drop"""
    lr_min: NonNegativeFloat = 1e-4
    """training of a task stops when the learning rate falls below this"""
    valid: Fraction = 0.15
    """share of a task's training data held out for validation"""
    autocast: bool = False
    """the network computes in bfloat16 where torch holds that to be safe; passes that a method
    makes beside the training step, like those of a distillation or a replay, do not"""
    compile: bool = False
    """the network goes through torch.compile"""
    torch_dropout: bool = False
    """masks of dropout are torch's own, which a CPU draws slowly"""


PROTOCOL_FIELDS: dict[str, Field] = fields_of(Path(__file__), "Protocol")
PROTOCOL_DEFAULTS: dict[str, Any] = asdict(Protocol())


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

    def canonical(self) -> dict[str, Any]:
        """The spec as plain JSON values, as it stands in a record."""
        return {
            "benchmark": {"name": self.benchmark, "params": dict(self.benchmark_params)},
            "method": {"name": self.method, "params": dict(self.method_params)},
            # what is off is left out: an option that comes later changes no id of before
            "protocol": {k: v for k, v in vars(self.protocol).items() if v is not False},
            "seed": self.seed,
            "threads": self.threads,
            "device": self.device,
        }

    @functools.cached_property
    def id(self) -> str:
        """Twelve hex digits of the SHA-256 of the canonical form."""
        text = json.dumps(self.canonical(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Cell:
    """A spec together with the declarations that it came from and the labels a user reads."""

    spec: RunSpec
    method: Declaration
    benchmark: Declaration
    differs: Differs
    """What is not as usual: labels are made of it."""

    @functools.cached_property
    def labels(self) -> dict[str, str]:
        """The names that a user reads."""
        return {
            "benchmark": label(self.spec.benchmark, self.differs.benchmark),
            "method": label(self.spec.method, self.differs.method),
            "protocol": protocol_label(self.differs.protocol, self.spec.threads, self.spec.device),
        }

    @property
    def id(self) -> str:
        return self.spec.id

    def versioned(self) -> Spec:
        """The spec with the versions of the method and the benchmark, as records carry it.

        A user's file promises no version, so its content stands in for one.
        """
        spec = self.spec.canonical()
        for kind, declaration in (("method", self.method), ("benchmark", self.benchmark)):
            spec[kind]["version"] = declaration.version
            if not declaration.module:
                content = declaration.path.read_bytes()
                spec[kind]["source"] = hashlib.sha256(content).hexdigest()
        return msgspec.convert(spec, Spec)

    def __str__(self) -> str:
        extra = f" ({self.labels['protocol']})" if self.labels["protocol"] else ""
        return f"{self.labels['benchmark']} {self.labels['method']} seed {self.spec.seed}{extra}"


def make_cell(
    method: Declaration,
    method_given: dict[str, Any],
    benchmark: Declaration,
    benchmark_given: dict[str, Any],
    seed: int,
    overrides: dict[str, Any],
    threads: int = 1,
    device: str = "cpu",
) -> Cell:
    """Resolve defaults, tuned values and the user's values into one spec.

    Parameters of a method: its defaults, then what its file tunes for the benchmark (`tuned`) and
    for the chosen preset (`presets`), then the user's. The protocol: the benchmark's, then the
    method's own demands, which may stand in the same tables, then the user's flags.
    """
    bench_params = benchmark.defaults | benchmark_given
    preset = method_given.get("preset", method.defaults.get("preset"))
    by_preset = method.meta.get("presets", {}).get(preset, {})
    tuned = {
        **method.meta.get("tuned", {}).get(benchmark.name, {}),
        **by_preset.get("*", {}),
        **by_preset.get(benchmark.name, {}),
    }
    demands = dict(method.meta.get("protocol", {})) | {
        key: tuned.pop(key) for key in list(tuned) if key in PROTOCOL_FIELDS
    }
    for key, value in tuned.items():
        if key not in method.fields:
            raise UserError(
                f"{method.path}: a value for {benchmark.name} is of an unknown {key!r}."
            )
        tuned[key] = method.fields[key].check(value, str(method.path))
    default_params = method.defaults | tuned
    params = default_params | method_given
    protocol = _protocol(_protocol(Protocol(), benchmark.meta.get("protocol", {})), demands)
    final = _protocol(protocol, overrides)
    spec = RunSpec(benchmark.name, method.name, seed, bench_params, params, final, threads, device)
    differs = Differs(
        benchmark=_changed(bench_params, benchmark.defaults),
        method=_changed(params, default_params),
        protocol=_changed(asdict(final), asdict(protocol)),
    )
    return Cell(spec, method, benchmark, differs)


def _protocol(base: Protocol, changes: dict[str, Any]) -> Protocol:
    known = {f.name for f in fields(Protocol)}
    if strange := set(changes) - known:
        raise UserError(f"The protocol has no {', '.join(sorted(strange))}.")
    return replace(base, **{k: PROTOCOL_FIELDS[k].check(v, "protocol") for k, v in changes.items()})


def _changed(values: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value != usual[key]}
