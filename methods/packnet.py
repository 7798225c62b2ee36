"""PackNet (Mallya and Lazebnik, CVPR 2018).

Each task trains all weights that no earlier task owns, on top of the owned weights. Then its
smallest weights are pruned, layer by layer. The remaining ones are trained once more without the
pruned ones, and are frozen. A task is tested with the weights of all tasks up to its own, so
nothing is forgotten. Only the first task trains the biases.

The network with its masks is Avalanche's `PackNetModel` around the trunk; heads are not pruned.
Avalanche's plugin is not used: it prunes at a given epoch, but the shared schedule decides how long
a task trains. Here both phases follow the schedule, the second for at most `retrain` epochs. Pruned
weights start again from 0, as in the paper.

Differs from the paper in: by default all tasks get equal shares of the weights, where the paper
prunes 50 % or 75 % each time, which leaves nothing after twenty tasks; the network is not
pretrained; the second phase uses the full learning rate, and its epochs come on top of those of the
protocol. With a share of 5 % early tasks learn slowly, as the remains of an untrained network pass
on little signal.
"""

from typing import Any

import torch
from avalanche.models.packnet import PackNetModel, WeightAndBiasPackNetModule
from torch import Tensor, nn

from clbench.declare import Fraction, PositiveInt
from clbench.memory import Memory
from clbench.method import Method
from clbench.networks import backbone
from clbench.networks.heads import TaskNet
from clbench.stream import Stream
from clbench.training import Strategy


class PackedNet(TaskNet):
    """A trunk whose weights belong to tasks, and one linear head per task."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        trunk = backbone(stream.backbone, stream.input_shape)
        self.trunk = PackNetModel(trunk)
        self.heads = nn.ModuleList(nn.Linear(trunk.features, c) for c in stream.classes)

    def forward_single_task(self, x: Tensor, task_label: int) -> Tensor:
        with torch.inference_mode(False):  # inference tensors could not be changed later
            self.trunk.activate_task(min(task_label, self.trunk.task_count))
        out: Tensor = self.heads[task_label](self.trunk(x, torch.tensor([task_label])))
        return out

    @property
    def packed(self) -> list[WeightAndBiasPackNetModule]:
        """The layers with masks."""
        return [m for m in self.trunk.modules() if isinstance(m, WeightAndBiasPackNetModule)]


class PackNetStrategy(Strategy):
    """Learns each task twice: with all free weights, then with the weights that it keeps."""

    HARNESS = Strategy.HARNESS | {"keep", "retrain"}
    model: PackedNet

    def __init__(self, *, keep: float | None, retrain: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.keep, self.retrain = keep, retrain

    def learn(self, k: int) -> list[dict[str, float]] | None:
        first = super().learn(k) or []
        self._prune(self.keep if self.keep is not None else 1 / (len(self.stream) - k))
        epochs = self.stream.protocol.epochs
        self.train_epochs = min(self.retrain, epochs)
        second = super().learn(k) or []
        self.train_epochs = epochs
        self.decided.pop("epochs", None)  # `retrain` is a parameter, which the row has
        self.model.trunk.freeze_pruned()
        return first + [e | {"epoch": len(first) + e["epoch"]} for e in second]

    @torch.no_grad()
    def _prune(self, keep: float) -> None:
        self.model.trunk.prune(1 - keep)
        for layer in self.model.packed:
            layer.wrappee.weight[layer.pruned_mask] = 0

    def diagnostics(self) -> dict[str, Any]:
        """The share of each layer that learned tasks own, in percent."""
        owners = [layer.task_index for layer in self.model.packed]
        done = self.model.trunk.task_count
        return {"used_capacity": [100 * float((o < done).float().mean()) for o in owners]}

    def memory(self) -> Memory:
        # prediction needs the owner of each weight, one byte
        owners = sum(layer.task_index.numel() for layer in self.model.packed)
        return super().memory() + Memory(architecture=owners)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        for layer in self.model.packed:
            layer.wrappee.bias.requires_grad_(self.model.trunk.task_count == 0)


class PackNet(Method):
    """Each task owns a part of the weights, found by pruning, and uses those of earlier tasks."""

    title = "PackNet"
    family = "structure"
    paper = "Mallya and Lazebnik, PackNet: Adding Multiple Tasks to a Single Network, CVPR 2018"
    lays_open = {
        "used_capacity": {
            "title": "Share of each layer that tasks have claimed",
            "kind": "layers",
            "unit": "%",
        }
    }
    zero_forgetting = True
    protocol = {"weight_decay": 0.0}
    fixed = {"weight_decay": "it would shrink the weights of past tasks"}
    scenarios = ("task",)
    backbones = ("mlp", "alexnet")  # the weights of batch norm cannot be divided among tasks

    keep: Fraction | None = None
    """share of the free weights that a task keeps; none: all tasks get equally many"""
    retrain: PositiveInt = 10
    """maximum number of epochs after pruning"""

    def build(self, stream: Stream) -> Strategy:
        return PackNetStrategy(
            model=PackedNet(stream), stream=stream, keep=self.keep, retrain=self.retrain
        )

    def refuses(self, stream: Stream) -> str:
        if self.keep in (0.0, 1.0):
            return f"keep={self.keep:g} leaves no weights for a task, or for later ones."
        if len(stream) > 254:
            return "the owner of a weight is kept in a byte: at most 254 tasks."
        return ""
