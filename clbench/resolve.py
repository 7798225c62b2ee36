"""Resolves defaults, presets, tuned values and the user's values into one spec.

The command line and `Method.build` both resolve here, so a method built in Python trains like the
same spec on the command line.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from clbench.backbone import Network, find, of_benchmark
from clbench.declare import Declaration
from clbench.errors import UserError
from clbench.protocol import PROTOCOL_FIELDS, Protocol
from clbench.record import Differs
from clbench.spec import Cell, RunSpec


@dataclass(frozen=True)
class Tuned:
    """Values that a search has found for a method on a benchmark."""

    values: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the method and values of the protocol."""
    words: str = ""
    """How they were found."""


NOT_TUNED = Tuned()


@dataclass(frozen=True)
class Resolved:
    """The values that a method trains with, and the values without the user's changes."""

    params: dict[str, Any]
    usual_params: dict[str, Any]
    protocol: Protocol
    usual_protocol: Protocol


def resolve(
    method: Declaration,
    given: Mapping[str, Any],
    benchmark: str,
    protocol: Protocol,
    overrides: Mapping[str, Any],
    found: Mapping[str, Any] = NOT_TUNED.values,
) -> Resolved:
    """The values of a method on a benchmark.

    Parameters: the method's defaults, then its values for the benchmark (`tuned`) and for the
    chosen preset (`presets`), then those that a search has `found`, then the given ones. Protocol:
    the benchmark's, then the method's demands, which may stand in the same tables, then the
    overrides.
    """
    given = method.checked(given)
    preset = given.get("preset", method.defaults.get("preset"))
    by_preset = method.meta.get("presets", {}).get(preset, {})
    tuned = {
        **method.meta.get("tuned", {}).get(benchmark, {}),
        **by_preset.get("*", {}),
        **by_preset.get(benchmark, {}),
        **found,
    }
    demands = dict(method.meta.get("protocol", {})) | {
        key: tuned.pop(key) for key in list(tuned) if key in PROTOCOL_FIELDS
    }
    for key, value in tuned.items():
        if key not in method.fields:
            raise UserError(
                f"{method.path}: the values for {benchmark} name {key!r}, which is no parameter."
            )
        tuned[key] = method.fields[key].check(value, str(method.path))
    usual_params = method.defaults | tuned
    usual = protocol.changed(demands, str(method.path))
    settled = usual.changed(overrides).settled()
    return Resolved(usual_params | given, usual_params, settled, usual)


def make_cell(
    method: Declaration,
    method_given: dict[str, Any],
    benchmark: Declaration,
    benchmark_given: dict[str, Any],
    seed: int,
    overrides: dict[str, Any],
    threads: int = 1,
    device: str = "cpu",
    tuned: Tuned = NOT_TUNED,
) -> Cell:
    """One method on one benchmark with one seed, with all values resolved."""
    benchmark_given, overrides = _backbone_as_parameter(benchmark, benchmark_given, overrides)
    params = benchmark.defaults | benchmark_given
    usual = protocol_of(benchmark)
    found = resolve(method, method_given, benchmark.name, usual, overrides, tuned.values)
    network, name = choose_network(method, benchmark, params, found.protocol.backbone)
    values = (
        _recorded(benchmark, params, benchmark.defaults),
        _recorded(method, found.params, found.usual_params),
        replace(found.protocol, backbone=name),
    )
    machine, digests = (threads, device), (benchmark.digest, method.digest)
    spec = RunSpec(benchmark.name, method.name, seed, *values, *machine, *digests)
    changed = _changed(asdict(found.protocol), asdict(found.usual_protocol))
    if "backbone" in changed:
        changed = {key: value for key, value in changed.items() if key != "backbone"}
        changed |= {"backbone": name} if name else {}
    differs = Differs(
        benchmark=_changed(params, benchmark.defaults),
        method=_changed(found.params, found.usual_params),
        protocol={key: value for key, value in changed.items() if key not in found.protocol.unused},
    )
    return Cell(spec, method, benchmark, differs, network, tuned=tuned.words)


def _recorded(
    declaration: Declaration, params: dict[str, Any], usual: dict[str, Any]
) -> dict[str, Any]:
    """The parameters that stand in a spec: without those `added` later that nobody has set."""
    added, default = declaration.meta.get("added", ()), declaration.defaults
    return {
        key: value
        for key, value in params.items()
        if key not in added or not value == default[key] == usual[key]
    }


def choose_network(
    method: Declaration | None, benchmark: Declaration, params: Mapping[str, Any], given: str
) -> tuple[Network, str]:
    """What ordinary methods train: the backbone that was `given`, or else the benchmark's own; and
    its name as the protocol has it. That is empty if the benchmark's declaration says as much: a
    backbone with code or weights of a user's own is always named, because they may change."""
    own = of_benchmark(benchmark, params)
    network = find(given) if given else own
    if network != own:
        return network, network.name
    unused = method is not None and method.meta.get("own_network", False)
    return own, own.name if own.digest and not unused else ""


def _backbone_as_parameter(
    benchmark: Declaration, given: dict[str, Any], overrides: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of a benchmark and the overrides, where `--backbone resnet18` is the value of the
    benchmark's own parameter if it has one with this choice: the same run has one id."""
    field, text = benchmark.fields.get("backbone"), overrides.get("backbone")
    if field is None or not text:
        return given, overrides
    if given.get("backbone", text) != text:
        raise UserError(
            f"{benchmark.name}[backbone={given['backbone']}] and --backbone {text} name two "
            "networks: give one."
        )
    if text not in field.choices:
        return given, overrides
    rest = {key: value for key, value in overrides.items() if key != "backbone"}
    return given | {"backbone": text}, rest


def protocol_of(benchmark: Declaration) -> Protocol:
    """The benchmark's own protocol."""
    return Protocol().changed(benchmark.meta.get("protocol", {}), str(benchmark.path))


def _changed(values: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value != usual[key]}
