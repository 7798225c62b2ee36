"""What a worker does with a cell, wherever it runs."""

import platform
from collections.abc import Callable
from typing import Any

from clbench.errors import UserError
from clbench.lease import BusyError
from clbench.provenance import explain_import, versions
from clbench.spec import Cell
from clbench.store import Place


class ListenerGoneError(BaseException):
    """Nobody listens any more; no failure of the method, so that it is not kept as one."""


MUST_AGREE = ("clbench", "torch")
"""What must be of one version on the driver and on a node for results to be of one kind."""


def work(
    cell: Cell,
    place: Place,
    listen: Callable[[dict[str, Any]], None],
    expected: dict[str, str] | None = None,
    datasets: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Train a cell; returns the event of its end, whatever becomes of it.

    `expected` are the versions that the driver has. Raises ListenerGoneError if `listen` fails.
    """

    def tell(event: dict[str, Any]) -> None:
        try:
            listen(event)
        except Exception as error:
            raise ListenerGoneError from error

    if difference := _difference(expected or {}):
        return {"kind": "end", "status": "refused", "text": difference}
    try:
        from clbench.runner import run
    except Exception as error:
        return {"kind": "end", "status": "refused", "text": explain_import(error)}
    try:
        tell({"kind": "start"})
        record = run(cell, place, tell, datasets)
    except BusyError:
        return {"kind": "end", "status": "busy", "text": "another process is training it"}
    except UserError as error:
        return {"kind": "end", "status": "refused", "text": str(error)}
    return end_of(record)


def end_of(record: dict[str, Any]) -> dict[str, Any]:
    """The event of a run's end, as its record has it."""
    text = record["failure"]["error"] if record["failure"] else ""
    return {"kind": "end", "status": record["status"], "text": text}


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
