"""Progressive Neural Networks (Rusu et al., 2016).

Each task gets a column of its own, which reads the frozen columns of all earlier tasks through
laterals; `clbench.networks.pnn` has the formula. What a column says never changes once its task is
over, so nothing is forgotten. All columns are there from the start and count as architecture; the
cost of a step grows with the number of earlier tasks.

A column's layers have `width` times the units of the ordinary network: by default 1.117 / tasks for
the AlexNet, as in HAT's comparison (the total is then about that of one ordinary network), and a
quarter for the MLP, 64 units.

Differs from the paper in: earlier columns run without dropout, which the paper does not have; U has
no bias beside that of W. Where images turn into a full layer, V is a 1x1 convolution before the
flattening; a full V behind it, as in HAT's comparison, takes 89 million weights at 84 pixels.
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
    paper = "Rusu et al., Progressive Neural Networks, 2016"
    zero_forgetting = True
    backbones = ("mlp", "alexnet")  # the paper has no laterals for batch norm and shortcuts

    width: PositiveFloat | None = None
    """units of a column's layers as a share of the ordinary network's; none: see above"""

    def build(self, stream: Stream) -> Strategy:
        usual = 0.25 if stream.backbone == "mlp" else 1.117 / len(stream)
        with torch.device("meta"):  # only the structure is needed
            trunk = backbone(stream.backbone, stream.input_shape)
        model = PNNNet(trunk, stream.classes, self.width or usual)
        return Strategy(model=model, stream=stream)
