"""`clbench new`: a commented file to start a method, a benchmark or a backbone from."""

import re
from pathlib import Path

import click

from clbench.backbone import BUILT_IN
from clbench.cli.options import subcommand
from clbench.errors import UserError
from clbench.registry import declarations

METHOD = '''"""{title}: what it does, its paper, and how it differs from the paper."""

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

BENCHMARK = '''"""{title}: where its images come from, and how they are split into tasks."""

import numpy as np

from clbench import Benchmark, PositiveInt, class_tasks


class {cls}(Benchmark):
    """One line for `clbench ls`."""
    title = "{title}"
    datasets = ("mnist-5k",)  # of `clbench data status`; () if sources() makes its own images
    backbone = "mlp"  # or "torchvision:resnet18", "./mynet.py" (beside this file), ...
    # the values of the training protocol that differ from the usual ones: `clbench run --help`
    protocol = {{"lr": 0.03, "momentum": 0.9, "epochs": 20, "lr_min": 1e-3}}
    tasks: PositiveInt = 5
    """number of tasks, which must divide 10; set it by '{name}[tasks=2]'"""

    def sources(self, data, seed):  # the tasks, in their order
        digits = data["mnist-5k"]  # uint8 images (N, 1, 28, 28) and labels 0..9, train and test
        order = np.random.default_rng(seed).permutation(10)  # every draw comes from the seed
        # a list of Source(train, test, classes, mean, std); each task gets the next classes
        return class_tasks(digits, self.tasks, mean=(0.1307,), std=(0.3081,), order=order)
'''

BACKBONE = '''"""{title}: a network for the methods that train an ordinary one."""

from torch import nn


def backbone(input_shape):
    """A module that turns images (B, channels, height, width) into features (B, width). clbench
    finds the width, and adds one head per task."""
    channels, height, width = input_shape
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(7),
        nn.Flatten(),
        nn.Linear(16 * 7 * 7, 64),
        nn.ReLU(),
    )
'''

TEMPLATES = {"method": METHOD, "benchmark": BENCHMARK, "backbone": BACKBONE}
TRY = {
    "method": ("check ./{path}", "run --methods ./{path},finetune"),
    "benchmark": ("check ./{path}", "run --methods finetune,ewc --benchmarks ./{path}"),
    "backbone": ("run --methods finetune,ewc --backbone ./{path}",),
}
"""What a user may do with the new file."""
USED = ("Memory", "Method", "Strategy", "Benchmark", "PositiveInt")
"""Names of classes that the files import."""


@subcommand(
    "new method my-method",
    "check ./my_method.py",
    "run --methods ./my_method.py,finetune",
    "new benchmark my-benchmark",
    "run --methods finetune,ewc --benchmarks ./my_benchmark.py",
    "new backbone my-net",
    "run --methods finetune,ewc --backbone ./my_net.py",
)
@click.argument("what", type=click.Choice(list(TEMPLATES)))
@click.argument("name")
def command(what: str, name: str) -> None:
    """Write NAME.py in this folder: a method, benchmark or backbone of your own that already
    runs."""
    if not re.fullmatch(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", name):
        raise UserError(f"{name!r} cannot be a {what}'s name: use small letters, digits and '-'.")
    words = re.split("[-_]", name)
    cls = "".join(w.title() for w in words)
    taken = BUILT_IN if what == "backbone" else declarations(what)
    if "-".join(words) in taken or (cls in USED and what != "backbone"):
        raise UserError(f"The name {name!r} is taken: choose another.")
    path = Path("_".join(words) + ".py")
    text = TEMPLATES[what].format(name="-".join(words), title=" ".join(words).title(), cls=cls)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UserError(f"{path} exists and was not changed: choose another name.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}.") from None
    click.echo(f"Wrote {path}. Try it:")
    for line in TRY[what]:
        click.echo(f"  clbench {line.format(path=path)}")
