"""When a cell may start: not while another process trains it, and not again and again."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from clbench.events import Ended, Listener, Note
from clbench.spec import Cell
from clbench.store import Store

PAUSES = (1.0, 10.0, 60.0)
"""Seconds before each retry of a run whose lease was lost; afterwards it is given up. A process
that was killed while it took the lease is forgotten in less than their sum."""


@dataclass
class Turns:
    """The turns of the cells of one driver."""

    store: Store
    listen: Listener
    _lost: dict[str, int] = field(default_factory=dict)
    _not_before: dict[str, float] = field(default_factory=dict)
    _waited_for: dict[str, str] = field(default_factory=dict)

    def has_come(self, cell: Cell) -> bool:
        """Whether the cell may start now."""
        due = time.monotonic() >= self._not_before.get(cell.id, 0.0)
        return due and not self.store.is_running(cell.id)

    def say(self, cells: Iterable[Cell]) -> None:
        """Say once for which processes the driver waits, when it has nothing else to do."""
        for cell in cells:
            if self.store.is_running(cell.id):
                who = self.store.holder(cell.id)
                if self._waited_for.get(cell.id) != who:
                    self._waited_for[cell.id] = who
                    self.listen(cell, Note(f"{cell} is being trained by {who}; waiting for it."))

    def again(self, cell: Cell, why: str) -> bool:
        """Whether a cell that was lost to another process is tried again; says so. The cell has
        ended if it is not."""
        n = self._lost[cell.id] = self._lost.get(cell.id, 0) + 1
        if n > len(PAUSES):
            text = f"{why}; it was given up after {len(PAUSES)} retries"
            self.listen(cell, Ended("refused", text))
            return False
        self.listen(cell, Note(f"{cell}: {why}; retry {n} of {len(PAUSES)}."))
        self._not_before[cell.id] = time.monotonic() + PAUSES[n - 1]
        return True
