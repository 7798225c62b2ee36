"""The checks of a benchmark file, on its real data. Each check is one function.

They look at seed 0, and train the first task for one epoch.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clbench import data
from clbench.build import make_stream
from clbench.conformance.finding import Finding, Remark, finding, raised
from clbench.declare import Declaration
from clbench.errors import UserError
from clbench.limits import TASKS
from clbench.networks import backbone
from clbench.registry import declarations, import_class
from clbench.resolve import make_cell
from clbench.seeding import seed_everything
from clbench.stream import Source, Stream
from clbench.training import Strategy

SEED = 0
FEW = 0.02
"""A smaller share of the test images that are training images too is only a remark: official data
sets such as CIFAR100 have some."""
NAMED = 3
"""The most examples that a sentence names."""


class Trial:
    """One benchmark with its sources for one seed, made twice from other states of the global
    generators: a draw that does not come from the seed makes them differ."""

    def __init__(self, declaration: Declaration, root: Path) -> None:
        self.declaration = declaration
        self.cls = import_class(declaration)
        names = declaration.meta.get("datasets", ())
        self.datasets = {name: data.load(name, root) for name in names}
        self.sources = self._made(1)
        self.again = self._made(2)

    def _made(self, state: int) -> list[Source]:
        seed_everything(state, "sources of a check")
        made = self.cls(**self.declaration.defaults).sources(self.datasets, SEED)
        return list(made)

    def stream(self, **protocol: Any) -> Stream:
        """The stream that `finetune` would learn, as a run makes it."""
        finetune = declarations("method")["finetune"]
        cell = make_cell(finetune, {}, self.declaration, {}, SEED, protocol)
        return make_stream(cell, self.datasets)


def declares(trial: Trial) -> str:
    """declares a title, a docstring, and a line for each parameter"""
    d = trial.declaration
    missing = [] if d.meta.get("title") else ["title"]
    missing += [] if d.doc else ["a docstring"]
    missing += [f"a docstring below {f.name}" for f in d.fields.values() if not f.doc]
    return f"{d.class_name} lacks {', '.join(missing)}." if missing else ""


def has_tasks(trial: Trial) -> str:
    """returns tasks as Source(train, test, classes, mean, std)"""
    if not trial.sources:
        return "sources() returned no tasks."
    if len(trial.sources) > TASKS:
        return f"it has {len(trial.sources)} tasks; the most is {TASKS}."
    for k, source in enumerate(trial.sources, 1):
        if not isinstance(source, Source):
            return f"task {k} is a {type(source).__name__}, not a Source."
    return ""


def repeats(trial: Trial) -> str:
    """gives the same tasks again from the same seed"""
    hint = "every random draw must come from the seed, like np.random.default_rng(seed)."
    if len(trial.sources) != len(trial.again):
        return f"the same seed gave {len(trial.sources)} and then {len(trial.again)} tasks: {hint}"
    for k, (one, other) in enumerate(zip(trial.sources, trial.again, strict=True), 1):
        for name in ("classes", "mean", "std", "title"):
            a, b = getattr(one, name), getattr(other, name)
            if tuple(a) != tuple(b):
                return f"task {k}: the same seed gave {name} {a} and then {b}: {hint}"
        for part in ("train", "test"):
            for what in ("images", "labels"):
                a, b = (getattr(getattr(s, part), what) for s in (one, other))
                if not np.array_equal(a, b):
                    return f"task {k}: the same seed gave other {part} {what}: {hint}"
    return ""


def views_repeat(trial: Trial) -> str:
    """looks at the same images in the same way each time (view)"""
    for k, (one, other) in enumerate(zip(trial.sources, trial.again, strict=True), 1):
        if one.view is None or other.view is None:
            continue
        batch = torch.from_numpy(np.array(one.test.images[:64]))
        seen = []
        for state, view in enumerate((one.view, one.view, other.view)):
            seed_everything(state, "view of a check")
            seen.append(view(batch.clone()))
        if not torch.equal(seen[0], seen[1]):
            return (
                f"task {k}: view gave two different results for the same images. Draw its numbers "
                "once, in sources(), from the seed."
            )
        if not torch.equal(seen[0], seen[2]):
            return (
                f"task {k}: two calls of sources() with the same seed gave different views. Draw "
                "their numbers from the seed."
            )
        parts = torch.cat([one.view(part.clone()) for part in batch.split(5)])
        if not torch.equal(parts, seen[0]):
            return f"task {k}: view gives an image another result in another batch."
    return ""


def labels_fit(trial: Trial) -> str:
    """has labels that fit the images and the classes of each task"""
    for k, source in enumerate(trial.sources, 1):
        classes = source.classes
        if len(set(classes)) != len(classes) or len(classes) < 2:
            return f"task {k} needs at least two different classes; it has {tuple(classes)}."
        if any(isinstance(c, bool) or int(c) != c or c < 0 for c in classes):
            return f"task {k}: classes must be whole numbers from 0 on; they are {tuple(classes)}."
        for part in ("train", "test"):
            images, labels = getattr(source, part).images, getattr(source, part).labels
            if labels.ndim != 1 or labels.dtype != np.int64:
                shape = "x".join(map(str, labels.shape))
                kind = f"{labels.dtype} of the shape {shape}"
                return f"task {k}: {part} labels must be a row of int64; they are {kind}."
            if len(labels) != len(images):
                return f"task {k}: {len(images)} {part} images have {len(labels)} labels."
            if len(labels) and labels.min() < 0:
                return f"task {k}: a {part} label is {labels.min()}; labels begin at 0."
            if absent := sorted(set(classes) - set(np.unique(labels).tolist())):
                return f"task {k}: no {part} image has the label {_some(absent)}."
    return ""


def images_fit(trial: Trial) -> str:
    """has uint8 images of one shape, with a mean and std that fit it"""
    shapes: dict[tuple[int, ...], str] = {}
    for k, source in enumerate(trial.sources, 1):
        for part in ("train", "test"):
            images = getattr(source, part).images
            if images.dtype != np.uint8 or images.ndim != 4:
                return (
                    f"task {k}: {part} images must be uint8 of the shape (N, C, H, W); they are "
                    f"{images.dtype} of {tuple(images.shape)}."
                )
            first = torch.from_numpy(np.array(images[:2]))
            seen = first if source.view is None else source.view(first)
            shapes.setdefault(tuple(seen.shape[1:]), f"the {part} images of task {k}")
        channels = seen.shape[1]
        for name in ("mean", "std"):
            values = getattr(source, name)
            if len(values) not in (1, channels):
                return f"task {k}: {name} has {len(values)} values for {channels} channels."
            if not all(math.isfinite(v) and (name == "mean" or v > 0) for v in values):
                return f"task {k}: {name} is {tuple(values)}."
        if max(source.mean) > 1:
            return f"task {k}: mean is {max(source.mean):g}; images are scaled to [0, 1] first."
    if len(shapes) > 1:
        return f"images differ in shape: {', '.join(f'{w}: {s}' for s, w in shapes.items())}."
    return ""


def splits_hold_images(trial: Trial) -> str:
    """leaves images for training, validation and test in each task"""
    try:
        trial.stream()
    except UserError as error:
        return str(error)
    return ""


def tests_are_new(trial: Trial) -> str:
    """tests on images that the task does not train on"""
    found, most = [], 0.0
    for k, task in enumerate(trial.stream().tasks, 1):
        rows: dict[bytes, int] = {}
        for split in (task.train, task.valid):
            rows |= dict(zip(_bytes_of(split.images, split.rows), split.rows.tolist(), strict=True))
        tests = zip(
            _bytes_of(task.test.images, task.test.rows), task.test.rows.tolist(), strict=True
        )
        same = [(row, rows[content]) for content, row in tests if content in rows]
        if same:
            most = max(most, len(same) / len(task.test))
            named = ", ".join(f"test {a} = training {b}" for a, b in same[:NAMED])
            more = ", ..." if len(same) > NAMED else ""
            of = f"{len(same)} of {len(task.test)} test images"
            found.append(f"task {k}: {of} are training images of the task too ({named}{more})")
    if not found:
        return ""
    more = f"; and in {len(found) - NAMED} more tasks" if len(found) > NAMED else ""
    said = "; ".join(found[:NAMED]) + more + "."
    return Remark(said) if most < FEW else said


def backbone_builds(trial: Trial) -> str:
    """has a backbone that takes its images"""
    try:
        stream = trial.stream()
        trunk = backbone(stream.network, stream.input_shape)
        trunk.eval()(stream.tasks[0].test.inputs(slice(0, 2)))
    except UserError as error:
        return str(error)
    return ""


def is_learnt(trial: Trial) -> str:
    """lets finetune learn above chance: one epoch of the first task"""
    stream = trial.stream(epochs=1)
    seed_everything(SEED, "init")
    strategy: Strategy = import_class(declarations("method")["finetune"])().build(stream)
    seed_everything(SEED, "task", 0)
    try:
        strategy.learn(0)
    except FloatingPointError as error:
        return f"{error}."
    accuracy, chance = strategy.accuracy(0), 100 / stream.classes[0]
    tested = len(stream.tasks[0].test)
    margin = 300 * math.sqrt(chance / 100 * (1 - chance / 100) / tested)
    if accuracy > min(chance + margin, 99.9):
        return ""
    return (
        f"accuracy on task 1 is {accuracy:.1f} % after one epoch, and chance is {chance:.1f} % (of "
        f"{tested} test images, {chance + margin:.1f} % would be clear of it). See whether labels "
        "belong to their images, and whether the learning rate fits; a hard task may need epochs."
    )


CHECKS: tuple[Callable[[Trial], str], ...] = (
    declares, has_tasks, repeats, labels_fit, images_fit, views_repeat, splits_hold_images,
    tests_are_new, backbone_builds, is_learnt,
)  # fmt: skip
NEEDED = (has_tasks, labels_fit, images_fit, splits_hold_images, backbone_builds)
"""The later checks cannot look at a benchmark that fails one of these."""


def check(declaration: Declaration, root: Path) -> Iterator[Finding]:
    """Run the checks. It ends at a mistake that keeps the later checks from looking."""
    torch.set_num_threads(1)
    try:
        trial = Trial(declaration, root)
    except UserError:
        raise
    except Exception as error:
        yield Finding(str(has_tasks.__doc__), raised(error), wrong=True)
        return
    for function in CHECKS:
        found = finding(function, trial)
        yield found
        if found.wrong and function in NEEDED:
            return


def _bytes_of(images: Tensor, rows: Tensor) -> list[bytes]:
    """The bytes of each image."""
    return [image.tobytes() for image in images.index_select(0, rows).numpy()]


def _some(values: list[int]) -> str:
    return " or ".join(map(str, values[:NAMED])) + (" or others" if len(values) > NAMED else "")
