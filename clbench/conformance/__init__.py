"""The checks that every method must pass, on a small real stream.

`check(declaration)` runs them all. All installed methods pass; `clbench check FILE` checks a user's
file.
"""

from collections.abc import Callable, Iterator

import torch

from clbench.conformance import contract, effects
from clbench.conformance.finding import Finding, finding, raised
from clbench.conformance.trial import CLASSES, Trial, first_scenario, small_stream
from clbench.declare import Declaration
from clbench.errors import UserError
from clbench.registry import import_class

__all__ = ["CHECKS", "CLASSES", "Finding", "Trial", "check", "small_stream"]

CHECKS: tuple[Callable[[Trial], str], ...] = (
    contract.declares,
    contract.trains,
    contract.is_deterministic,
    contract.resumes,
    contract.counts_memory,
    contract.keeps_its_word,
    contract.leaves_data_alone,
    effects.hooks_are_called,
    effects.plugins_act,
    effects.differs_from_finetuning,
    effects.parameters_act,
)


def check(declaration: Declaration, scenario: str = "") -> Iterator[Finding]:
    """Run all checks, and yield what each has found. Without a scenario, the small stream is of the
    first one that the method declares."""
    torch.set_num_threads(1)
    stream = small_stream(scenario=scenario or first_scenario(declaration))
    if reason := import_class(declaration)(**declaration.defaults).refusal(stream):
        raise UserError(f"{declaration.name} cannot run on the stream of the checks: {reason}")
    try:
        trial = Trial(declaration, scenario)
    except Exception as error:
        yield Finding(str(contract.trains.__doc__), raised(error), wrong=True)
        return
    yield from (finding(function, trial) for function in CHECKS)
