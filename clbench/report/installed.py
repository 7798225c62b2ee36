"""What the installed methods declare, for suggestions: the report itself knows no method."""

from typing import Any

from clbench.registry import declarations


def upper_bounds() -> list[str]:
    """The methods that intransigence can be measured against."""
    return [name for name, declared in _declared() if declared.get("upper_bound")]


def laying_open(kind: str, unit: str | None = None) -> list[str]:
    """The methods that lay open an entry of this kind, and of this unit if one is given."""
    return [
        name
        for name, declared in _declared()
        if any(
            shown.get("kind") == kind and unit in (None, shown.get("unit"))
            for shown in declared.get("lays_open", {}).values()
        )
    ]


def replay_sizes() -> dict[str, str]:
    """Methods that keep a number of samples per class, each with its parameter for it."""
    sizes = {name: declared.get("replay_size") for name, declared in _declared()}
    return {name: size for name, size in sizes.items() if size}


def suggestion(methods: str) -> str:
    """The end of a sentence about runs that are lacking; empty without a method."""
    return f": clbench run --methods '{methods}' makes some" if methods else ""


def _declared() -> list[tuple[str, dict[str, Any]]]:
    return [(name, declared.meta) for name, declared in declarations("method").items()]
