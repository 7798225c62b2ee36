"""Which classes a task has (`--class-order`), and what a network calls them in a scenario."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from clbench.errors import UserError
from clbench.scenario import CLASS, DOMAIN

if TYPE_CHECKING:
    from clbench.stream import Source


def reordered(sources: "Sequence[Source]", order: str, seed: int) -> "list[Source]":
    """The tasks with other classes: `fixed` (ascending), `seed` (drawn), or a list like 3/1/0/2."""
    classes = [label for source in sources for label in source.classes]
    if len(set(classes)) < len(classes) or len({id(source.train) for source in sources}) > 1:
        raise UserError("--class-order is for streams whose tasks split the classes of a data set.")
    if order == "fixed":
        wanted = sorted(classes)
    elif order == "seed":
        drawn = np.random.RandomState(seed).permutation(len(classes))
        wanted = [sorted(classes)[i] for i in drawn]
    else:
        wanted = [int(label) if label.isdecimal() else -1 for label in order.split("/")]
        if sorted(wanted) != sorted(classes):
            known = "/".join(map(str, sorted(classes)))
            raise UserError(
                f"--class-order {order}: give fixed, seed, or each of the {len(classes)} classes "
                f"once, in another order than {known}."
            )
    queue = iter(wanted)
    own = [tuple(itertools.islice(queue, len(source.classes))) for source in sources]
    return [
        replace(source, classes=labels, title="/".join(map(str, labels)))
        for source, labels in zip(sources, own, strict=True)
    ]


def labels_of(sources: "Sequence[Source]", scenario: str) -> list[list[int]]:
    """What a network calls the classes of each task."""
    inside = [list(range(len(source.classes))) for source in sources]
    if scenario == DOMAIN and len({source.classes for source in sources}) > 1:
        raise UserError("scenario=domain: all tasks need the same classes in the same order.")
    if scenario != CLASS:
        return inside
    if len({id(source.train) for source in sources}) > 1:
        raise UserError("scenario=class: all tasks need images of the same data set.")
    order = list(dict.fromkeys(label for source in sources for label in source.classes))
    place = {label: at for at, label in enumerate(order)}
    return [[place[label] for label in source.classes] for source in sources]
