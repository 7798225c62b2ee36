"""Progressive Neural Networks (Rusu et al., 2016).

Each task has its own column, which reads the frozen columns of all earlier tasks through laterals;
`clbench.networks.pnn` has the formula. The outputs of a column do not change after its task, so
nothing is forgotten. All columns exist from the start and count as architecture. The cost of a step
grows with the number of earlier tasks.

A column's layers have `width` times the units of the ordinary network. The default is 1.117 / tasks
for the AlexNet, as in HAT's comparison (all columns together are then about as large as one
ordinary network), and a quarter for the MLP, 64 units.

Differs from the paper in: the networks have dropout, and earlier columns run without it; U has no
bias of its own. Between the last convolution and the first full layer, V is a 1x1 convolution
before the flattening; a full V after it, as in HAT's comparison, has 89 million weights at 84
pixels.
"""

import torch

from clbench.declare import PositiveFloat
from clbench.method import Method
from clbench.networks import backbone
from clbench.networks.pnn import PNNNet
from clbench.stream import Stream
from clbench.training import Strategy


class PNN(Method):
    """A new column of layers for each task, fed by the frozen columns of earlier ones."""

    title = "PNN"
    family = "structure"
    scenarios = ("task",)
    paper = "Rusu et al., Progressive Neural Networks, 2016"
    zero_forgetting = True
    backbones = ("mlp", "alexnet")  # the paper has no laterals for batch norm and shortcuts

    width: PositiveFloat | None = None
    """units per layer of a column, relative to the ordinary network; none: a quarter for the MLP,
    1.117 / tasks for the AlexNet"""

    def build(self, stream: Stream) -> Strategy:
        usual = 0.25 if stream.backbone == "mlp" else 1.117 / len(stream)
        with torch.device("meta"):  # only the structure is needed
            trunk = backbone(stream.backbone, stream.input_shape)
        model = PNNNet(trunk, stream.classes, self.width or usual)
        return Strategy(model=model, stream=stream)
