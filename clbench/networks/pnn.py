"""Progressive networks (Rusu et al., 2016): one column of layers per task, joined by laterals.

With h_l^k the output of layer l of column k, f its ReLU (and dropout, pooling),

    h_l^k = f( W_l^k h_{l-1}^k  +  U_l^k relu( V_l^k [alpha_l^{k,j} h_{l-1}^j] for all j < k ) )

V reduces the earlier columns, each times a learned scalar alpha, to the width of one column (a 1x1
convolution on images). U is a layer of the same kind as W. The first layer has no lateral; the head
has one.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from clbench.networks.backbones import Backbone
from clbench.networks.chain import Block, blocks, enter
from clbench.networks.dropout import Dropout
from clbench.networks.heads import TaskNet

Layer = nn.Linear | nn.Conv2d


class Lateral(nn.Module):
    """The contribution of the earlier columns to the output of a layer, before its ReLU."""

    def __init__(self, columns: int, width: int, images: bool, out: Layer) -> None:
        super().__init__()
        self.alpha = nn.Parameter(0.1 * torch.randn(columns))
        """One learned scalar per earlier column, small and random at the start."""
        inputs = columns * width
        self.v: Layer = nn.Conv2d(inputs, width, 1) if images else nn.Linear(inputs, width)
        self.u = out

    def forward(self, before: list[Tensor]) -> Tensor:
        joined = torch.cat([a * h for a, h in zip(self.alpha, before, strict=True)], 1)
        return enter(self.u, torch.relu(self.v(joined)))


class Column(nn.Module):
    """The layers and the head of one task, with laterals from `earlier` columns."""

    def __init__(self, chain: Sequence[Block], width: float, classes: int, earlier: int) -> None:
        super().__init__()
        units = [max(1, int(width * block.units)) for block in chain]
        self.layers, self.ends = nn.ModuleList(), nn.ModuleList()
        self.laterals = nn.ModuleList()  # into layers 2, 3, ... and the head
        for i, block in enumerate(chain):
            below, inputs = (chain[i - 1], units[i - 1]) if i else (None, block.inputs)
            self.layers.append(_like(block, below, inputs, units[i]))
            self.ends.append(nn.Sequential(*copy.deepcopy(block.end)))
            if below is not None and earlier:
                images = isinstance(below.layer, nn.Conv2d)
                out = _like(block, below, inputs, units[i], bias=False)
                self.laterals.append(Lateral(earlier, inputs, images, out))
        self.head = nn.Linear(units[-1], classes)
        if earlier:
            out = nn.Linear(units[-1], classes, bias=False)
            self.laterals.append(Lateral(earlier, units[-1], False, out))

    def forward(self, x: Tensor, before: list[list[Tensor]], fixed: bool) -> list[Tensor]:
        """Outputs of all layers and the head, given those `before`; no dropout if `fixed`."""
        outputs: list[Tensor] = []
        for i, layer in enumerate([*self.layers, self.head]):
            z = enter(layer, outputs[-1] if i else x)
            if i and before:
                z = z + self.laterals[i - 1]([column[i - 1] for column in before])
            for module in self.ends[i].children() if i < len(self.ends) else ():
                if not (fixed and isinstance(module, Dropout)):
                    z = module(z)
            outputs.append(z)
        return outputs


class PNNNet(TaskNet):
    """One column per task, of `width` times the trunk's units in each layer.

    A sample of task k runs through columns 1 to k; no gradient reaches the earlier ones.
    """

    def __init__(self, trunk: Backbone, classes: Sequence[int], width: float) -> None:
        """Only the structure of `trunk` is read; it may be on torch's meta device."""
        super().__init__()
        chain = blocks(trunk)
        self.columns = nn.ModuleList(Column(chain, width, c, k) for k, c in enumerate(classes))

    def adaptation(self, experience: Any) -> None:
        """Freeze the columns of earlier tasks before a task is learned."""
        if self.training:
            current = int(experience.task_labels[0])
            for k, column in enumerate(self.columns):
                column.requires_grad_(k >= current)

    def forward_single_task(self, x: Tensor, task_label: int) -> Tensor:
        before: list[list[Tensor]] = []
        with torch.no_grad():
            for column in list(self.columns)[:task_label]:
                before.append(column(x, before, fixed=True))
        outputs: list[Tensor] = self.columns[task_label](x, before, fixed=False)
        return outputs[-1]


def _like(block: Block, below: Block | None, inputs: int, units: int, bias: bool = True) -> Layer:
    """A layer of the same kind as the block's, with other widths."""
    if isinstance(block.layer, nn.Conv2d):
        like: Any = block.layer
        return nn.Conv2d(inputs, units, like.kernel_size, like.stride, like.padding, bias=bias)
    positions = block.inputs // below.units if below else 1  # per flattened channel
    return nn.Linear(inputs * positions, units, bias=bias)
