"""`--sampler tpe`: each trial is chosen by the results of those before it, by Optuna.

A trial must end before the next one is chosen, so trials of one method run one after the other, and
none stops early. Different methods still share the workers. The sampler is seeded and is told the
same scores in the same order, so a search that was stopped chooses the same trials again.
"""

import warnings
from typing import Any

from clbench.errors import UserError
from clbench.store import Store
from clbench.tuning.search import Search, Train, score


def optuna() -> Any:
    """The package; a UserError if it is not installed."""
    try:
        import optuna
    except ImportError:
        raise UserError("--sampler tpe needs Optuna: pip install 'clbench[optuna]'.") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def sample(searches: list[Search], train: Train, store: Store) -> list[Search]:
    """Choose and train the trials of some searches, one trial of each at a time. Returns those of
    which all have ended."""
    package = optuna()
    studies = [(search, _study(package, search)) for search in searches]
    train([search.cells[0] for search in searches])
    for number in range(1, max(search.number for search in searches)):
        asked = []
        for search, study in studies:
            if number < search.number:
                trial = study.ask(_cube(package, search))
                shares = [trial.params[each.name] for each in search.space.dimensions]
                search.add(search.space.values(shares))
                asked.append((search, study, trial))
        train([search.cells[number] for search, _, _ in asked])
        for search, study, trial in asked:
            record = store.read(search.cells[number].id)
            if record is None or record.status == "partial":  # it can go on later, as it was
                studies = [each for each in studies if each[0] is not search]
                continue
            value = score(record, search.tasks) if record.status == "done" else None
            state = package.trial.TrialState
            study.tell(trial, value, state=state.FAIL if value is None else state.COMPLETE)
    return [search for search, _ in studies]


def _study(package: Any, search: Search) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it calls options of its own experimental
        sampler = package.samplers.TPESampler(seed=search.space.seed % 2**32, multivariate=True)
    return package.create_study(direction="maximize", sampler=sampler)


def _cube(package: Any, search: Search) -> dict[str, Any]:
    """A share of the way for each dimension, as `Dimension.at` takes it."""
    unit = package.distributions.FloatDistribution(0.0, 1.0)
    return {each.name: unit for each in search.space.dimensions}
