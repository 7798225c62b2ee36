"""Warnings of other packages that a user of clbench can do nothing about."""

import os
import sys
import warnings
from typing import Any

_MESSAGES = (
    # Avalanche's evaluation plugin, in a method that builds one: the runner does the evaluation
    "No loggers specified",
    # setuptools, when torch.compile imports it after a dependency of Avalanche imported distutils
    "Distutils was imported before Setuptools",
    "Setuptools is replacing distutils",
)


def silence_packages() -> None:
    """Silence them in this process; called before torch is imported. Variables that a user has set
    stay as they are."""
    # what a method makes of a compiled network: graph breaks, recompilations, no CUDA
    os.environ.setdefault("TORCH_LOGS", "-dynamo,-torch.utils.cpp_extension")
    for message in _MESSAGES:
        warnings.filterwarnings("ignore", message, UserWarning)
    # Avalanche's plugins call each other's old names, and it takes filters for them away again
    usual = warnings.showwarning

    def show(message: Any, category: Any, filename: str, *rest: Any) -> None:
        if not (category is DeprecationWarning and f"{os.sep}avalanche{os.sep}" in filename):
            usual(message, category, filename, *rest)

    warnings.showwarning = show  # type: ignore[assignment]


def silence_tracker() -> None:
    """Silence the process in which multiprocessing tracks semaphores; called before it starts."""
    # torch.compile's helpers, when a worker has ended without the tear-down of torch
    if (option := "ignore:resource_tracker:UserWarning") not in sys.warnoptions:
        sys.warnoptions.append(option)
