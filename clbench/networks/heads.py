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
    if not _mixed(tasks):
        return forward(x, int(tasks[0]))
    present, counts, order = _sorted(tasks)
    parts = x[order].split(counts)
    outs = [forward(part, k) for k, part in zip(present, parts, strict=True)]
    width = max(out.shape[1] for out in outs)
    outs = [
        nn.functional.pad(out, (0, width - out.shape[1]), value=-torch.inf)
        if out.shape[1] < width
        else out
        for out in outs
    ]
    return torch.cat(outs)[order.argsort()]


def _mixed(tasks: Tensor) -> bool:
    """Whether there is more than one task."""
    one = tasks.stride(0) == 0  # an expanded number, as clbench's loader gives it
    return not (one or bool((tasks == tasks[0]).all()))


def _sorted(tasks: Tensor) -> tuple[list[int], list[int], Tensor]:
    """The tasks, how many samples each has, and the order in which these lie task by task."""
    present, counts = tasks.unique(return_counts=True)
    return present.tolist(), counts.tolist(), tasks.argsort(stable=True)


class _Linears(torch.autograd.Function):
    """Rows that lie task by task, each group through its own linear head of the same width.

    What autograd does, to the bit, without its bookkeeping for each of many small heads.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, counts: list[int], *parameters: Tensor) -> Tensor:
        weights, biases = parameters[: len(counts)], parameters[len(counts) :]
        ctx.counts = counts
        ctx.save_for_backward(z, *weights)
        out = z.new_empty(len(z), len(biases[0]))
        for x, y, w, b in zip(z.split(counts), out.split(counts), weights, biases, strict=True):
            torch.addmm(b, x, w.t(), out=y)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        z, *weights = ctx.saved_tensors
        back = torch.empty_like(z)
        parts = (part.split(ctx.counts) for part in (gradient, z, back))
        of_weights, of_biases = [], []
        for g, x, to, w in zip(*parts, weights, strict=True):
            torch.mm(g, w, out=to)
            of_weights.append(g.t().mm(x))
            of_biases.append(g.sum(0))
        return (back, None, *of_weights, *of_biases)


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
        if isinstance(task_labels, Tensor) and _mixed(task_labels) and self.alike:
            present, counts, order = _sorted(task_labels)
            heads: list[Any] = [self.heads[k] for k in present]
            parameters = [h.weight for h in heads] + [h.bias for h in heads]
            if z.dtype == parameters[0].dtype:  # not where autocast computes
                return _Linears.apply(z[order], counts, *parameters)[order.argsort()]
        return by_task(z, task_labels, lambda z, k: self.heads[k](z))

    def outputs(self, x: Tensor, tasks: Sequence[int]) -> Tensor:
        """What several heads, which are `alike`, say of the same samples: (tasks, B, C)."""
        z = self.trunk(x)
        heads: list[Any] = [self.heads[k] for k in tasks]
        weight, bias = torch.cat([h.weight for h in heads]), torch.cat([h.bias for h in heads])
        return nn.functional.linear(z, weight, bias).view(len(z), len(heads), -1).transpose(0, 1)

    @property
    def alike(self) -> bool:
        """Whether all heads are plain linear layers of one width."""
        linear = [head for head in self.heads if type(head) is nn.Linear]
        return len(linear) == len(self.heads) and len({h.out_features for h in linear}) == 1

    def forward_single_task(self, x: Tensor, task_label: int) -> Tensor:
        out: Tensor = self.heads[task_label](self.trunk(x))
        return out
