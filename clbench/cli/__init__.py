"""The command line: one file per subcommand, imported when it is used."""

import errno
import importlib
import io
import os
import sys
import warnings
from typing import Any

import click

import clbench
from clbench.errors import BrokenWarning, UserError, did_you_mean

# subcommand -> one-line help; the code of NAME is `clbench.cli.NAME:command` (with - as _).
COMMANDS = {
    "run": "Train methods on benchmarks and print the table.",
    "tune": "Search good values for methods on validation data, with equal effort for each.",
    "study": "Train what is missing of a table or figure of a paper, and show it.",
    "report": "Write tables from the records of past runs.",
    "compare": "Compare two methods, two folders of records, or our results with a paper's.",
    "figure": "Draw figures from the records of past runs.",
    "status": "Show which runs are done, running, partial or failed.",
    "ls": "List methods, benchmarks, results or published tables.",
    "show": "Show one method, benchmark or run in full.",
    "data": "Show which data sets are here, and get the others.",
    "new": "Write a commented file: a method, benchmark, backbone or table of your own.",
    "check": "Run the checks on a method or benchmark.",
    "sys-info": "Show versions and hardware, and name problems.",
}


class LazyGroup(click.Group):
    """A click group that knows the names of its commands and imports the one that is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"clbench.cli.{name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            ctx.fail(f"No command {args[0]!r}.{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
)
@click.version_option(clbench.__version__, prog_name="clbench")
def cli() -> None:
    """Compare continual-learning methods on shared streams.

    \b
    Examples:
      clbench run --methods finetune,ewc,joint --seeds 3
      clbench ls methods
      clbench report --format md,tex
    """


def main() -> None:
    """The console script: a user's mistake is one sentence on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name may have what the terminal lacks
            stream.reconfigure(errors="backslashreplace")
    try:
        _find_folder()
        with warnings.catch_warnings():
            _warn_in_words()
            cli()
    except UserError as error:
        from clbench.limits import sentence

        click.echo(f"clbench: {sentence(error)}", err=True)
        sys.exit(2)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        click.echo(f"clbench: cannot write: {error.strerror}. Free some space.", err=True)
        _drop_output()
        sys.exit(2)


def _warn_in_words() -> None:
    """A broken method or benchmark is a sentence, without the line of Python that said it."""
    usual = warnings.showwarning

    def show(message: Any, category: Any, *where: Any, **how: Any) -> None:
        if issubclass(category, BrokenWarning):
            click.echo(f"Warning: {message}", err=True)
        else:
            usual(message, category, *where, **how)

    warnings.simplefilter("always", BrokenWarning)
    warnings.showwarning = show


def _find_folder() -> None:
    try:
        os.getcwd()
    except FileNotFoundError:
        raise UserError("the current folder was deleted: `cd` to another one.") from None


def _drop_output() -> None:
    """What standard output did not take goes nowhere: Python would write it at its end, and fail
    again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
