"""What a search may try: the values that a method declares, and those of the protocol.

    search = {"strength": "log 1..1e6", "per_class": "int 1..50", "preset": "a, b"}

`log` spaces values evenly by their logarithm, `int` takes whole numbers. The learning rate, the
momentum and the weight decay are searched for every method alike, unless the method says that one
of them must stay (`fixed`) or has no effect on it (`"momentum": "usual"`).
"""

import hashlib
import math
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clbench.declare import Declaration, Field
from clbench.errors import UserError, unknown
from clbench.labels import text
from clbench.protocol import PROTOCOL_FIELDS, Protocol

MOST = 5
"""Dimensions of a space: a few dozen trials say nothing about more."""
PROTOCOL = ("lr", "momentum", "weight_decay")
"""The values of the protocol that are searched for every method."""
AROUND = 10.0
"""The learning rate is searched from a tenth to ten times the benchmark's own."""
LEAST, HIGHEST = 1e-4, 1e-2
"""The same for Adam and AdamW, as the rates of benchmarks are for SGD."""
MOMENTA = "0, 0.9"
DECAYS = "0, 0.0001, 0.001, 0.003"
USUAL = "usual"
_RANGE = re.compile(r"(log )?(int )?(\S+)\.\.(\S+)")


@dataclass(frozen=True)
class Dimension:
    """One value that is searched."""

    field: Field
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    choices: tuple[Any, ...] = ()
    """If there are any, `low` and `high` say nothing."""

    @property
    def name(self) -> str:
        return self.field.name

    def at(self, share: float) -> Any:
        """The value at a share of the way, from 0 to 1; three digits of it are kept."""
        if self.choices:
            return self.choices[min(int(share * len(self.choices)), len(self.choices) - 1)]
        whole = self.field.type is int
        low, high = (self.low - 0.5, self.high + 0.5) if whole else (self.low, self.high)
        if self.log:
            low = max(low, 0.5) if whole else low
            value = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
        else:
            value = low + share * (high - low)
        value = min(max(value, self.low), self.high)
        return round(value) if whole else float(f"{value:.3g}")

    def place(self, value: Any) -> float:
        """Where a value lies on an axis: its number or its logarithm, or the place in the list."""
        if self.choices:
            return float(self.choices.index(value)) if value in self.choices else math.nan
        if type(value) not in (int, float):
            return math.nan
        if self.log:
            return math.log10(value) if value > 0 else math.nan
        return float(value)

    def __str__(self) -> str:
        if self.choices:
            return ", ".join(map(text, self.choices))
        kind = ("log " if self.log else "") + ("int " if self.field.type is int else "")
        return f"{kind}{text(self.low)}..{text(self.high)}"


@dataclass(frozen=True)
class Space:
    """All that a search may try of one method on one benchmark."""

    method: str
    """The method as a user types it."""
    benchmark: str
    dimensions: tuple[Dimension, ...]

    def __str__(self) -> str:
        return "; ".join(f"{each.name}: {each}" for each in self.dimensions)

    @property
    def seed(self) -> int:
        """The seed of its points: other words of the space give other points."""
        words = "\n".join((self.method, self.benchmark, str(self)))
        return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8])

    def trials(self, number: int) -> list[dict[str, Any]]:
        """The values of the trials: the usual ones first, then scrambled Sobol points. A larger
        number begins with the same trials."""
        from scipy.stats import qmc

        points: Any = []
        if number > 1:
            # a power of 2, as the sequence demands; the first points are the same for each
            power = math.ceil(math.log2(number - 1))
            points = qmc.Sobol(len(self.dimensions), scramble=True, seed=self.seed)
            points = points.random_base2(power)[: number - 1]
        return [{}, *(self.values(list(point)) for point in points)]

    def values(self, shares: Sequence[float]) -> dict[str, Any]:
        """Values by name, from a share for each dimension."""
        each = zip(self.dimensions, shares, strict=True)
        return {dimension.name: dimension.at(float(share)) for dimension, share in each}


def space_of(
    method: Declaration,
    given: Mapping[str, Any],
    protocol: Protocol,
    lr: float,
    overrides: Container[str],
    names: tuple[str, str],
) -> Space:
    """The space of a method. What the user has `given` of the method and of the protocol
    (`overrides`) is not searched. `protocol` is the one that it trains under, and `lr` the learning
    rate of the benchmark. `names` are those of method and benchmark."""
    declared = dict(method.meta.get("search", {}))
    where = f"{method.path}: search"
    own = [
        _dimension(_field(method, name, where), words, where)
        for name, words in declared.items()
        if name not in PROTOCOL and name not in given
    ]
    for name in (name for name in PROTOCOL if declared.get(name, USUAL) != USUAL):
        raise UserError(
            f"{where}: {name} is searched for every method alike; the only word for it here is "
            f"{USUAL!r}, for a value that has no effect on the method."
        )
    dimensions = own + [
        _dimension(PROTOCOL_FIELDS[name], words, "tune")
        for name, words in _of_protocol(protocol.optimizer, lr).items()
        if name not in (*declared, *method.meta.get("fixed", {})) and name not in overrides
    ]
    listed = ", ".join(dimension.name for dimension in dimensions)
    if len(dimensions) > MOST:
        raise UserError(f"{where}: {len(dimensions)} values ({listed}); at most {MOST} can be.")
    if not dimensions:
        raise UserError(f"{names[0]}: there is nothing to tune, as all its values are given.")
    return Space(*names, tuple(dimensions))


def _of_protocol(optimizer: str, lr: float) -> dict[str, str]:
    if optimizer != "sgd":
        return {"lr": f"log {LEAST}..{HIGHEST}", "weight_decay": DECAYS}
    low, high = (float(f"{lr * factor:.6g}") for factor in (1 / AROUND, AROUND))
    return {"lr": f"log {low}..{high}", "momentum": MOMENTA, "weight_decay": DECAYS}


def _field(method: Declaration, name: str, where: str) -> Field:
    if name not in method.fields:
        raise unknown(f"parameter in {where}:", name, (*method.fields, *PROTOCOL))
    return method.fields[name]


def _dimension(field: Field, words: str, where: str) -> Dimension:
    """The dimension that a text means; a UserError if it is none, or leaves the field's range."""
    where = f"{where}: {field.name}"
    found = _RANGE.fullmatch(words.strip())
    if not found:
        choices = tuple(field.parse(word.strip(), where) for word in words.split(","))
        if len(set(choices)) < max(2, len(choices)):
            raise UserError(
                f"{where}: {words!r} is no range like 0..1, log 1..1e6 or int 1..50, and no list "
                "of different values."
            )
        return Dimension(field, choices=choices)
    log, whole = bool(found[1]), bool(found[2])
    if whole != (field.type is int) or field.type not in (int, float):
        instead = {int: f"int {words}", float: words.replace("int ", "")}.get(field.type, "a, b")
        raise UserError(f"{where}: {words!r} does not fit {field.expected}: write {instead!r}.")
    low, high = (_number(field, word, where) for word in found.groups()[2:])
    if not (low < high and (low > 0 or not log)):
        above = ", and above 0" if log else ""
        raise UserError(f"{where}: {words!r} must go from a lower to a higher value{above}.")
    return Dimension(field, low, high, log)


def _number(field: Field, word: str, where: str) -> float:
    value = field.parse(word, where)
    if type(value) not in (int, float):
        raise UserError(f"{where}: {word} is no end of a range.")
    return float(value)
