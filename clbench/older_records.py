"""Records of schema 1, brought up to date."""

import re
from typing import Any

_SHARE = {"title": "Share of each layer that tasks have claimed", "kind": "layers", "unit": "%"}
_WITHOUT = {"title": "Test accuracy with a part taken away", "kind": "without", "unit": "%"}
_COST = {
    "title": "Accuracy lost without z_S, in points",
    "kind": "number",
    "below": 0.5,
    "warning": "taking z_S away costs {value:.2f} points of accuracy on average, so S is idle: "
    "zero forgetting is then no evidence of factorisation.",
}
_SIZE = dict.fromkeys(("acl", "agem", "derpp", "er-res", "gem"), "per_class")


def upgraded(old: Any) -> Any:
    """The run of a record of schema 1, in the layout of schema 2. Raises KeyError, TypeError,
    ValueError or AttributeError for what is no such record."""
    spec, labels = old["spec"], old["labels"]
    name = spec["method"]["name"]
    new = {key: value for key, value in old.items() if key != "labels"}
    new["schema"] = 2
    new["differs"] = {
        kind: _named(labels[kind].partition("[")[2], spec[kind].get("params", {}))
        for kind in ("benchmark", "method")
    } | {"protocol": _named(labels["protocol"], spec["protocol"])}
    new["upper_bound"] = name == "joint"
    new["replay_size"] = _SIZE.get(name, "")
    new["provenance"] = dict(old.get("provenance") or {})
    new["provenance"]["git"] = new["provenance"].get("git") or None
    new["diagnostics"] = [dict(entry) for entry in old.get("diagnostics") or ()]
    new["lays_open"] = {}
    if any("used_capacity" in entry for entry in new["diagnostics"]):
        new["lays_open"]["used_capacity"] = _SHARE
    if any("without" in entry for entry in new["diagnostics"]):
        new["lays_open"] |= {"without": _WITHOUT, "shared_cost": _COST}
        last = new["diagnostics"][-1]
        if spec["method"]["params"].get("shared") is not False and len(last["without"]) > 1:
            last["shared_cost"] = _shared_cost(list(last["without"].values()))
    return new


def _named(label: str, values: dict[str, Any]) -> dict[str, Any]:
    """The values of the keys that a label names; threads and device have places of their own."""
    keys = re.findall(r"(?:^|,)(\w+)=", label)
    return {key: values.get(key, False) for key in keys if key not in ("threads", "device")}


def _shared_cost(rows: list[dict[str, float]]) -> float:
    """Mean points lost without z_S: the worse of zeroing and of shuffling it."""
    parts = ("shared_zeroed", "shared_shuffled")
    return max(sum(row["nothing"] - row[part] for row in rows) / len(rows) for part in parts)
