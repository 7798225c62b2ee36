"""`clbench new`: a commented file to start a method from."""

import re
from pathlib import Path

import click

from clbench.cli.options import subcommand
from clbench.errors import UserError
from clbench.registry import declarations

TEMPLATE = '''"""{title}: what it does, its paper, and how it differs from the paper."""

from avalanche.training.plugins import SupervisedPlugin

from clbench import Memory, Method, NonNegativeFloat, Strategy, of_tensors, ordinary


class {cls}Plugin(SupervisedPlugin):  # the algorithm: any hooks of Avalanche's plugins
    def __init__(self, strength):
        super().__init__()
        self.strength, self.anchor = strength, {{}}

    def before_backward(self, strategy, **kwargs):  # here: pull weights to the last task's
        for name, p in strategy.model.named_parameters():
            if name in self.anchor:
                strategy.loss += self.strength * (p - self.anchor[name]).square().sum()

    def after_training_exp(self, strategy, **kwargs):  # a task is over
        self.anchor = {{n: p.detach().clone() for n, p in strategy.model.named_parameters()}}

    def memory(self):  # what it keeps besides the network
        return Memory(auxiliary=of_tensors(self.anchor.values()))

    def state_dict(self):  # what a resumed run needs: tensors and plain values
        return self.anchor

    def load_state_dict(self, state):
        self.anchor = state


class {cls}(Method):
    """One line for `clbench ls`."""
    title = "{title}"
    family = "regularization"  # or structure, memory, reference
    strength: NonNegativeFloat = 0.01
    """a hyper-parameter; set it by '{name}[strength=0.1]'"""

    def build(self, stream):
        plugins = [{cls}Plugin(self.strength)]
        return Strategy(model=ordinary(stream), stream=stream, plugins=plugins)
'''


@subcommand("new method my-method", "check ./my_method.py", "run --methods ./my_method.py,finetune")
@click.argument("what", type=click.Choice(["method"]))
@click.argument("name")
def command(what: str, name: str) -> None:
    """Write NAME.py in this folder: a method of your own that already runs."""
    if not re.fullmatch(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", name):
        raise UserError(f"{name!r} cannot be a method's name: use small letters, digits and '-'.")
    words = re.split("[-_]", name)
    cls = "".join(w.title() for w in words)
    if "-".join(words) in declarations("method") or cls in ("Memory", "Method", "Strategy"):
        raise UserError(f"The name {name!r} is taken: choose another.")
    path = Path("_".join(words) + ".py")
    text = TEMPLATE.format(name="-".join(words), title=" ".join(words).title(), cls=cls)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UserError(f"{path} exists and was not changed: choose another name.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}.") from None
    click.echo(
        f"Wrote {path}. Try it:\n"
        f"  clbench check ./{path}\n"
        f"  clbench run --methods ./{path},finetune"
    )
