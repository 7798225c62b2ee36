"""What a worker does with a cell, wherever it runs."""

import platform
from typing import Any

from clbench.errors import UserError
from clbench.events import Ended, Event, Listener, Started, end_of
from clbench.executors.quiet import silence_packages
from clbench.lease import BusyError
from clbench.provenance import explain_import, versions
from clbench.spec import Cell
from clbench.store import Place

MUST_AGREE = ("clbench", "torch")
"""Packages whose versions must be the same on the driver and on a node."""


class ListenerGoneError(BaseException):
    """The driver is gone; the method did not fail, so no failure is kept."""


def work(
    cell: Cell,
    place: Place,
    listen: Listener,
    expected: dict[str, str] | None = None,
    datasets: dict[str, Any] | None = None,
) -> Ended:
    """Train a cell and return how it ended.

    `expected` are the versions that the driver has. Without `datasets` the run opens its data
    itself: it maps the images that the driver has decoded into the cache. Raises ListenerGoneError
    if `listen` fails.
    """

    def tell(cell: Cell, event: Event) -> None:
        try:
            listen(cell, event)
        except Exception as error:
            raise ListenerGoneError from error

    if difference := _difference(expected or {}):
        return Ended("refused", difference)
    silence_packages()
    try:
        from clbench.runner import run
    except Exception as error:
        return Ended("refused", explain_import(error))
    try:
        tell(cell, Started())
        return end_of(run(cell, place, tell, datasets))
    except BusyError as error:
        return Ended("busy", str(error))
    except UserError as error:
        return Ended("refused", str(error))


def _difference(expected: dict[str, str]) -> str:
    here = versions()
    other = [
        f"{name} {here[name]} instead of {expected[name]}"
        for name in MUST_AGREE
        if name in expected and here[name] != expected[name]
    ]
    if not other:
        return ""
    return f"the node {platform.node()} has {', '.join(other)}; install the same versions there"
