"""Live progress of a grid: a small tree in a terminal or a notebook, plain lines elsewhere."""

import importlib.util
import time
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from clbench.campaign import Outcome, Plan, carry_out
from clbench.events import Ended, EpochEnded, Event, Note, Started, TaskEnded
from clbench.limits import sentence
from clbench.spec import Cell

QUIET_SECONDS = 15
"""Where lines are printed, a run that trains prints no more often than this."""


def duration(seconds: float) -> str:
    """`42 s`, `3 min 20 s`, `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def watched(plan: Plan) -> Outcome:
    """Carry out a plan, with its progress on stderr."""
    with Progress(plan.chosen, Console(stderr=True)) as progress:
        return carry_out(plan, progress.listen)


@dataclass
class _Now:
    """Where a run is."""

    printed: float
    """When it printed its last line."""
    task: int = 0
    """The last task that it has begun; 0 before its first epoch."""
    tasks: int = 1
    learned: int = 0
    first: int = 0
    """Tasks that it had learned before this command."""
    accuracy: float | None = None
    epoch: str = ""

    def take(self, event: EpochEnded | TaskEnded) -> None:
        if not self.task:
            self.first = event.task - 1
        self.task, self.tasks = event.task, event.tasks
        if isinstance(event, TaskEnded):
            self.learned, self.accuracy, self.epoch = event.task, event.accuracy, ""
        else:
            epoch = event.epoch
            self.learned = event.task - 1
            valid = epoch.valid_accuracy
            self.epoch = f", epoch {epoch.epoch}"
            self.epoch += f", valid {valid:.1f} %" if valid is not None else ""

    @property
    def fraction(self) -> float:
        """Of the tasks that this command trains, those that are learned."""
        return (self.learned - self.first) / max(self.tasks - self.first, 1)

    def __str__(self) -> str:
        if not self.task:
            return "starting"
        words = f"task {self.task} of {self.tasks}{self.epoch}"
        return words + (
            f", accuracy so far {self.accuracy:.2f} %" if self.accuracy is not None else ""
        )


class Progress:
    """Shows the events of a grid as they come; used as a context manager."""

    def __init__(self, cells: list[Cell], console: Console) -> None:
        self.cells = cells
        self.console = console
        # rich needs ipywidgets to draw again in a notebook
        notebook = console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None
        self.redraws = console.is_terminal or notebook
        self.now: dict[str, _Now] = {}
        self.ended: set[str] = set()
        self.started = time.monotonic()
        self._live = Live(get_renderable=self._tree, console=console, refresh_per_second=4)

    def __enter__(self) -> "Progress":
        if self.redraws:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.redraws:
            self._live.stop()

    def listen(self, cell: Cell, event: Event) -> None:
        """Take one event of one cell."""
        if isinstance(event, Note):
            self._print(f"Note: {event.text}")
        elif isinstance(event, Ended):
            now = self.now.pop(cell.id, None)
            self.ended.add(cell.id)
            self._print_end(cell, event, now.accuracy if now else None)
        elif isinstance(event, Started):
            self.now[cell.id] = _Now(time.monotonic())
            if not self.redraws:
                self._print(f"{cell}: starting")
        else:
            now = self.now.setdefault(cell.id, _Now(time.monotonic()))
            now.take(event)
            if not self.redraws and time.monotonic() - now.printed >= QUIET_SECONDS:
                now.printed = time.monotonic()
                self._print(f"{cell}: {now}")

    def _print_end(self, cell: Cell, event: Ended, accuracy: float | None) -> None:
        words = f"{event.status}: {event.text.removesuffix('.')}"
        if event.status in ("done", "paused"):
            words = f"ACC {accuracy:.2f} %" if accuracy is not None else "done"
        self._print(f"[{len(self.ended)}/{len(self.cells)}] {cell}: {words}, {self._left()}")

    def _print(self, text: str) -> None:
        self.console.print(Text(sentence(text)), soft_wrap=True)

    def _fraction(self) -> float:
        parts = sum(now.fraction for now in self.now.values())
        return (len(self.ended) + parts) / max(len(self.cells), 1)

    def _left(self) -> str:
        fraction, elapsed = self._fraction(), time.monotonic() - self.started
        if fraction >= 1:
            return f"this command took {duration(elapsed)}"
        if fraction == 0:
            return "time left unknown"
        return f"about {duration(elapsed / fraction - elapsed)} left"

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
            row = (f"  {name}", f"seed {cell.spec.seed}", str(self.now[cell.id]))
            table.add_row(*map(Text, row))
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            ProgressBar(total=1.0, completed=self._fraction(), width=30),
            Text(f"{len(self.ended)} of {len(self.cells)} runs, {self._left()}"),
        )
        return Group(table, bar)
