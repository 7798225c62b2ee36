"""Where a number came from: versions, git state, hardware. Imports nothing heavy."""

import contextlib
import functools
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import clbench
from clbench.record import Git, Provenance

PACKAGES = ("torch", "torchvision", "avalanche-lib", "numpy", "scipy", "pandas", "mlxtend")


def versions() -> dict[str, str]:
    """Versions of Python, clbench and its main dependencies, from package metadata."""
    found = {"python": platform.python_version(), "clbench": clbench.__version__}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def git_state() -> dict[str, Any] | None:
    """Commit of the clbench sources and whether they were changed; None if not a checkout."""
    folder = Path(__file__).parent

    def git(*words: str) -> str:
        command = ["git", "--no-optional-locks", "-C", str(folder), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")) != folder.parent:
            return None
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return None


@functools.cache
def changed_modules() -> frozenset[str]:
    """The modules of clbench's own methods and benchmarks whose files have changes that are not
    committed: `{"clbench.methods.ewc"}`. None are if clbench is no git checkout."""
    root = Path(__file__).parents[1]
    if not (root / ".git").exists():
        return frozenset()
    command = ["git", "--no-optional-locks", "-C", str(root), "status", "--porcelain", "-z"]
    command += ["--no-renames", "--untracked-files=all", "--", "methods", "benchmarks"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError, UnicodeDecodeError):
        return frozenset()
    files = [Path(entry[3:]) for entry in said.split("\0") if entry.endswith(".py")]
    names = [".".join(("clbench", *file.with_suffix("").parts)) for file in files]
    return frozenset(name.removesuffix(".__init__") for name in names)


def cpu() -> str:
    """The processor's name."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def provenance() -> Provenance:
    """What goes into every record."""
    state = git_state()
    return Provenance(
        versions=versions(),
        git=Git(**state) if state else None,
        host=platform.node(),
        platform=platform.platform(),
        cpu=cpu(),
        cores=os.cpu_count(),
        argv=sys.argv,
    )


def explain_import(error: Exception) -> str:
    """In words, why torch or Avalanche did not import, and what to install."""
    found = versions()
    pair = f"torch {found['torch']}, torchvision {found['torchvision']}"
    if "torchvision::nms" in str(error) or "torchvision" in str(error):
        return (
            f"torch and torchvision do not fit each other ({pair}): install a matching pair with "
            "`pip install --force-reinstall torch torchvision`."
        )
    return f"torch or Avalanche does not import ({pair}): {type(error).__name__}: {error}"
