"""A benchmark's tensors as a stream of tasks with train, valid and test data, also for Avalanche.

Images stay uint8 and are shared between the splits that index them; a split makes network inputs
from its rows. The split into train and valid depends on the seed alone. The scenario decides what
the labels are and what a network is told of the task (`clbench.scenario`).
"""

import copy
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from avalanche.benchmarks import benchmark_from_datasets, with_classes_timeline, with_task_labels
from avalanche.benchmarks.utils import _make_taskaware_classification_dataset
from torch import Tensor

from clbench.backbone import Network, find
from clbench.classes import labels_of, reordered
from clbench.data import DataSet, Images
from clbench.errors import UserError, unknown
from clbench.protocol import PROTOCOL_FIELDS, Protocol
from clbench.scenario import SCENARIOS, TASK
from clbench.seeding import generator


@dataclass(frozen=True)
class Source:
    """The data of one task before the train/valid split."""

    train: Images
    test: Images
    classes: tuple[int, ...]
    """The data set's labels of this task, in the order of the task's own labels 0..C-1."""
    mean: tuple[float, ...]
    std: tuple[float, ...]
    title: str = ""
    view: Callable[[Tensor], Tensor] | None = None
    """Applied to a uint8 batch (B, C, H, W) before scaling, for example a permutation."""


def class_tasks(
    data: DataSet,
    tasks: int,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    order: Sequence[int] | None = None,
) -> list[Source]:
    """The classes of a data set, in the given order (0, 1, ... if none), in equal tasks."""
    if data.classes % tasks:
        raise UserError(
            f"{data.name} has {data.classes} classes, which cannot be split into {tasks} equal "
            "tasks: give another number as [tasks=...]."
        )
    classes = [int(c) for c in (order if order is not None else range(data.classes))]
    size = data.classes // tasks
    groups = [tuple(classes[at : at + size]) for at in range(0, data.classes, size)]
    return [
        Source(data.parts["train"], data.parts["test"], group, mean, std, "/".join(map(str, group)))
        for group in groups
    ]


@dataclass(frozen=True)
class Split:
    """Some rows of an image tensor with their labels in the scenario."""

    images: Tensor  # (N, C, H, W) uint8, shared
    rows: Tensor  # (n,) int64, rows of `images`
    labels: Tensor  # (n,) int64, `Stream.labels` of the task
    task: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    view: Callable[[Tensor], Tensor] | None = None
    told: bool = True
    """Whether a network is told the task."""

    @property
    def label(self) -> int:
        """The task label that a network sees: 0 if it is not told the task."""
        return self.task if self.told else 0

    def __len__(self) -> int:
        return len(self.rows)

    def inputs(self, which: Tensor | slice | None = None) -> Tensor:
        """Network inputs, (n, C, H, W) float32: scaled to [0, 1], then by mean and std."""
        rows = self.rows if which is None else self.rows[which]
        raw = self.images.index_select(0, rows)  # much faster than images[rows]
        if self.view is not None:
            raw = self.view(raw)
        mean = torch.tensor(self.mean).view(1, -1, 1, 1)
        std = torch.tensor(self.std).view(1, -1, 1, 1)
        return raw.float().div_(255).sub_(mean).div_(std)


class StreamItems(torch.utils.data.Dataset[Any]):
    """A split as a map-style data set, for code that fetches items one by one."""

    def __init__(self, split: Split, part: str) -> None:
        self.split = split
        self.part = part
        """`train`, `valid` or `test`."""
        self.targets = split.labels.tolist()

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        return self.split.inputs(slice(i, i + 1))[0], self.targets[i]


@dataclass(frozen=True)
class Task:
    """One task of a stream."""

    train: Split
    valid: Split
    test: Split
    classes: tuple[int, ...]
    title: str


class Stream:
    """The tasks of one benchmark for one seed, and the protocol of their training.

    A method may change only the protocol values that are not in `given`; by default none.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        name: str,
        backbone: str | Network,
        protocol: Protocol,
        seed: int,
        device: str = "cpu",
        given: Iterable[str] = PROTOCOL_FIELDS,
        scenario: str = TASK,
        trial: int = 0,
    ) -> None:
        self.name = name
        self.trial = trial
        """If not 0: only so many first tasks are made. They are tested on their validation data,
        and test data are never opened."""
        self.scenario = scenario
        """`task`, `class` or `domain`."""
        if scenario not in SCENARIOS:
            raise unknown(f"scenario of {name}", str(scenario), SCENARIOS)
        self.network = find(backbone) if isinstance(backbone, str) else backbone
        self.protocol = protocol
        self.seed = seed
        self.device = device
        self.given = frozenset(given)
        self._sources = sources
        self._set_tasks()
        self.classes = [len(task.classes) for task in self.tasks]
        """Classes of each task."""
        self.input_shape = tuple(self.tasks[0].test.inputs(slice(0, 1)).shape[1:])

    def __len__(self) -> int:
        return len(self.tasks)

    def under(self, protocol: Protocol) -> "Stream":
        """The same stream under another protocol; another `valid` splits the tasks again."""
        changed = copy.copy(self)
        changed.protocol = protocol
        if protocol.backbone not in ("", self.protocol.backbone):
            changed.network = find(protocol.backbone, "backbone")
            changed.protocol = replace(protocol, backbone=changed.network.name)
        if (protocol.valid, protocol.class_order) != (
            self.protocol.valid,
            self.protocol.class_order,
        ):
            changed._set_tasks()
            vars(changed).pop("avalanche", None)
        return changed

    @property
    def backbone(self) -> str:
        """The name of the network, as a method declares it in `backbones`."""
        return self.network.name

    @property
    def eval_batch(self) -> int:
        """Samples in a batch of an evaluation: fewer of larger images, to bound the memory."""
        return min(1000, max(1, 2**20 // math.prod(self.input_shape)))

    def _set_tasks(self) -> None:
        """The tasks and what the labels mean, in the scenario and the class order."""
        sources = self._sources
        if self.protocol.class_order:
            sources = reordered(sources, self.protocol.class_order, self.seed)
        if self.trial:
            sources = sources[: self.trial]
        self.labels = labels_of(sources, self.scenario)
        """Of each task: the label of each of its classes, in the order of `Task.classes`."""
        self.tasks = [self._task(k, source) for k, source in enumerate(sources)]

    @property
    def heads(self) -> list[int]:
        """Outputs of each head: one per task, or one head for all."""
        if self.scenario == TASK:
            return [len(labels) for labels in self.labels]
        return [self.seen[-1]]

    @property
    def seen(self) -> list[int]:
        """Outputs of the one head that are in use after each task, in `class` and `domain`."""
        return list(itertools.accumulate((max(own) + 1 for own in self.labels), max))

    def _task(self, k: int, source: Source) -> Task:
        images, labels = _tensors(source.train)
        rows = _rows_of(labels, source.classes)
        order = torch.randperm(len(rows), generator=generator(self.seed, "valid", k))
        # 1e-9: 0.15 * 60000 must not become 8999
        n_valid = int(len(rows) * self.protocol.valid + 1e-9)
        train, valid = rows[order[n_valid:]], rows[order[:n_valid]]
        if self.trial:
            test_images, test_labels, test = images, labels, valid
        else:
            test_images, test_labels = _tensors(source.test)
            test = _rows_of(test_labels, source.classes)
        sizes = {"training": len(train), "validation": len(valid), "test": len(test)}
        if self.protocol.valid == 0:
            del sizes["validation"]
        if empty := [part for part, size in sizes.items() if size == 0]:
            raise UserError(
                f"{self.name}: task {k + 1} has {len(rows)} images to learn from and {len(test)} "
                f"to test on; with valid={self.protocol.valid:g} none is left for "
                f"{' and '.join(empty)}."
            )

        def split(images: Tensor, labels: Tensor, rows: Tensor) -> Split:
            inside = torch.full((max(int(labels.max()), *source.classes) + 1,), -1)
            inside[list(source.classes)] = torch.tensor(self.labels[k])
            scaling = source.mean, source.std, source.view
            return Split(images, rows, inside[labels[rows]], k, *scaling, self.scenario == TASK)

        learned, held_out = split(images, labels, train), split(images, labels, valid)
        tested = split(test_images, test_labels, test)
        return Task(learned, held_out, tested, source.classes, source.title)

    @cached_property
    def avalanche(self) -> Any:
        """The same tasks as an Avalanche benchmark, whose data sets carry their `split`."""
        streams = {
            part: [_avalanche_dataset(getattr(task, part), part) for task in self.tasks]
            for part in ("train", "valid", "test")
            if part != "valid" or self.protocol.valid
        }
        made = with_classes_timeline(with_task_labels(benchmark_from_datasets(**streams)))
        # what Avalanche's own benchmarks know of their classes, and some strategies ask for
        made.n_classes_per_exp = self.classes
        made.classes_order = [label for labels in self.labels for label in labels]
        for stream in made.streams.values():
            for experience in stream:
                experience.benchmark = made
                # a list, as an index of the mask of `MultiHeadClassifier` must be
                experience.classes_in_this_experience = sorted(
                    experience.classes_in_this_experience
                )
        return made


def _tensors(data: Images) -> tuple[Tensor, Tensor]:
    with warnings.catch_warnings():
        # the arrays are read-only on purpose; nothing here writes to them
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(data.images), torch.from_numpy(data.labels)


def _rows_of(labels: Tensor, classes: tuple[int, ...]) -> Tensor:
    return torch.isin(labels, torch.tensor(classes)).nonzero().flatten()


def _avalanche_dataset(split: Split, part: str) -> Any:
    items = StreamItems(split, part)
    dataset = _make_taskaware_classification_dataset(items, task_labels=split.label)
    dataset.split = split
    return dataset
