"""What the runner asks of a strategy, answered alike for clbench's and for any of Avalanche's."""

import contextlib
from typing import Any

import torch
from avalanche.models.utils import avalanche_model_adaptation
from torch import Tensor, nn

from clbench.memory import Memory, of_model
from clbench.scenario import CLASS
from clbench.stream import Stream
from clbench.training.kept import Kept, find, memory_of, parts
from clbench.training.outside import compare, outside, packages
from clbench.training.state import Node, NotResumable
from clbench.training.tally import Tally


class Answers:
    """Accuracies, memory and diagnostics of a strategy."""

    stream: Stream
    model: nn.Module
    plugins: list[Any]
    tally: Tally
    """The answers of the last test."""
    _packages: set[str] | None = None
    _outside: Node | None = None
    """What was outside the strategy before it trained."""

    @property
    def asked(self) -> Any:
        """The strategy."""
        return self

    def accuracy(self, k: int) -> float:
        """Test accuracy on task k, in percent."""
        return self._measure([self.stream.avalanche.test_stream[k]]).accuracy

    def valid_accuracy(self, k: int) -> float:
        """Accuracy on the validation data of task k, in percent."""
        return self._measure([self.stream.avalanche.valid_stream[k]]).accuracy

    def memory(self) -> Memory:
        """Bytes of the network, and of each plugin what its `memory()` says, else what is found."""
        kept = [plugin.memory() for plugin in self.plugins if hasattr(plugin, "memory")]
        found = memory_of(self.found())
        return sum(kept, start=Memory(architecture=of_model(self.model)) + found)

    def found(self) -> list[Kept]:
        """What is kept by what does not count its memory itself."""
        return find(self.uncounted(), self.model, self.stream)

    def uncounted(self) -> dict[str, Any]:
        """The plugins without a `memory()` and the strategy's own attributes, by name."""
        return {n: part for n, part in parts(self.asked).items() if not hasattr(part, "memory")}

    def diagnostics(self) -> dict[str, Any]:
        """The `diagnostics(strategy)` of all plugins after a task, for the record."""
        found: dict[str, Any] = {}
        for plugin in self.plugins:
            if hasattr(plugin, "diagnostics"):
                found |= plugin.diagnostics(self.asked)
        return found

    def begin(self, method: type) -> None:
        """Note what is outside the strategy, so that a change is known while it trains."""
        self._packages = packages(self.asked, method)
        with contextlib.suppress(NotResumable):  # the first state says why
            self._outside = outside(self.asked, self.stream, self._packages)

    def _outside_now(self) -> Node:
        """What is outside the strategy; a NotResumable if training has changed it."""
        where = packages(self.asked) if self._packages is None else self._packages
        now = outside(self.asked, self.stream, where)
        if self._outside is not None:
            compare(now, self._outside)
        return now

    def _adapt_network(self, learned: int) -> None:
        """Give a network that grows (Avalanche's `MultiHeadClassifier`) what it has in a run that
        has learned so many tasks, and tested all of them, or in the scenario `class` those."""
        tested = self.stream.avalanche.test_stream
        for experience in tested[:learned] if self.stream.scenario == CLASS else tested:
            avalanche_model_adaptation(self.model, experience)

    def _load_network(self, tensors: dict[str, Tensor]) -> None:
        """Load the weights, and buffers that come with the first task."""
        for name, tensor in tensors.items():
            place, _, leaf = name.rpartition(".")
            part = self.model.get_submodule(place)
            if part._buffers.get(leaf, tensor) is None:
                part.register_buffer(leaf, torch.empty_like(tensor))
        self.model.load_state_dict(tensors)

    def _measure(self, experiences: list[Any]) -> Tally:
        """The answers on some experiences, kept in `tally` too."""
        raise NotImplementedError
