"""The contract of a benchmark: which data, split how, learned by which backbone and protocol."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

from clbench.declare import note_definition
from clbench.errors import UserError
from clbench.registry import import_class, select
from clbench.resolve import choose_network, protocol_of

if TYPE_CHECKING:
    from clbench.data import DataSet
    from clbench.stream import Source, Stream


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Benchmark:
    """Derive from this in a file of its own; annotated fields are parameters of the stream."""

    title: ClassVar[str] = ""
    version: ClassVar[int] = 1
    """Raise it when the stream changes: methods are then trained anew."""
    datasets: ClassVar[tuple[str, ...]] = ()
    """Names of the data sets that it needs."""
    protocol: ClassVar[dict[str, Any]] = {}
    """The values of its training protocol that differ from `clbench.protocol.Protocol`."""
    backbone: Any = "mlp"
    """The network of ordinary methods, as `--backbone` takes it, with paths relative to the file of
    the benchmark. Write it out as text, or make it a parameter."""
    scenario: Any = "task"
    """`task`, `class` or `domain` (`clbench.scenario`). Write it out as text, or make it a
    parameter with those that the tasks allow."""
    added: ClassVar[tuple[str, ...]] = ()
    """Parameters that came later: their defaults are left out of a run's spec, so that older runs
    keep their ids."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        note_definition(cls)
        dataclass(frozen=True, kw_only=True)(cls)

    def sources(self, data: "Mapping[str, DataSet]", seed: int) -> "list[Source]":
        """The tasks in order. Every random draw comes from the seed."""
        raise NotImplementedError(f"{type(self).__name__} has no sources(self, data, seed)")


def open_stream(
    benchmark: str,
    seed: int = 0,
    *,
    data_root: str | Path | None = None,
    accept_data: bool = False,
    device: str = "cpu",
    **protocol: Any,
) -> "Stream":
    """The stream of a benchmark, given as on the command line: `permuted-mnist[tasks=3]`.

    Values of the protocol given here, like `lr=0.1`, hold for every method; a method that is built
    on the stream chooses the others as on the command line.
    """
    from clbench import data
    from clbench.stream import Stream

    if type(seed) is not int or seed < 0:
        raise UserError(f"seed={seed!r} is not a whole number of at least 0.")
    (declaration, given), *more = select("benchmark", benchmark)
    if more:
        raise UserError(f"{benchmark!r} names several benchmarks: name one.")
    folder = data.data_root(str(data_root) if data_root is not None else None)
    names = declaration.meta.get("datasets", ())
    params = declaration.defaults | given
    made = import_class(declaration)(**params)
    under = protocol_of(declaration).changed(protocol)
    network, name = choose_network(None, declaration, params, under.backbone)
    return Stream(
        made.sources({name: data.load(name, folder, accept_data) for name in names}, seed),
        name=declaration.name,
        backbone=network,
        protocol=replace(under, backbone=name if under.backbone else ""),
        given=protocol,
        seed=seed,
        device=device,
        scenario=made.scenario,
    )
