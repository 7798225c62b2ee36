"""Hard Attention to the Task (Serra et al., ICML 2018).

Every hidden unit has a gate a = sigmoid(s e) per task, learned with the weights by

    loss = CE + strength * R,   R = sum_l,i a_li (1 - c_li) / sum_l,i (1 - c_li)

where c is the elementwise maximum of the gates of past tasks, so claimed units cost nothing. Over
the batches of each epoch s rises from 1/smax to smax, so the gates end near 0 or 1. The gradient of
a weight is multiplied by 1 - min(c of the unit above, c of the unit below), which protects the
units that past tasks claimed. The gradient of an embedding is multiplied by

    smax/s * (cosh(clamp(s e, -50, 50)) + 1) / (cosh(e) + 1)

which compensates the shrinking slope of the sigmoid, and e stays between -6 and 6. clbench counts
HAT as a structure method, for its masks; the ACL paper calls it regularization-based.

In a stock strategy of Avalanche, the optimizer must have no weight decay, and momentum only if each
task starts with a new optimizer: both move weights whose gradient is zero. The embeddings then
share its learning rate; clbench gives them plain SGD.

Differs from the paper in: gradient norms are not clipped (the public code clips them at 10,000). As
in that code, the validation loss that chooses the epoch includes strength * R.
"""

from typing import Any

import torch
from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor

from clbench.declare import Fraction, NonNegativeFloat, PositiveFloat, PositiveInt
from clbench.memory import Memory, of_tensors
from clbench.method import Method
from clbench.networks import MLP, Backbone, backbone
from clbench.networks.hat import HATNet
from clbench.stream import Stream
from clbench.training import Strategy

EMBEDDING_LIMIT = 6.0
COSH_LIMIT = 50.0


def slope(batch: int, batches: int, smax: float) -> float:
    """s of batch 0, 1, ... of an epoch: from 1/smax in the first to smax in the last."""
    if batches < 2:
        return smax
    return 1 / smax + (smax - 1 / smax) * batch / (batches - 1)


def regulariser(gates: list[Tensor], unclaimed: list[Tensor], units: float) -> Tensor:
    """R: the opened share of the units that past tasks left free (1 - c, `units` in sum)."""
    used = sum(((a * u).sum() for a, u in zip(gates, unclaimed, strict=True)), torch.zeros(()))
    return used / max(units, 1e-12)  # if no unit is free, used is 0 too


def compensation(e: Tensor, s: float, smax: float) -> Tensor:
    """The factor on the gradient of an embedding."""
    bounded = (s * e).clamp(-COSH_LIMIT, COSH_LIMIT)
    return smax / s * (bounded.cosh() + 1) / (e.cosh() + 1)


class HATPlugin(SupervisedPlugin):
    """Trains a `HATNet`: anneals its gates, and protects the units that past tasks claimed."""

    derived = ("_free", "_unclaimed")

    def __init__(self, strength: float = 0.75) -> None:
        super().__init__()
        self.strength = strength
        self.k = 0
        self._claim([])
        self._free: list[tuple[Tensor, Tensor]] = []  # per layer, factors of weight and bias

    def _claim(self, gates: list[Tensor]) -> None:
        """Keep c: per layer, the elementwise maximum of the gates of past tasks."""
        self.claimed, unclaimed = gates, [1 - c for c in gates]
        self._unclaimed = (unclaimed, sum(float(u.sum()) for u in unclaimed))

    def parameter_groups(self, model: HATNet) -> list[dict[str, Any]]:
        """The embeddings learn by plain SGD."""
        embeddings = list(model.embeddings.parameters())
        return [{"params": embeddings, "momentum": 0.0, "weight_decay": 0.0}]

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        model: HATNet = strategy.model
        self.k = int(strategy.experience.task_labels[0])
        self._free = free(model, self.claimed) if self.claimed else []
        nothing = [torch.zeros(n, device=strategy.device) for n in model.units]
        self._claim(self.claimed or nothing)

    def before_forward(self, strategy: Any, **kwargs: Any) -> None:
        at, of = strategy.clock.train_epoch_iterations, len(strategy.dataloader)
        strategy.model.s = slope(at, of, strategy.model.smax)

    def before_backward(self, strategy: Any, **kwargs: Any) -> None:
        strategy.loss = strategy.loss + self._penalty(strategy)

    def _penalty(self, strategy: Any) -> Tensor:
        return self.strength * regulariser(strategy.model.gates(self.k), *self._unclaimed)

    @torch.no_grad()
    def after_backward(self, strategy: Any, **kwargs: Any) -> None:
        model: HATNet = strategy.model
        if self._free:  # not in the first task
            layers: Any = model.layers
            for layer, (weight, bias) in zip(layers, self._free, strict=True):
                layer.weight.grad *= weight
                layer.bias.grad *= bias
        for e in model.embedding(self.k):
            assert e.grad is not None
            e.grad *= compensation(e, model.s, model.smax)

    @torch.no_grad()
    def after_update(self, strategy: Any, **kwargs: Any) -> None:
        for e in strategy.model.embedding(self.k):
            e.clamp_(-EMBEDDING_LIMIT, EMBEDDING_LIMIT)

    def after_eval_iteration(self, strategy: Any, **kwargs: Any) -> None:
        origin = getattr(strategy.experience, "origin_stream", None)
        if getattr(origin, "name", "") == "valid":
            strategy.loss = strategy.loss + self._penalty(strategy)

    @torch.no_grad()
    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        gates = strategy.model.gates(self.k, strategy.model.smax)
        self._claim([torch.maximum(c, a) for c, a in zip(self.claimed, gates, strict=True)])

    def diagnostics(self, strategy: Any) -> dict[str, Any]:
        """The share of each layer that past tasks claimed, in percent."""
        return {"used_capacity": [100 * float(c.mean()) for c in self.claimed]}

    def memory(self) -> Memory:
        return Memory(auxiliary=of_tensors(self.claimed))

    def state_dict(self) -> dict[str, Any]:
        return {"claimed": self.claimed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._claim(state["claimed"])


def free(model: HATNet, claimed: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """The factors on the gradients of each layer's weight and bias."""
    factors = []
    below = None  # c of the layer's inputs; the first layer has no layer below
    for layer, c, repeats in zip(model.layers, claimed, model.repeats, strict=True):
        weight: Any = layer.weight  # (out, in) or (out, in, kh, kw)
        kept = c.view(-1, *[1] * (weight.dim() - 1)).expand(len(c), *weight.shape[1:])
        if below is not None:
            inputs = below.repeat_interleave(repeats).view(1, -1, *[1] * (weight.dim() - 2))
            kept = torch.minimum(kept, inputs)
        factors.append((1 - kept, 1 - c))
        below = c
    return factors


class HAT(Method):
    """Each task learns which units it uses, and the units of past tasks are protected."""

    title = "HAT"
    family = "structure"
    scenarios = ("task",)
    paper = "Serra et al., Overcoming Catastrophic Forgetting with Hard Attention to the Task, 2018"
    lays_open = {
        "used_capacity": {
            "title": "Share of each layer that tasks have claimed",
            "kind": "layers",
            "unit": "%",
        }
    }
    protocol = {"momentum": 0.0, "weight_decay": 0.0, "optimizer": "sgd"}
    fixed = {
        "weight_decay": "it would shrink the weights that past tasks have claimed",
        "optimizer": "the weights of past tasks are protected by small gradients, and Adam takes "
        "steps of one size for gradients of any size",
    }
    backbones = ("mlp", "alexnet")  # batch norm and shortcuts have no gates

    strength: NonNegativeFloat = 0.75
    """lambda: weight of the regulariser, which counts the free units that a task opens"""
    smax: PositiveFloat = 400.0
    """steepest slope of the gates, reached at the end of an epoch and used in tests"""
    width: PositiveInt = 256
    """units per hidden layer, if the network is an MLP"""
    input_dropout: Fraction = 0.2
    """share of inputs dropped in training, if the network is an MLP"""
    dropout: Fraction = 0.5
    """share of hidden units dropped in training, if the network is an MLP"""

    search = {"strength": "log 0.05..5", "smax": "log 50..1000"}
    tuned = {
        "split-mnist-5k": {"lr": 0.2},
        "split-mnist": {"lr": 0.2},
        # the width of the published 97.4 % and 2.8 MB; the rest is chosen by validation data
        "permuted-mnist": {"width": 500, "strength": 2.0, "input_dropout": 0.0, "dropout": 0.0},
    }

    def build(self, stream: Stream) -> Strategy:
        trunk: Backbone
        if stream.backbone == "mlp":
            trunk, drop = MLP(stream.input_shape, self.width), (self.input_dropout, self.dropout)
        else:  # has its own dropout
            trunk, drop = backbone(stream.backbone, stream.input_shape), (0.0, 0.0)
        model = HATNet(trunk, stream.classes, self.smax, *drop)
        return Strategy(model=model, stream=stream, plugins=[HATPlugin(self.strength)])

    def refuses(self, stream: Stream) -> str:
        if 1.0 in (self.input_dropout, self.dropout):
            return "a dropout of 1 leaves nothing to learn from."
        return ""
