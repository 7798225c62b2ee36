"""One head per task, chosen by the task label of each sample."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from avalanche.models import MultiTaskModule
from torch import Tensor, nn

from clbench.networks.backbones import Backbone


def by_task(x: Tensor, tasks: Tensor | int, forward: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Run `forward(x_k, k)` on the samples of each task k and put the rows back in order.

    Heads of different widths are filled up with -inf, so that a softmax over the row ignores what
    the sample's own head does not have.
    """
    if isinstance(tasks, int):
        return forward(x, tasks)
    first = int(tasks[0])
    one = tasks.stride(0) == 0  # an expanded number, as clbench's loader gives it
    if one or bool((tasks == first).all()):
        return forward(x, first)
    present, counts = tasks.unique(return_counts=True)
    order = tasks.argsort(stable=True)
    parts = x[order].split(counts.tolist())
    outs = [forward(part, k) for k, part in zip(present.tolist(), parts, strict=True)]
    width = max(out.shape[1] for out in outs)
    outs = [
        nn.functional.pad(out, (0, width - out.shape[1]), value=-torch.inf)
        if out.shape[1] < width
        else out
        for out in outs
    ]
    return torch.cat(outs)[order.argsort()]


class TaskNet(MultiTaskModule):
    """A network whose `forward(x, task_labels)` routes samples by task.

    All tasks are allocated at the start, so Avalanche's adaptation to an experience has nothing
    to add. Subclasses give `forward_single_task`.
    """

    def adaptation(self, experience: Any) -> None:
        pass

    def forward(self, x: Tensor, task_labels: Tensor | int) -> Tensor:
        return by_task(x, task_labels, self.forward_single_task)


class MultiHead(TaskNet):
    """A shared trunk and one linear head per task."""

    def __init__(self, trunk: Backbone, classes: Sequence[int]) -> None:
        super().__init__()
        self.trunk = trunk
        self.heads = nn.ModuleList(nn.Linear(trunk.features, c) for c in classes)

    def forward(self, x: Tensor, task_labels: Tensor | int | None) -> Any:
        z = self.trunk(x)
        if task_labels is None:  # Avalanche asks so for every head's output, by task
            return {k: head(z) for k, head in enumerate(self.heads)}
        return by_task(z, task_labels, lambda z, k: self.heads[k](z))

    def forward_single_task(self, x: Tensor, task_label: int) -> Tensor:
        out: Tensor = self.heads[task_label](self.trunk(x))
        return out
