"""The contract of a benchmark: which data, split how, learned by which backbone and protocol."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

if TYPE_CHECKING:
    from clbench.data import DataSet
    from clbench.stream import Source


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Benchmark:
    """Derive from this in a file of its own; annotated fields are parameters of the stream."""

    title: ClassVar[str] = ""
    version: ClassVar[int] = 1
    """Raised when the stream changes: old records become stale."""
    datasets: ClassVar[tuple[str, ...]] = ()
    """Names of the data sets it needs."""
    protocol: ClassVar[dict[str, Any]] = {}
    """Where its training protocol differs from `clbench.spec.Protocol`."""
    backbone: Any = "mlp"
    """The network of ordinary methods. A benchmark may make it a parameter."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(frozen=True, kw_only=True)(cls)

    def sources(self, data: "Mapping[str, DataSet]", seed: int) -> "list[Source]":
        """The tasks in order. Whatever is drawn is drawn from the seed."""
        raise NotImplementedError(f"{type(self).__name__} has no sources(self, data, seed)")
