"""A network whose hidden units are gated per task, for HAT (Serra et al., 2018).

It is made from any backbone that is a plain chain of layers. Each layer l has a gate

    a_l^t = sigmoid(s e_l^t)

with one embedding e_l^t of task t per unit, or per channel of a convolution. The gate multiplies
the output of the layer, after its ReLU, dropout and pooling. Heads are not gated.
"""

import copy
import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from clbench.networks.backbones import Backbone
from clbench.networks.chain import blocks, enter
from clbench.networks.dropout import Dropout
from clbench.networks.heads import TaskNet


class HATNet(TaskNet):
    """A gated trunk and one linear head per task; `HATPlugin` anneals `s`, and tests use `smax`."""

    def __init__(
        self,
        trunk: Backbone,
        classes: Sequence[int],
        smax: float = 400.0,
        input_dropout: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        """`dropout` follows every hidden layer, in addition to the trunk's own dropout."""
        super().__init__()
        chain = blocks(trunk)
        extra = [Dropout(dropout)] if dropout else []
        self.start = Dropout(input_dropout)
        self.layers = nn.ModuleList(block.layer for block in chain)
        ends = (nn.Sequential(*block.end, *copy.deepcopy(extra)) for block in chain)
        self.ends = nn.ModuleList(ends)
        self.units = [block.units for block in chain]
        """Gated units of each layer."""
        pairs = itertools.pairwise(chain)
        self.repeats = [1, *(after.inputs // before.units for before, after in pairs)]
        """Inputs of each layer per unit below: the positions of a flattened channel, else 1."""
        # one parameter per layer and task, so other tasks get no gradient at all
        self.embeddings = nn.ModuleList(
            nn.ParameterList(nn.Parameter(torch.randn(n)) for _ in classes) for n in self.units
        )
        self.heads = nn.ModuleList(nn.Linear(trunk.features, c) for c in classes)
        self.smax = smax
        self.s = smax

    def embedding(self, task: int) -> list[nn.Parameter]:
        """e^t of every layer."""
        return [of_layer[task] for of_layer in self.embeddings]  # type: ignore[index]

    def gates(self, task: int, s: float | None = None) -> list[Tensor]:
        """a^t of every layer, by default at the slope of the current mode."""
        if s is None:
            s = self.s if self.training else self.smax
        return [torch.sigmoid(s * e) for e in self.embedding(task)]

    def forward_single_task(self, x: Tensor, task_label: int) -> Tensor:
        x = self.start(x)
        for layer, end, gate in zip(self.layers, self.ends, self.gates(task_label), strict=True):
            x = end(enter(layer, x))
            x = x * gate.view(-1, *[1] * (x.dim() - 2))  # (B, units) or (B, channels, H, W)
        out: Tensor = self.heads[task_label](x)
        return out
