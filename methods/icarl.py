"""iCaRL, incremental classifier and representation learning (Rebuffi et al., CVPR 2017).

Exemplars, at most `buffer` in all, join the training data of each task. With g_c the sigmoid of
output c, and q_c that of the network before the task, the loss of a sample (x, y) is a sum of
binary cross-entropies

    loss = sum over new classes c of BCE(g_c(x), [c = y])  +  sum over old c of BCE(g_c(x), q_c(x))

Let u(x) be the features below the head, scaled to length 1. After a task with t classes seen so
far, each class has m = buffer / t exemplars, rounded down. Old classes keep their first m. A new
class c takes the one after the other whose mean comes nearest to the mean of u over its samples
(herding),

    p_k = argmin_x || mean_c - (u(x) + u(p_1) + ... + u(p_k-1)) / k ||

A test takes the class whose exemplars have the nearest mean of u, the mean scaled to length 1 too.
All means are of the network as it is, so they follow the features.

It is for one head over all classes, so it refuses `task` and `domain`: both have no outputs of old
classes to distil, or no new ones.

Differs from the paper in: the loss is the mean over samples of the sum over classes, as in the
paper's formula, while its code has the mean over classes too, with a learning rate of 2; means are
of exemplars alone, not of their mirror images too, which that code adds; the shared schedule
chooses the epoch by this loss on validation data of the current task.
"""

import copy
from typing import Any

import torch
from avalanche.models import avalanche_forward
from torch import Tensor, nn
from torch.nn import functional as F

from clbench.declare import PositiveInt
from clbench.loader import batches, labels, samples
from clbench.memory import Memory, of_model
from clbench.method import Method
from clbench.networks import ordinary
from clbench.networks.backbones import least_batch
from clbench.stream import Stream
from clbench.training import Strategy
from clbench.training.buffers import Buffer, Union, capacity, too_small
from clbench.training.nearest import NearestMeanPlugin, unit_features


def herd(z: Tensor, n: int) -> Tensor:
    """Indices of n rows, or of all if there are fewer: each next row brings the mean of those
    chosen nearest to the mean of all."""
    mean, total = z.mean(0), torch.zeros_like(z[0])
    chosen: list[int] = []
    for k in range(1, min(n, len(z)) + 1):
        gaps = (mean - (total + z) / k).square().sum(1)
        gaps[chosen] = torch.inf
        chosen.append(int(gaps.argmin()))
        total = total + z[chosen[-1]]
    return torch.tensor(chosen, dtype=torch.long)


class ICaRLPlugin(NearestMeanPlugin):
    """Distils, replays exemplars, and predicts by their nearest mean."""

    derived = ("_means",)

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        """The most exemplars in all."""
        self.buffer = Buffer()
        """Exemplars, those of a class one after the other, as they were chosen."""
        self.old: nn.Module | None = None
        """The network before the current task; none in the first."""
        self.known = 0
        """The number of classes of past tasks."""
        self._means: tuple[Tensor, Tensor] | None = None

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        super().before_training_exp(strategy, **kwargs)
        self._means = None
        if len(self.buffer):
            self.old = copy.deepcopy(strategy.model).eval()
            self.known = int(self.buffer.columns["y"].max()) + 1
            new, size = len(strategy.experience.dataset), strategy.train_mb_size
            least = least_batch(strategy.model)
            strategy.dataloader = Union(strategy.dataloader, new, self.buffer, size, least)

    def before_backward(self, strategy: Any, **kwargs: Any) -> None:
        strategy.loss = self.loss(strategy)

    def after_eval_iteration(self, strategy: Any, **kwargs: Any) -> None:
        if self.learning:
            strategy.loss = self.loss(strategy)

    def loss(self, strategy: Any) -> Tensor:
        """Of the strategy's batch."""
        out, y = strategy.mb_output, strategy.mb_y
        wanted = F.one_hot(y, out.shape[1]).to(out)  # (B, classes)
        if self.old is not None:
            with torch.no_grad():
                then = avalanche_forward(self.old, strategy.mb_x, strategy.mb_task_id)
            wanted[:, : self.known] = then[:, : self.known].sigmoid()
        return F.binary_cross_entropy_with_logits(out, wanted, reduction="sum") / len(y)

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        super().after_training_exp(strategy, **kwargs)
        dataset = strategy.experience.dataset
        parts = batches(dataset, strategy.eval_mb_size)
        z = torch.cat([unit_features(strategy.model, b[0].to(strategy.device)) for b in parts])
        y, _ = labels(dataset)
        new, old = y.unique().tolist(), self.buffer.columns["y"].unique().tolist()
        each = self.size // len({*new, *old})
        self._reduce(old, each)
        for label in new:
            rows = (y == label).nonzero().flatten()
            self.buffer.append(*samples(dataset, rows[herd(z[rows], each).to(rows)]))

    def _reduce(self, classes: list[int], each: int) -> None:
        """Keep the first exemplars of each class."""
        y = self.buffer.columns["y"]
        kept = [(y == label).nonzero().flatten()[:each] for label in classes]
        if kept:
            rows = torch.cat(kept)
            self.buffer.columns = {n: c[rows] for n, c in self.buffer.columns.items()}

    def means(self, model: nn.Module, task: int) -> tuple[Tensor, Tensor]:
        if self._means is None:
            x, y, _ = self.buffer.columns.values()
            device = next(model.parameters()).device
            known = y.unique()
            of_each = [unit_features(model, x[y == label].to(device)).mean(0) for label in known]
            self._means = known, torch.stack(of_each) if of_each else torch.empty(0)
        return self._means

    def memory(self) -> Memory:
        """Exemplars, and the old network that the next task needs."""
        return self.buffer.memory() + Memory(
            auxiliary=of_model(self.old) if self.old is not None else 0
        )

    def state_dict(self) -> dict[str, Any]:
        return self.buffer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.buffer.load_state_dict(state)
        self._means = None


class ICaRL(Method):
    """Distillation and exemplars, and tests by the nearest mean of exemplars."""

    title = "iCaRL"
    family = "memory"
    replay_size = "per_class"
    paper = "Rebuffi et al., iCaRL: Incremental Classifier and Representation Learning, CVPR 2017"
    scenarios = ("class",)

    per_class: PositiveInt = 13
    """exemplars in all, per class of all tasks; while there are fewer classes, each has more"""
    buffer: PositiveInt | None = None
    """exemplars in all; none: `per_class` gives them"""

    def refuses(self, stream: Stream) -> str:
        return too_small(stream, self.buffer)

    def build(self, stream: Stream) -> Strategy:
        plugin = ICaRLPlugin(capacity(stream, self.per_class, self.buffer))
        return Strategy(model=ordinary(stream), stream=stream, plugins=[plugin])
