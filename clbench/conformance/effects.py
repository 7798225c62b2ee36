"""The checks that find what does nothing: a hook, a plugin, a whole method, a parameter."""

import difflib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from avalanche.training.plugins import SupervisedPlugin

from clbench.conformance.finding import Remark
from clbench.conformance.trial import Learner, Trial, equal_weights
from clbench.declare import Field
from clbench.errors import UserError
from clbench.memory import Memory
from clbench.networks import ordinary
from clbench.seeding import seed_everything
from clbench.training import Strategy
from clbench.training.kept import OURS

Outcome: TypeAlias = tuple[list[list[float]], Memory, Learner]
HOOKS = frozenset(n for n in dir(SupervisedPlugin) if n.startswith(("before_", "after_")))


def _of_method(strategy: Learner) -> list[Any]:
    """The plugins that are the method's own."""
    return [plugin for plugin in strategy.plugins if not isinstance(plugin, OURS)]


def hooks_are_called(trial: Trial) -> str:
    """has only hooks that Avalanche calls"""
    strategy = trial.build(epochs=1)
    calls: Counter[str] = Counter()
    wanted: dict[str, str] = {}
    for plugin in _of_method(strategy):
        name = type(plugin).__name__
        for hook in (n for n in dir(plugin) if n.startswith(("before_", "after_"))):
            if hook not in HOOKS:
                near = difflib.get_close_matches(hook, HOOKS, 1)
                hint = f" Did you mean {near[0]}?" if near else ""
                return f"{name}.{hook} is no hook of Avalanche, so it is never called.{hint}"
            if getattr(type(plugin), hook) is not getattr(SupervisedPlugin, hook):
                wanted[f"{name}.{hook}"] = hook
                setattr(plugin, hook, _counted(getattr(plugin, hook), f"{name}.{hook}", calls))
    trial.learn(strategy, 0)
    if idle := [name for name in wanted if not calls[name]]:
        return f"{', '.join(idle)} was not called in three tasks."
    return ""


def _counted(hook: Callable[..., Any], name: str, calls: Counter[str]) -> Callable[..., Any]:
    def counted(*args: Any, **kwargs: Any) -> Any:
        calls[name] += 1
        return hook(*args, **kwargs)

    return counted


def plugins_act(trial: Trial) -> str:
    """has plugins that change the weights or the accuracies"""
    names = [type(plugin).__name__ for plugin in _of_method(trial.strategy)]
    idle = [name for i, name in enumerate(names) if _idle(trial, [i])]
    if names and len(idle) == len(names) and _idle(trial, list(range(len(names)))):
        return f"without {' and '.join(names)} it gives the same weights, so it does nothing."
    return Remark(f"{', '.join(idle)}: the weights are the same without it.") if idle else ""


def _idle(trial: Trial, which: list[int]) -> bool:
    """Whether the method gives the same without some of its plugins."""
    strategy = trial.build()
    own = _of_method(strategy)
    for plugin in (own[i] for i in which):
        strategy.plugins.remove(plugin)
    try:
        same = trial.learn(strategy, 0) == trial.R
    except Exception:  # it needs the plugin
        return False
    return same and equal_weights(strategy, trial.strategy)


def differs_from_finetuning(trial: Trial) -> str:
    """differs from fine-tuning"""
    if trial.declaration.meta["family"] == "reference":
        return ""
    stream = trial.stream()
    seed_everything(stream.seed, "init")
    plain = Strategy(model=ordinary(stream), stream=stream)
    R = trial.learn(plain, 0)
    if equal_weights(plain, trial.strategy):
        return "its weights are exactly those of fine-tuning: it does nothing."
    if trial.R == R:
        return Remark("Its accuracies are exactly those of fine-tuning on this small stream.")
    return ""


def parameters_act(trial: Trial) -> str:
    """has parameters that change the weights, the accuracies or the memory"""
    unseen: dict[str, str] = trial.declaration.meta.get("unseen", {})
    bases: dict[str, Outcome] = {}
    idle = [
        name
        for name, field in trial.declaration.fields.items()
        if field.type is not str and name not in unseen and not _acts(trial, field, bases)
    ]
    if not idle:
        said = "; ".join(f"{name}: {why}" for name, why in unseen.items())
        return Remark(f"Not seen on the small stream: {said}.") if unseen else ""
    return (
        f"{', '.join(idle)}: no other value changes anything. If another parameter must be set for "
        'it to act, declare that: acts_with = {"' + idle[0] + '": {"other": value}}.'
    )


def _acts(trial: Trial, field: Field, bases: dict[str, Outcome]) -> bool:
    others = trial.declaration.meta.get("acts_with", {}).get(field.name, {})
    if repr(others) not in bases:
        bases[repr(others)] = _outcome(trial, others)
    base, refused = bases[repr(others)], True
    for value in _others(field):
        try:
            other = _outcome(trial, others | {field.name: value})
        except UserError:  # a refused value is not one without an effect
            continue
        except Exception:  # training breaks down with it
            return True
        refused = False
        if other[:2] != base[:2] or not equal_weights(other[2], base[2]):
            return True
    return refused


def _outcome(trial: Trial, params: dict[str, Any]) -> Outcome:
    """What training with some parameters gives."""
    strategy = trial.build(epochs=2, **params)
    return trial.learn(strategy, 0), strategy.memory(), strategy


def _others(field: Field) -> Iterator[Any]:
    """Other values of a parameter."""
    if field.type is bool:
        return iter([not field.default])
    if field.choices:
        return iter([choice for choice in field.choices if choice != field.default])
    usual = field.default or field.type(1)
    steps = [usual, usual / 2, usual * 2, usual + 1, 0.5, 0, usual / 10, usual * 10]
    values = dict.fromkeys(field.type(step) for step in steps)
    return itertools.filterfalse(lambda v: v == field.default or not _allowed(field, v), values)


def _allowed(field: Field, value: Any) -> bool:
    try:
        field.check(value, "")
    except UserError:
        return False
    return True
