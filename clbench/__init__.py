"""clbench: continual-learning methods compared on shared streams.

Importing the package is cheap: a name below is imported from its module when it is first used, so
torch and Avalanche come in only with what trains.
"""

import importlib
from typing import Any

from clbench.errors import UserError

__version__ = "0.1.0"

# what a method's file or a notebook usually needs -> where it lives
_LAZY = {
    "run": "clbench.api",
    "load": "clbench.report.frame",
    "Method": "clbench.method",
    "Memory": "clbench.memory",
    "of_tensors": "clbench.memory",
    "Strategy": "clbench.training",
    "PlateauSchedule": "clbench.training",
    "ordinary": "clbench.networks",
    "Stream": "clbench.stream",
    "Source": "clbench.stream",
    "class_tasks": "clbench.stream",
    "Images": "clbench.data",
    "Benchmark": "clbench.benchmark",
    "open_stream": "clbench.benchmark",
    "PositiveInt": "clbench.declare",
    "NonNegativeInt": "clbench.declare",
    "PositiveFloat": "clbench.declare",
    "NonNegativeFloat": "clbench.declare",
    "Fraction": "clbench.declare",
}

__all__ = ["UserError", "__version__", *_LAZY]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'clbench' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
