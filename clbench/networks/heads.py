"""Networks with one head per task, which the task label of each sample chooses, or with one head
for all tasks, which ignores the label."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import torch
from avalanche.models import MultiTaskModule
from torch import Tensor, nn

from clbench.networks.backbones import Backbone

Groups = list[tuple[int, int]]
"""(number of tasks, samples per task), in the order of the rows."""


def by_task(x: Tensor, tasks: Tensor | int, forward: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Run `forward(x_k, k)` on the samples of each task k, and return the rows in their old order,
    narrow outputs padded with -inf, which a softmax over the row ignores."""
    if isinstance(tasks, int):
        return forward(x, tasks)
    if not _mixed(tasks):
        return forward(x, int(tasks[0]))
    present, counts = tasks.unique(return_counts=True)
    order = tasks.argsort(stable=True)
    parts = x.index_select(0, order).split(counts.tolist())
    outs = [forward(part, k) for k, part in zip(present.tolist(), parts, strict=True)]
    width = max(out.shape[1] for out in outs)
    for i, out in enumerate(outs):
        if out.shape[1] < width:
            outs[i] = nn.functional.pad(out, (0, width - out.shape[1]), value=-torch.inf)
    return torch.cat(outs).index_select(0, order.argsort())


def _mixed(tasks: Tensor) -> bool:
    """Whether there is more than one task."""
    one = tasks.stride(0) == 0  # an expanded number, from clbench's loader
    return not (one or bool((tasks == tasks[0]).all()))


def _by_size(tasks: Tensor) -> tuple[list[int], Groups, Tensor]:
    """Tasks, small ones first; their groups of equal size; the order that sorts rows like that."""
    tasks = tasks.long()  # smaller integer types cannot index
    counts = tasks.bincount()
    order = (counts[tasks] * len(counts) + tasks).argsort(stable=True)
    present, sizes = tasks[order].unique_consecutive(return_counts=True)
    groups = [(len(list(same)), size) for size, same in groupby(sizes.tolist())]
    return present.tolist(), groups, order


class _Linears(torch.autograd.Function):
    """Each row through the linear head of its task; all heads have the same width.

    It gives autograd's gradients, but heads with equally many rows share one batched product, so
    thirty heads cost little more than ten. `order` sorts the rows by task, with the tasks of a
    group side by side; weights and biases are stacked in the same order.
    """

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, order: Tensor, groups: Groups, weights: Tensor, biases: Tensor
    ) -> Tensor:
        z, back = z.index_select(0, order), order.argsort()
        ctx.groups = groups
        ctx.save_for_backward(z, weights, order, back)
        out = z.new_empty(len(z), biases.shape[1])
        owners = weights.transpose(1, 2), biases.unsqueeze(1)
        for x, y, w, b in _grouped(groups, (z, out), owners):
            torch.baddbmm(b, x, w, out=y)
        return out.index_select(0, back)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("a batch of several tasks has no second derivatives (create_graph)")
        z, weights, order, back = ctx.saved_tensors
        of_z, of_weights = torch.empty_like(z), torch.empty_like(weights)
        of_biases = weights.new_empty(weights.shape[:2])
        rows = (gradient.index_select(0, order), z, of_z)
        heads = (weights, of_weights, of_biases)
        for g, x, of_x, w, of_w, of_b in _grouped(ctx.groups, rows, heads):
            torch.bmm(g, w, out=of_x)
            torch.bmm(g.transpose(1, 2), x, out=of_w)
            torch.sum(g, 1, out=of_b)
        return of_z.index_select(0, back), None, None, of_weights, of_biases


def _grouped(
    groups: Groups, rows: tuple[Tensor, ...], heads: tuple[Tensor, ...]
) -> Iterator[tuple[Tensor, ...]]:
    """For each group, its part of `rows`, as (tasks, rows, ...), and of `heads`."""
    tasks, samples = [n for n, _ in groups], [n * size for n, size in groups]
    parts = zip(*(part.split(samples) for part in rows), strict=True)
    owners = zip(*(part.split(tasks) for part in heads), strict=True)
    for (n, size), of_rows, of_heads in zip(groups, parts, owners, strict=True):
        yield (*(part.view(n, size, -1) for part in of_rows), *of_heads)


class TaskNet(MultiTaskModule):
    """A network whose `forward(x, task_labels)` routes samples by task. All heads exist at once.

    Subclasses define `forward_single_task` or override `forward`.
    """

    def adaptation(self, experience: Any) -> None:
        pass

    def forward(self, x: Tensor, task_labels: Tensor | int) -> Tensor:
        return by_task(x, task_labels, self.forward_single_task)


class Features(NamedTuple):
    """One forward pass: inputs, the trunk's features, and the outputs made of them."""

    x: Tensor
    z: Tensor
    out: Tensor


def _read_width(network: nn.Module, keys: Any) -> None:
    """After a load; a number in Python, as reading it from a GPU at every step would wait."""
    network.width = int(network.shown)  # type: ignore[assignment, arg-type]


class MultiHead(TaskNet):
    """A shared trunk and one linear head per task.

    With `seen` it has one head for all tasks. It shows the first `seen[k]` outputs when task k has
    begun: those of classes to come neither predict nor learn.
    """

    def __init__(
        self, trunk: Backbone, heads: Sequence[int], seen: Sequence[int] | None = None
    ) -> None:
        """The outputs of each head."""
        super().__init__()
        self.trunk = trunk
        self.heads = nn.ModuleList(nn.Linear(trunk.features, c) for c in heads)
        self.features: Features | None = None
        """The last forward pass in training mode, for losses that need its features."""
        self.seen = seen
        self.width = 0 if seen is None else seen[0]
        """Outputs of the one head that are shown."""
        if seen is not None:  # for checkpoints
            self.register_buffer("shown", torch.tensor(self.width))
            self.register_load_state_dict_post_hook(_read_width)

    @property
    def one_head(self) -> bool:
        """Whether all tasks have one head."""
        return self.seen is not None

    def adaptation(self, experience: Any) -> None:
        """Show the outputs of the classes that a training task brings."""
        if self.seen is not None and self.training:
            self.width = max(self.width, self.seen[experience.current_experience])
            self.shown.fill_(self.width)

    def __getstate__(self) -> dict[str, Any]:
        """A copy starts without `features`: a tensor with a gradient history cannot be copied."""
        return self.__dict__ | {"features": None}

    def train(self, mode: bool = True) -> "MultiHead":
        """As usual, but without a mode for heads that are `alike`: forty would take 0.1 ms."""
        if not self.alike:
            return super().train(mode)
        self.training = mode
        for child in self.children():
            if child is not self.heads:
                child.train(mode)
        return self

    def forward(self, x: Tensor, task_labels: Tensor | int | None) -> Any:
        z = self.trunk(x)
        if task_labels is None:  # Avalanche's way to get the outputs of all heads, by task
            return {k: self._classify(z, k) for k in range(len(self.heads))}
        out = self._classify(z, task_labels)
        self.features = Features(x, z, out) if self.training else None
        return out

    def _classify(self, z: Tensor, task_labels: Tensor | int) -> Tensor:
        if self.one_head:
            shown: Tensor = self.heads[0](z)
            return shown[:, : self.width]
        if isinstance(task_labels, Tensor) and _mixed(task_labels) and self.alike:
            present, groups, order = _by_size(task_labels)
            weights, biases = self._parameters_of(present)
            if z.dtype == weights[0].dtype:  # false under autocast
                stacked = torch.stack(weights), torch.stack(biases)
                out: Tensor = _Linears.apply(z, order, groups, *stacked)
                return out
        return by_task(z, task_labels, lambda z, k: self.heads[k](z))

    def outputs(self, z: Tensor, tasks: Sequence[int]) -> Tensor:
        """Outputs of several heads that are `alike`, (B, C, tasks), for one softmax over C."""
        weight, bias = map(torch.cat, self._parameters_of(tasks))
        out = nn.functional.linear(z, weight, bias)
        return out.view(len(z), len(tasks), -1).transpose(1, 2).contiguous()

    def _parameters_of(self, tasks: Sequence[int]) -> tuple[list[Any], list[Any]]:
        """Weights and biases of heads; by `head.weight` this would be far slower."""
        owned = [head._parameters for head in self.heads]
        return [owned[k]["weight"] for k in tasks], [owned[k]["bias"] for k in tasks]

    @property
    def alike(self) -> bool:
        """Whether all heads are plain linear layers of one width, each with a bias."""
        linear = [head for head in self.heads if type(head) is nn.Linear]
        owned = [head._parameters for head in linear]
        plain = all(own.get("weight") is not None and own.get("bias") is not None for own in owned)
        one_width = len({head.out_features for head in linear}) == 1
        return plain and one_width and len(linear) == len(self.heads)
