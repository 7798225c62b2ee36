"""`clbench sys-info`: what this machine has, and what is broken on it."""

import json
import os
import platform
import sys
import warnings
from typing import Any

import click
import psutil

from clbench.cli.options import json_option, subcommand
from clbench.errors import BrokenWarning, UserError
from clbench.executors import usable_cores
from clbench.provenance import cpu, explain_import, git_state, versions
from clbench.registry import declarations, import_class, installed


@subcommand("sys-info", "sys-info --json")
@json_option
def command(as_json: bool) -> None:
    """Show versions, CPU, memory, threads and devices, and name what is broken."""
    warnings.simplefilter("ignore", BrokenWarning)  # they are listed
    info: dict[str, Any] = {
        "versions": versions(),
        "platform": platform.platform(),
        "python": sys.executable,
        "cpu": cpu(),
        "cores": os.cpu_count(),
        "usable cores": usable_cores(),
        "memory GB": round(psutil.virtual_memory().total / 1e9, 1),
        "git": git_state(),
    }
    problem = ""
    try:
        import torch
        import torchvision  # noqa: F401
    except Exception as error:
        problem = explain_import(error)
    else:
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        info["devices"] = ["cpu", *(f"cuda:{i} {name}" for i, name in enumerate(names))]
        info["torch threads"] = torch.get_num_threads()
    info["problem"] = problem
    broken = [said for kind in ("method", "benchmark") for said in installed(kind).broken.values()]
    info["broken"] = broken + ([] if problem else _not_importable())
    if as_json:
        click.echo(json.dumps(info, indent=1))
    else:
        for key, value in info.items():
            if isinstance(value, dict):
                value = ", ".join(f"{k} {v}" for k, v in value.items())
            elif isinstance(value, list):
                value = ("\n" + " " * 16 if key == "broken" else ", ").join(value)
            click.echo(f"{key:16}{value or 'none'}")
    if problem:
        sys.exit(1)


def _not_importable() -> list[str]:
    """A sentence for each entry point whose class cannot be imported."""
    found = []
    for declaration in (*declarations("method").values(), *declarations("benchmark").values()):
        if declaration.distribution:
            try:
                import_class(declaration)
            except UserError as error:
                found.append(f"The {declaration.kind} {declaration.name!r}: {error}")
    return found
