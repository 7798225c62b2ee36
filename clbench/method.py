"""The contract of a method: a frozen dataclass of hyper-parameters that builds a strategy."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

if TYPE_CHECKING:
    from clbench.stream import Stream
    from clbench.training import Strategy


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Method:
    """Derive from this in a file of its own; annotated fields are hyper-parameters.

    What stands here as ClassVar is declared by plain assignment in the subclass, as a literal,
    because it is also read without importing the file.
    """

    title: ClassVar[str] = ""
    """The name in tables, like `EWC`."""
    family: ClassVar[str] = ""
    """`regularization`, `structure`, `memory` or `reference`."""
    paper: ClassVar[str] = ""
    """Authors, title, venue, year."""
    version: ClassVar[int] = 1
    """Raised when the method gives other results than before: old records become stale."""
    zero_forgetting: ClassVar[bool] = False
    """Whether no past prediction can change, by construction; tables then print BWT as `Zero`."""
    protocol: ClassVar[dict[str, Any]] = {}
    """What the method's paper demands of the training protocol, on every benchmark."""
    tuned: ClassVar[dict[str, dict[str, Any]]] = {}
    """Benchmark -> hyper-parameters and protocol values chosen for it on validation data."""
    presets: ClassVar[dict[str, dict[str, dict[str, Any]]]] = {}
    """Value of the field `preset` -> benchmark, or `*` for all -> values, like `tuned`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(frozen=True, kw_only=True)(cls)

    def refuses(self, stream: "Stream") -> str:
        """Why this method cannot run on the stream, in words; empty if it can."""
        return ""

    def build(self, stream: "Stream") -> "Strategy":
        """An Avalanche strategy, ready to learn the stream's tasks in order."""
        raise NotImplementedError(f"{type(self).__name__} has no build(self, stream)")
