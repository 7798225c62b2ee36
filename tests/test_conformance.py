"""Every method passes the checks, and each check catches a method that breaks it."""

import ast
import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clbench import conformance
from clbench.conformance import contract, effects
from clbench.reading import read_declaration
from clbench.registry import declarations, import_class


@pytest.mark.parametrize("name", declarations("method"))
def test_every_method_keeps_the_contract(name: str) -> None:
    declaration = cheap = declarations("method")[name]
    if steps := declaration.fields.get("coreset_steps"):
        # with its hundred steps for each test, the checks take three minutes
        fewer = {"coreset_steps": dataclasses.replace(steps, default=10)}
        cheap = dataclasses.replace(declaration, fields=declaration.fields | fewer)
    found = list(conformance.check(cheap))
    wrong = [(f.what, f.words) for f in found if f.wrong]
    if cheap is not declaration:
        declared: Any = SimpleNamespace(declaration=declaration, cls=import_class(declaration))
        assert contract.declares(declared) == ""
        wrong = [each for each in wrong if each[0] != contract.declares.__doc__]
    assert wrong == []
    assert len(found) == len(conformance.CHECKS)


@pytest.mark.parametrize("name", ["agem", "derpp", "er-res", "joint", "lwf"])
def test_who_asks_many_heads_keeps_it_where_they_are_of_one_width(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conformance.trial, "CLASSES", ((0, 1), (2, 3), (4, 5)))
    found = conformance.check(declarations("method")[name])
    assert not any(f.wrong for f in found)


@pytest.mark.parametrize("kind", ["method", "benchmark"])
def test_what_is_read_from_the_source_is_what_is_imported(kind: str) -> None:
    for declaration in declarations(kind).values():
        cls = import_class(declaration)
        assert {f.name: f.default for f in dataclasses.fields(cls)} == declaration.defaults
        for key, value in declaration.meta.items():
            assert getattr(cls, key) == value
        assert (cls.__doc__ or "").strip().partition("\n")[0] == declaration.doc.partition("\n")[0]


def test_every_method_names_its_paper_and_its_differences() -> None:
    for declaration in declarations("method").values():
        assert declaration.meta["paper"], declaration.name
        about = ast.get_docstring(ast.parse(declaration.path.read_text())) or ""
        if declaration.meta["family"] != "reference":
            assert "Differs from the paper in: " in " ".join(about.split()), declaration.name


METHOD = '''
"""A method with one fault."""

import os

import torch
from avalanche.training.plugins import SupervisedPlugin

from clbench import Memory, Method, Strategy, of_tensors, ordinary


class Fault(SupervisedPlugin):
    kept = None

    def after_backward(self, strategy, **kwargs):  # what makes it more than fine-tuning
        next(strategy.model.parameters()).grad *= 0.5

    HOOK


class {name}(Method):
    """A method with one fault."""

    title = "Faulty"
    family = "regularization"
    DECLARED

    def build(self, stream):
        return Strategy(model=ordinary(stream), stream=stream, plugins=[Fault()])
'''

FAULTS = {
    # fault: (hooks of the plugin, declarations, the check that fails, what it says)
    "unsaved": (
        """
    def after_training_exp(self, strategy, **kwargs):
        os.environ["CLBENCH_FAULT"] = str(1 + int(os.environ.get("CLBENCH_FAULT", 0)))

    def before_backward(self, strategy, **kwargs):
        squares = sum(p.square().sum() for p in strategy.model.parameters())
        strategy.loss += 0.01 * int(os.environ.get("CLBENCH_FAULT", 0)) * squares
        """,
        "",
        contract.resumes,
        "some plugin keeps state that its state_dict() leaves out",
    ),
    "unpicklable": (
        "def state_dict(self): return {'f': os.getpid}",
        "",
        contract.resumes,
        "state_dict() must hold tensors and plain values only",
    ),
    "forgetful": (
        "",
        "zero_forgetting = True",
        contract.keeps_its_word,
        "zero_forgetting is declared, but outputs on task 1 changed later",
    ),
    "thawing": (
        """
    def after_training_exp(self, strategy, **kwargs):
        strategy.model.trunk.requires_grad_(False)
        with torch.no_grad():
            strategy.model.trunk.layers[1].bias += 0.001
        """,
        "",
        contract.keeps_its_word,
        "trunk.layers.1.bias was frozen after task 1 and has changed since",
    ),
    "unseeded": (
        """
    def before_update(self, strategy, **kwargs):
        noise = int.from_bytes(os.urandom(2), "big") / 1e9
        next(strategy.model.parameters()).grad += noise
        """,
        "",
        contract.is_deterministic,
        "the same seed gave",
    ),
    "uncounted": (
        """
    def state_dict(self): return {"images": torch.zeros(9, 1, 28, 28, dtype=torch.uint8)}
    def load_state_dict(self, state): pass
        """,
        "",
        contract.counts_memory,
        "state_dict() of its plugins (28224 bytes), but memory() counts 0 of replay",
    ),
    "dropping": (
        """
    def memory(self): return Memory()

    def after_training_exp(self, strategy, **kwargs):
        last = strategy.clock.train_exp_counter == 2
        self.kept = None if last else torch.zeros(300)
        """,
        "",
        contract.counts_memory,
        "after task 1 it keeps 1200 bytes between tasks, the largest in Fault.kept (1200",
    ),
    "meddling": (
        """
    def after_training_exp(self, strategy, **kwargs):
        strategy.stream.tasks[0].test.images[0] = 0
        """,
        "",
        contract.leaves_data_alone,
        "training has changed the test images",
    ),
    "idle": (
        """
    def before_update(self, strategy, **kwargs):
        strategy.optimizer.zero_grad()
        """,
        "",
        contract.trains,
        "accuracy on the task just learned is",
    ),
    "searched": (
        "",
        "search = {'strenght': '0..1'}",
        contract.declares,
        "Unknown parameter in",
    ),
    "untitled": ("", "title = ''", contract.declares, "Untitled lacks title."),
    "undocumented": (
        "",
        "x: int = 1",
        contract.declares,
        "Undocumented lacks a docstring below x.",
    ),
    "orphaned": (
        "",
        "family = 'magic'",
        contract.declares,
        "family 'magic' must be one of regularization, structure, memory, reference",
    ),
    "crashing": (
        "def after_update(self, strategy, **kwargs): raise RuntimeError('oh')",
        "",
        contract.trains,
        "it raised RuntimeError: oh (",
    ),
    "misspelt": (
        "def before_bakcward(self, strategy, **kwargs): pass",
        "",
        effects.hooks_are_called,
        "Fault.before_bakcward is no hook of Avalanche, so it is never called. Did you mean "
        "before_backward?",
    ),
    "uncalled": (
        "def after_eval_dataset_adaptation(self, strategy, **kwargs): pass",
        "",
        None,
        "",
    ),
    "numb": (
        "def after_backward(self, strategy, **kwargs): self.kept = 1",
        "",
        effects.plugins_act,
        "without Fault it gives the same weights, so it does nothing",
    ),
    "ignored": (
        "",
        'x: float = 1.0\n    """a parameter that nobody reads"""',
        effects.parameters_act,
        "x: no other value changes anything. If another parameter must be set for it to act, "
        'declare that: acts_with = {"x": {"other": value}}.',
    ),
    "hidden": (
        """
    derived = ("past",)
    past = ()

    def before_backward(self, strategy, **kwargs):
        for x, y, t in self.past:
            strategy.loss += 0.1 * torch.nn.functional.cross_entropy(strategy.model(x, t), y)

    def after_update(self, strategy, **kwargs):
        self.kept = (strategy.mb_x, strategy.mb_y, strategy.mb_task_id)

    def after_training_exp(self, strategy, **kwargs):
        self.past = [*self.past, self.kept]
        """,
        "",
        contract.computes_again_what_is_derived,
        "Fault.past is not derived: without it between tasks, training gives other weights or "
        "accuracies. It counts as memory: take it out of `derived`.",
    ),
    "needed": (
        """
    derived = ("seen",)

    def after_training_exp(self, strategy, **kwargs):
        self.seen = True

    def before_training_exp(self, strategy, **kwargs):
        self.kept = strategy.clock.train_exp_counter and self.seen
        """,
        "",
        contract.computes_again_what_is_derived,
        "Fault.seen is not derived: without it between tasks, training raises AttributeError",
    ),
    "unloadable": (
        """
    def state_dict(self): return {"a": 1}
    def load_state_dict(self, state): self.kept = state["b"]
        """,
        "",
        contract.resumes,
        "it raised KeyError: 'b' (",
    ),
}


@pytest.mark.filterwarnings("ignore:Plugin .* implements incompatible callbacks")
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught_in_words(name: str, method_file: Callable[..., Path]) -> None:
    hooks, declared, check, words = FAULTS[name]
    text = METHOD.replace("HOOK", hooks or "pass").replace("DECLARED", declared or "pass")
    path = method_file(name, text)
    found = list(conformance.check(read_declaration(path, "method")))
    wrong = {f.what: f.words for f in found if f.wrong}
    if check is not None:
        assert words in wrong[str(check.__doc__)]
    if name == "undocumented":  # nobody reads its parameter
        del wrong[str(effects.parameters_act.__doc__)]
    if name == "numb":  # a plugin that does nothing makes fine-tuning
        del wrong[str(effects.differs_from_finetuning.__doc__)]
    if name not in ("crashing", "unseeded", "unsaved", "thawing"):  # one fault, one complaint
        assert list(wrong) == ([] if check is None else [check.__doc__])


HOARDS = (
    METHOD.replace("HOOK", "pass").replace("DECLARED", "pass")
    + """
class Hoards(Strategy):
    HARNESS = Strategy.HARNESS | {"stash"}
    stash = ()

    def learn(self, k):
        if k:
            self.stash = [self.stream.tasks[k].train.inputs()]
        return super().learn(k)
"""
)


def test_what_a_strategy_declares_to_be_constant_is_compared(
    method_file: Callable[..., Path],
) -> None:
    path = method_file("hoarder", HOARDS.replace("return Strategy(", "return Hoards("))
    check = contract.computes_again_what_is_derived
    found = {
        f.what: f.words for f in conformance.check(read_declaration(path, "method")) if f.wrong
    }
    assert found == {
        str(check.__doc__): "training changes stash, which the strategy names in `HARNESS`."
    }
