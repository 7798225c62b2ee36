"""Live progress of a grid: a small tree on a terminal, plain lines elsewhere."""

import time
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from clbench.spec import Cell

QUIET_SECONDS = 15
"""Without a terminal, an unfinished run says where it is no more often than this."""


def duration(seconds: float) -> str:
    """`42 s`, `3 min 20 s`, `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


class Progress:
    """Shows the events of a grid as they come; used as a context manager."""

    def __init__(self, cells: list[Cell], console: Console) -> None:
        self.cells = cells
        self.console = console
        self.now: dict[str, dict[str, Any]] = {}
        self.ended: dict[str, dict[str, Any]] = {}
        self.notes: list[str] = []
        self.started = time.monotonic()
        self._said = time.monotonic()
        self._live = Live(get_renderable=self._tree, console=console, refresh_per_second=4)

    def __enter__(self) -> "Progress":
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.console.is_terminal:
            self._live.stop()

    def listen(self, cell: Cell, event: dict[str, Any]) -> None:
        """Take one event of one cell."""
        if event["kind"] == "note":
            self.notes.append(event["text"])
        elif event["kind"] == "end":
            now = self.now.pop(cell.id, {})
            if event["status"] != "busy":
                self.ended[cell.id] = event
                self._line(cell, event, now.get("accuracy"))
        else:
            self.now[cell.id] = self.now.get(cell.id, {}) | event
            if event["kind"] == "task" and time.monotonic() - self._said > QUIET_SECONDS:
                self._print(f"{cell}: {self._where(cell)}")

    def _line(self, cell: Cell, event: dict[str, Any], accuracy: float | None) -> None:
        count = f"[{len(self.ended)}/{len(self.cells)}]"
        if event["status"] == "done":
            words = f"ACC {accuracy:.2f} %" if accuracy is not None else "done"
        else:
            words = f"{event['status']}: {event['text']}"
        self._print(f"{count} {cell}: {words}, {self._left()}")

    def _print(self, text: str) -> None:
        self._said = time.monotonic()
        if not self.console.is_terminal or "done" not in text:
            self.console.print(Text(text), soft_wrap=True)

    def _fraction(self) -> float:
        parts = [
            (now.get("task", 1) - (0 if now.get("kind") == "task" else 1)) / now["tasks"]
            for now in self.now.values()
            if "tasks" in now
        ]
        return (len(self.ended) + sum(parts)) / max(len(self.cells), 1)

    def _left(self) -> str:
        fraction, elapsed = self._fraction(), time.monotonic() - self.started
        if fraction >= 1:
            return f"{duration(elapsed)} in all"
        if fraction == 0:
            return "time left unknown"
        return f"about {duration(elapsed / fraction - elapsed)} left"

    def _where(self, cell: Cell) -> str:
        now = self.now.get(cell.id, {})
        if "task" not in now:
            return "starting"
        words = f"task {now['task']} of {now['tasks']}"
        if now["kind"] == "epoch":
            words += f", epoch {now['epoch']}, valid {now['valid_accuracy']:.1f} %"
        if now.get("accuracy") is not None:
            words += f", accuracy so far {now['accuracy']:.2f} %"
        return words

    def _tree(self) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        benchmark = method = ""
        for cell in self.cells:
            if cell.id not in self.now:
                continue
            if cell.labels["benchmark"] != benchmark:
                benchmark, method = cell.labels["benchmark"], ""
                table.add_row(Text(benchmark, style="bold"))
            name = cell.labels["method"] if cell.labels["method"] != method else ""
            method = cell.labels["method"]
            table.add_row(
                Text(f"  {name}"), Text(f"seed {cell.spec.seed}"), Text(self._where(cell))
            )
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            ProgressBar(total=1.0, completed=self._fraction(), width=30),
            Text(f"{len(self.ended)} of {len(self.cells)} runs, {self._left()}"),
        )
        return Group(table, bar)
