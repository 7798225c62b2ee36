"""Fine-tuning: one network learns task after task, without any protection (ORD-FT)."""

from clbench.method import Method
from clbench.networks import ordinary
from clbench.stream import Stream
from clbench.training import Strategy


class FineTune(Method):
    """Plain training on one task after the other: the lower bound."""

    title = "ORD-FT"
    family = "reference"
    paper = "Ebrahimi et al., Adversarial Continual Learning, ECCV 2020 (row ORD-FT)"

    def build(self, stream: Stream) -> Strategy:
        return Strategy(model=ordinary(stream), stream=stream)
