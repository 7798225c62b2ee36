"""The contract of a method: a frozen dataclass of hyper-parameters that builds a strategy."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

from clbench.declare import declared, note_definition
from clbench.errors import UserError
from clbench.labels import text
from clbench.protocol import Protocol
from clbench.resolve import resolve
from clbench.scenario import TASK

if TYPE_CHECKING:
    from avalanche.training.templates import SupervisedTemplate

    from clbench.stream import Stream


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Method:
    """Derive from this in a file of its own; annotated fields are hyper-parameters.

    A subclass sets the ClassVars below by plain assignment of a literal, because they are also
    read without importing the file.
    """

    title: ClassVar[str] = ""
    """The name in tables, like `EWC`."""
    family: ClassVar[str] = ""
    """`regularization`, `structure`, `memory` or `reference`."""
    paper: ClassVar[str] = ""
    """Authors, title, venue, year."""
    version: ClassVar[int] = 1
    """Raise it when the method gives other results than before: it is then trained anew."""
    zero_forgetting: ClassVar[bool] = False
    """Whether no past prediction can change, by construction; tables then print BWT as `Zero`."""
    zero_forgetting_if: ClassVar[dict[str, Any]] = {}
    """Parameter -> a value with which the same holds, whatever the other parameters are."""
    upper_bound: ClassVar[bool] = False
    """Whether the method sees the data of all tasks, so that others are measured against it."""
    protocol: ClassVar[dict[str, Any]] = {}
    """Values of the training protocol that the method's paper demands, on every benchmark."""
    fixed: ClassVar[dict[str, str]] = {}
    """Value in `protocol` that a user must not change -> why."""
    tuned: ClassVar[dict[str, dict[str, Any]]] = {}
    """Benchmark -> hyper-parameters and protocol values chosen for it on validation data."""
    presets: ClassVar[dict[str, dict[str, dict[str, Any]]]] = {}
    """Value of the field `preset` -> benchmark, or `*` for all -> values, like `tuned`."""
    search: ClassVar[dict[str, str]] = {}
    """Parameter -> the values that `clbench tune` may try: `log 1..1e6`, `0..1`, `int 1..50` or a
    list like `16, 32, none`. A value of the protocol may be `usual`: it is then not searched."""
    acts_with: ClassVar[dict[str, dict[str, Any]]] = {}
    """Parameter -> values of others without which it has no effect."""
    unseen: ClassVar[dict[str, str]] = {}
    """Parameter whose effect the small stream of `clbench check` cannot show -> why."""
    added: ClassVar[tuple[str, ...]] = ()
    """Parameters that came later: their defaults are left out of a run's spec, so that older runs
    keep their ids."""
    scenarios: ClassVar[tuple[str, ...]] = ()
    """The scenarios that the method can learn in; empty for all. A method that picks a part of its
    network by the task says `("task",)`."""
    needs_validation: ClassVar[bool] = False
    """Whether it cannot train without validation data (`--valid 0`)."""
    backbones: ClassVar[tuple[str, ...]] = ()
    """The networks that the method can learn with; empty for any."""
    own_network: ClassVar[bool] = False
    """Whether it brings a network of its own, so that `--backbone` has no effect and is refused."""
    lays_open: ClassVar[dict[str, dict[str, Any]]] = {}
    """Key in the diagnostics -> how a report shows it: `title`, `kind` (`number`, `layers`,
    `without` or `spaces`), and if wanted `unit` and `names`. A `number` may also have a `warning`,
    which is printed if it is `below` a value."""
    replay_size: ClassVar[str] = ""
    """The field that sets how many samples are kept for replay."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        note_definition(cls)
        dataclass(frozen=True, kw_only=True)(cls)
        cls.__init__ = _remembering(cls.__init__)  # type: ignore[method-assign]
        if "build" in vars(cls):
            cls.build = _resolving(cls.build)  # type: ignore[method-assign]

    def resolved(self, stream: "Stream") -> "tuple[Self, Stream]":
        """This method and the stream with the values that the command line would give them.

        What the caller gave to either stays as it is.
        """
        own = {key: getattr(stream.protocol, key) for key in stream.given}
        given = vars(self)["_given"]
        found = resolve(declared(type(self)), given, stream.name, stream.protocol, own)
        return type(self)(**found.params), stream.under(found.protocol)

    def refusal(self, stream: "Stream") -> str:
        """Why this method cannot run on the stream: what it declares first, then `refuses`."""
        facts = {key: getattr(self, key) for key in REFUSING}
        known = stream.backbone, stream.protocol, stream.scenario
        return declared_refusal(facts, *known) or self.refuses(stream)

    def refuses(self, stream: "Stream") -> str:
        """Why this method cannot run on the stream, as a sentence; empty if it can.

        Networks and fixed values of the protocol are declared instead.
        """
        return ""

    def build(self, stream: "Stream") -> "SupervisedTemplate[Any, Any, Any]":
        """An Avalanche strategy, ready to learn the stream's tasks in order: `clbench.Strategy`,
        or any other, which then trains by Avalanche's own loop.

        A subclass gets its values and the stream's protocol resolved, as by `resolved`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no build(self, stream)")


REFUSING = (
    "backbones", "own_network", "fixed", "protocol", "scenarios", "needs_validation"
)  # fmt: skip
"""The facts by which a method declares what it cannot run on."""


def declared_refusal(
    facts: Mapping[str, Any], backbone: str, protocol: Protocol, scenario: str
) -> str:
    """Why a method cannot run, as far as it declares that; needs no import of the method.
    `facts` are its `REFUSING` ones, like `Declaration.meta`."""
    if (can := facts.get("scenarios", ())) and scenario not in can:
        why = f": it picks a part of its network by the task, and in {scenario} no test tells it"
        listed = " and ".join(can)
        return f"it learns in the scenario {listed} only{why if can == (TASK,) else ''}."
    if facts.get("needs_validation") and not protocol.valid:
        return "it needs validation data, and --valid 0 leaves none."
    backbones = facts.get("backbones", ())
    if backbones and backbone not in backbones:
        return f"it can learn with {' or '.join(backbones)}, but not with {backbone}."
    if facts.get("own_network") and protocol.backbone:
        return f"it has a network of its own, so {protocol.backbone} would not be used."
    for key, why in facts.get("fixed", {}).items():
        value, needed = getattr(protocol, key), facts["protocol"][key]
        if value != needed:
            return f"{key}={text(value)} must stay at {text(needed)}: {why}."
    return ""


def _remembering(init: Callable[..., None]) -> Callable[..., None]:
    """`__init__` that remembers which values the caller gave: no table overrides those."""

    @functools.wraps(init)
    def __init__(self: Method, **values: Any) -> None:
        init(self, **values)
        object.__setattr__(self, "_given", values)

    return __init__


def _resolving(build: Callable[..., Any]) -> Callable[..., Any]:
    """`build` for the resolved method and stream; a UserError if the method refuses the stream."""

    @functools.wraps(build)
    def resolving(self: Method, stream: "Stream") -> Any:
        method, own = self.resolved(stream)
        if reason := method.refusal(own):
            raise UserError(f"{type(self).__name__} cannot run on {stream.name}: {reason}")
        return build(method, own)

    return resolving
