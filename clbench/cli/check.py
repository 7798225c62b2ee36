"""`clbench check`: runs the checks on a method or a benchmark."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clbench.cli.options import data_root_option, subcommand
from clbench.declare import Declaration
from clbench.errors import UserError
from clbench.executors.quiet import silence_packages
from clbench.files import named_path
from clbench.reading import read_declaration
from clbench.registry import declarations, select

if TYPE_CHECKING:
    from clbench.conformance.finding import Finding


@subcommand("check ewc", "check ./mymethod.py", "check split-mnist-5k")
@click.argument("name", metavar="FILE|METHOD|BENCHMARK")
@data_root_option
def command(name: str, data_root: str | None) -> None:
    """Run the checks on a method or a benchmark and name what it violates.

    A file is checked as what it holds.
    """
    declaration = _named(name)
    violations = 0
    for found in _checks(declaration, data_root):
        word = "FAIL" if found.wrong else "note" if found.words else "ok  "
        click.echo(f"{word}  {found.what}")
        if found.words:
            click.echo(f"      {found.words}")
        violations += found.wrong
    if violations:
        click.echo(f"{declaration.name} violates {violations} of the checks.", err=True)
        sys.exit(1)
    click.echo(f"{declaration.name} passes.")


def _named(name: str) -> Declaration:
    """The one method or benchmark of that name, or in that file."""
    (declaration, given), *more = select(_kind(name), name)
    if given or more:
        what = f"one {declaration.kind} without parameters"
        raise click.UsageError(f"check takes {what}; it checks the defaults.")
    return declaration


def _kind(name: str) -> str:
    if name not in declarations("method") and name in declarations("benchmark"):
        return "benchmark"
    if name.endswith(".py"):
        path = named_path(name, "FILE", home=True)
        try:
            read_declaration(path, "method")
        except UserError as no_method:
            try:
                read_declaration(path, "benchmark")
            except UserError as no_benchmark:
                if "found none" not in str(no_benchmark):
                    return "benchmark"
                if "found none" in str(no_method):
                    raise UserError(
                        f"{path} holds neither a method nor a benchmark: it needs one class "
                        "derived from Method or from Benchmark. (A backbone is tried by a run: "
                        f"clbench run --methods finetune --epochs 1 --backbone {name})"
                    ) from None
                return "method"
            return "benchmark"
    return "method"


def _checks(declaration: Declaration, data_root: str | None) -> "Iterator[Finding]":
    silence_packages()
    if declaration.kind == "method":
        from clbench.conformance import check

        return check(declaration)
    from clbench.conformance.benchmark import check as check_benchmark
    from clbench.data import data_root as folder

    return check_benchmark(declaration, Path(folder(data_root)))
