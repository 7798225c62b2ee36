"""Nearest class mean on the features of fine-tuning (after Mensink et al., TPAMI 2013).

The network learns as in fine-tuning: task after task, with a linear head, without any protection.
Its head does not predict. A test takes the class whose mean is nearest,

    argmin_c || u(x) - m_c / ||m_c|| ||,      u(x) = phi(x) / ||phi(x)||

with phi the features below the head. m_c is the mean of u over the training samples of class c,
computed when their task ends, by the network of that time, and not renewed: later training moves
the features away from it. If several tasks bring samples of class c (`domain`), m_c is the mean
over all of them. In `task` only the classes of the known task compete.

No image is kept: one sum of features and one count per class. So it is a cheap floor for what a
better classifier on forgetful features can give.
"""

from typing import Any

import torch
from torch import Tensor, nn

from clbench.loader import batches
from clbench.memory import Memory, of_tensors
from clbench.method import Method
from clbench.networks import ordinary
from clbench.stream import Stream
from clbench.training import Strategy
from clbench.training.nearest import NearestMeanPlugin, unit_features


class NCMPlugin(NearestMeanPlugin):
    """Sums up the features of each class when its task ends."""

    def __init__(self) -> None:
        super().__init__()
        self.sums: dict[tuple[int, int], Tensor] = {}
        """(task label, class) -> the sum of unit features."""
        self.counts: dict[tuple[int, int], int] = {}

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        super().after_training_exp(strategy, **kwargs)
        for batch in batches(strategy.experience.dataset, strategy.eval_mb_size):
            z = unit_features(strategy.model, batch[0].to(strategy.device)).cpu()
            for key in zip(batch[-1].tolist(), batch[1].tolist(), strict=True):
                self.sums.setdefault(key, torch.zeros(z.shape[1]))
            for task, label in list(self.sums):
                own = (batch[-1] == task) & (batch[1] == label)
                self.sums[task, label] += z[own].sum(0)
                self.counts[task, label] = self.counts.get((task, label), 0) + int(own.sum())

    def means(self, model: nn.Module, task: int) -> tuple[Tensor, Tensor]:
        known = [key for key in self.sums if key[0] == task]
        labels = torch.tensor([label for _, label in known], dtype=torch.long)
        if not known:
            return labels, torch.empty(0)
        return labels, torch.stack([self.sums[key] / self.counts[key] for key in known])

    def memory(self) -> Memory:
        return Memory(auxiliary=of_tensors(self.sums.values()))

    def state_dict(self) -> dict[str, Any]:
        return {
            "keys": [list(k) for k in self.sums],
            "sums": list(self.sums.values()),
            "counts": [self.counts[k] for k in self.sums],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        keys = [(task, label) for task, label in state["keys"]]
        self.sums = dict(zip(keys, state["sums"], strict=True))
        self.counts = dict(zip(keys, state["counts"], strict=True))


class NCM(Method):
    """Fine-tuning whose tests take the nearest class mean of the features."""

    title = "NCM"
    family = "reference"
    paper = "Mensink et al., Distance-Based Image Classification, TPAMI 2013"

    def build(self, stream: Stream) -> Strategy:
        return Strategy(model=ordinary(stream), stream=stream, plugins=[NCMPlugin()])
