"""The runs of a folder as `status` and `ls results` list them, without what they measured."""

from dataclasses import dataclass, field

from clbench.cli.options import warn
from clbench.editions import Editions, Made, hides, matches, note, today
from clbench.labels import label
from clbench.record import Part, Value
from clbench.registry import split_list
from clbench.store import Store

KINDS = ("benchmark", "method")


@dataclass
class Listed:
    """One run."""

    id: str
    status: str
    seed: int
    done: int
    tasks: int
    protocol: str
    last: str
    family: str
    parts: dict[str, Part]
    differs: dict[str, dict[str, Value]]
    labels: dict[str, str] = field(default_factory=dict)
    """Method and benchmark as the user types them, earlier code with its mark."""


def listed(
    store: Store, methods: str | None, benchmarks: str | None
) -> tuple[list[Listed], list[str]]:
    """The runs that the lists name, and a sentence for each earlier code that they leave out.
    Prints a warning for every file that is no record."""
    problems: list[str] = []
    runs = []
    for record in store.each(problems):
        spec, differs = record.spec, record.differs
        parts = {"benchmark": spec.benchmark, "method": spec.method}
        others = {"benchmark": differs.benchmark, "method": differs.method}
        facts = (record.id, record.status, spec.seed, record.done, record.tasks, record.protocol)
        runs.append(Listed(*facts, record.finished or record.started, record.family, parts, others))
    warn(problems)
    seen = [
        (kind, part, run.parts["benchmark"].name, run.last)
        for run in runs
        for kind, part in run.parts.items()
    ]
    names = {(kind, part.name) for kind, part, _, _ in seen}
    editions = Editions.of(seen, today(names, methods, benchmarks))
    kept, hidden = [], []
    wanted = {"benchmark": benchmarks, "method": methods}
    for run in runs:
        made = {kind: _made(run, kind, editions) for kind in KINDS}
        if all(_wants(wanted[kind], made[kind], kind) for kind in KINDS):
            kept.append(run)
        for kind, its in made.items():
            if hides(wanted[kind], its):
                hidden.append((kind, its.name + editions.mark(kind, its.part)))
    return kept, note(hidden)


def _made(run: Listed, kind: str, editions: Editions) -> Made:
    part = run.parts[kind]
    name = part.name + editions.mark(kind, part)
    run.labels[kind] = label(name, run.differs[kind])
    hidden = editions.hidden(kind, part, run.parts["benchmark"].name)
    return Made(part.name, run.labels[kind], part, run.family, hidden)


def _wants(text: str | None, made: Made, kind: str) -> bool:
    if text is None:
        return not made.hidden
    return any(matches(item, made, group=kind == "method") for item in split_list(text))
