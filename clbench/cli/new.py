"""`clbench new`: a commented file to start a method, a benchmark, a backbone or a table from."""

import re
from collections.abc import Collection
from pathlib import Path

import click

from clbench.backbone import BUILT_IN
from clbench.cli.options import subcommand
from clbench.errors import UserError
from clbench.papers import names
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

PUBLISHED = """# {title}: published numbers to print beside measured ones, by
#   clbench report --vs {path}
# All numbers here are invented: replace them, and say from which copy you read them.
title = "Example table"
label = "Table 1"              # as the paper calls it; may be left out
benchmark = "split-mnist-5k"   # `clbench ls benchmarks`; numbers stand only beside rows of this
scenario = "task"              # stream and this scenario: task, class or domain
tasks = 5
setting = "two hidden layers of 256 units, SGD"   # network, optimizer and budget, in words
runs = 3                       # runs per number; leave it out if it is not known
notes = ["A contradiction in the paper, or what else a reader must know."]

[paper]
cite = "{title}, 2020"         # as headings and captions name it
title = "The title of the paper"
venue = "Where it appeared"    # may be left out, as may url

# Values of the training protocol (`clbench run --help`) that are not the benchmark's own. A run
# made with other values is "not comparable: other budget".
[protocol]
# epochs = 1
# valid = 0

[marks]                        # the sources that the paper names for its numbers; may be left out
"" = "own run"
"*" = "quoted from another paper"

[[rows]]
title = "ORD-FT"               # as the paper calls the row
method = "finetune"            # as clbench has it: `clbench ls methods`
acc = [85.0, 1.5]              # mean and standard deviation, or only the mean
bwt = [-15.0, 2.0]

[[rows]]
title = "EWC"
method = "ewc"
also = ["ewc[strength=500]"]   # other values that the row is compared with
mark = "*"
acc = [90.0]
arch = 1.1                     # MB of the network; replay = MB of the samples
note = "quoted"

[[rows]]
title = "A method that clbench does not have"
foreign = true
acc = [95.0]
# given = [98.0]               # scenario class: ACC with the task given
# tasks, benchmark, scenario and protocol can also stand in a row
"""

TEMPLATES = {"method": METHOD, "benchmark": BENCHMARK, "backbone": BACKBONE, "published": PUBLISHED}
TRY = {
    "method": ("check ./{path}", "run --methods ./{path},finetune"),
    "benchmark": ("check ./{path}", "run --methods finetune,ewc --benchmarks ./{path}"),
    "backbone": ("run --methods finetune,ewc --backbone ./{path}",),
    "published": ("run --methods finetune,ewc", "report --vs {path}"),
}
"""What a user may do with the new file."""
USED = ("Memory", "Method", "Strategy", "Benchmark", "PositiveInt")
"""Names of classes that the files import."""


def _taken(what: str) -> Collection[str]:
    """The names that a new file must not have."""
    if what == "published":
        return names()
    return BUILT_IN if what == "backbone" else declarations(what)


@subcommand(
    "new method my-method",
    "check ./my_method.py",
    "run --methods ./my_method.py,finetune",
    "new benchmark my-benchmark",
    "run --methods finetune,ewc --benchmarks ./my_benchmark.py",
    "new backbone my-net",
    "run --methods finetune,ewc --backbone ./my_net.py",
    "new published my-paper",
)
@click.argument("what", type=click.Choice(list(TEMPLATES)))
@click.argument("name")
def command(what: str, name: str) -> None:
    """Write NAME.py in this folder: a method, benchmark or backbone of your own that already runs.
    For `published` it is NAME.toml: a table of published numbers for `report --vs`."""
    if not re.fullmatch(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", name):
        raise UserError(f"{name!r} cannot be a {what}'s name: use small letters, digits and '-'.")
    words = re.split("[-_]", name)
    cls = "".join(w.title() for w in words)
    if "-".join(words) in _taken(what) or (cls in USED and what in ("method", "benchmark")):
        raise UserError(f"The name {name!r} is taken: choose another.")
    path = Path("_".join(words) + (".toml" if what == "published" else ".py"))
    title = " ".join(words).title()
    text = TEMPLATES[what].format(name="-".join(words), title=title, cls=cls, path=path)
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
