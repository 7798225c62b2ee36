"""What a strategy answers in tests, counted batch by batch."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from clbench.scenario import CLASS
from clbench.stream import Stream


@dataclass
class Tally:
    """Right answers and the sum of the losses; in the scenario `class` also how many answers are
    right if the task is given, and in which task's classes the answers lie."""

    stream: Stream
    correct: float = 0.0
    loss: float = 0.0
    seen: int = 0
    correct_given: int = 0
    """Right answers if only the outputs of the task's own classes compete."""
    tasks: list[int] = field(default_factory=list)
    """Answers per task that owns the predicted class; empty in other scenarios."""

    def __post_init__(self) -> None:
        if self.stream.scenario == CLASS:
            self.tasks = [0] * len(self.stream)
            self._owner = _owners(self.stream.labels)

    def add(self, out: Tensor, y: Tensor, loss: Tensor, k: int) -> None:
        """A batch of outputs (B, C) with its labels; `k` is the task that it belongs to."""
        answers = out.argmax(1)
        self.correct += float((answers == y).sum())
        self.loss += float(loss) * len(y)
        self.seen += len(y)
        if self.tasks:
            own = torch.tensor([c for c in self.stream.labels[k] if c < out.shape[1]])
            among = own.to(out.device)
            given = among[out.index_select(1, among).argmax(1)]
            self.correct_given += int((given == y).sum())
            owners = self._owner[answers.cpu().clamp_max(len(self._owner) - 1)]
            counts = owners.bincount(minlength=len(self.tasks)).tolist()
            self.tasks = [a + b for a, b in zip(self.tasks, counts, strict=True)]

    @property
    def accuracy(self) -> float:
        """In percent."""
        return 100.0 * self.correct / self.seen

    @property
    def mean_loss(self) -> float:
        return self.loss / self.seen

    @property
    def accuracy_given(self) -> float:
        """In percent, with the task given."""
        return 100.0 * self.correct_given / self.seen

    @property
    def shares(self) -> list[float]:
        """Percent of the answers that lie in each task's classes."""
        return [100.0 * count / self.seen for count in self.tasks]


def _owners(labels: Sequence[Sequence[int]]) -> Tensor:
    """The first task of each class."""
    owner: dict[int, int] = {}
    for k, own in enumerate(labels):
        for label in own:
            owner.setdefault(label, k)
    return torch.tensor([owner[label] for label in range(len(owner))])
