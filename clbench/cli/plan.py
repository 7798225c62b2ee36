"""What `--dry-run` prints: the state of each cell, and how long training may take."""

import statistics
from collections import Counter
from dataclasses import dataclass

import click

from clbench.campaign import Plan
from clbench.progress import duration
from clbench.record import Record
from clbench.spec import Cell
from clbench.store import Store
from clbench.width import fitted_table


def print_plan(plan: Plan) -> None:
    """Print where each cell stands, whether it would be trained, and how long that may take."""
    cells, workers = plan.cells, plan.resources.workers
    chosen = {cell.id for cell in plan.chosen}
    guesses = estimates(cells, Store(plan.place.out))
    rows = [
        (
            cell.labels["benchmark"],
            cell.labels["method"],
            cell.spec.seed,
            cell.id,
            plan.states[cell.id],
            "train" if cell.id in chosen else "",
            guesses.get(cell.id, "?"),
        )
        for cell in cells
    ]
    headers = ("benchmark", "method", "seed", "id", "state", "plan", "estimate")
    click.echo(fitted_table(rows, headers, prose=("method", "state", "estimate")))
    known = [guesses[run_id] for run_id in chosen if run_id in guesses]
    words = []
    if known:
        seconds = [guess.seconds for guess in known]
        longest = duration(max(sum(seconds) / workers, max(seconds)))
        most = "at most " if any(guess.most for guess in known) else ""
        words.append(f"{most}about {longest} with {workers} worker{'s' if workers > 1 else ''}")
        if other := sorted({key for guess in known for key in guess.other}):
            words[0] += f", from runs with other {', '.join(other)}"
    if unknown := len(chosen) - len(known):
        which = f"the other {unknown}" if known else "they"
        words.append(f"no past run says how long {which} take")
    guess = f": {'; '.join(words)}" if words else ""
    click.echo(f"\n{len(chosen)} of {len(cells)} runs to train{guess}.")


@dataclass(frozen=True)
class Guess:
    """How long a run may take, by past ones."""

    seconds: float
    other: tuple[str, ...]
    """Values of the protocol and the machine that were different in those."""
    most: bool
    """They reached a lower cap on epochs, and could have stopped before the new one."""

    def __str__(self) -> str:
        return f"at most {duration(self.seconds)}" if self.most else duration(self.seconds)


def estimates(cells: list[Cell], store: Store) -> dict[str, Guess]:
    """A guess by cell id, from finished runs of the same method and benchmark, those with the
    fewest differences; no entry where there is none."""
    alike: dict[tuple[str, ...], list[Cell]] = {}
    by_name: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for cell in cells:  # those of one group differ only in the seed
        group = tuple(cell.labels.values())
        alike.setdefault(group, []).append(cell)
        by_name.setdefault((cell.labels["benchmark"], cell.labels["method"]), set()).add(group)
    guesses: dict[tuple[str, ...], dict[tuple[str, ...], list[Guess]]] = {}
    for record in store.each([]):
        groups = by_name.get((record.benchmark, record.method), ())
        for group in groups if record.status == "done" and record.seconds.train else ():
            guess = _guess(alike[group][0], record)
            guesses.setdefault(group, {}).setdefault(guess.other, []).append(guess)
    found: dict[str, Guess] = {}
    for group, by_difference in guesses.items():
        nearest = min(by_difference, key=lambda other: (len(other), other))
        past = by_difference[nearest]
        mean = statistics.fmean(guess.seconds for guess in past)
        likely = Guess(mean, nearest, any(guess.most for guess in past))
        found |= {cell.id: likely for cell in alike[group]}
    return found


def _guess(cell: Cell, record: Record) -> Guess:
    """By the seconds per epoch: a task that stopped on its own would do so again, and one that
    reached the cap on epochs would reach the cell's."""
    mine, its = cell.spec.canonical(), record.spec
    other = [key for key, value in mine["protocol"].items() if its.protocol.get(key) != value]
    other += [key for key in ("threads", "device") if getattr(its, key) != mine[key]]
    train, rest = sum(record.seconds.train), sum(record.seconds.eval)
    epochs = Counter(epoch.task for epoch in record.curve)
    cap, old_cap = mine["protocol"]["epochs"], int(its.protocol.get("epochs") or 0)
    capped = [count >= old_cap for count in epochs.values()]
    expected = sum(cap if count >= old_cap else min(count, cap) for count in epochs.values())
    seconds = train * expected / epochs.total() if epochs else train
    return Guess(float(seconds + rest), tuple(other), cap > old_cap and any(capped))
