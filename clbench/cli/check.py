"""`clbench check`: runs the conformance checks on a method."""

import sys

import click

from clbench.cli.options import subcommand
from clbench.registry import select


@subcommand("check ewc", "check ./mymethod.py")
@click.argument("method", metavar="FILE|METHOD")
def command(method: str) -> None:
    """Run the conformance checks on a method and name what it violates."""
    (declaration, given), *more = select("method", method)
    if given or more:
        raise click.UsageError("check takes one method without parameters; it checks the defaults.")
    from clbench.conformance import check

    violations = 0
    for found in check(declaration):
        word = "FAIL" if found.wrong else "note" if found.words else "ok  "
        click.echo(f"{word}  {found.what}")
        if found.words:
            click.echo(f"      {found.words}")
        violations += found.wrong
    if violations:
        click.echo(f"{declaration.name} violates {violations} of the checks.", err=True)
        sys.exit(1)
    click.echo(f"{declaration.name} passes.")
