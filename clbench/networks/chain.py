"""The chain of layers of a backbone, for networks that rebuild it: HAT's and PNN's."""

from dataclasses import dataclass

from torch import Tensor, nn

from clbench.networks.backbones import Backbone


@dataclass(frozen=True)
class Block:
    """A layer with weights, and the modules between it and the next such layer."""

    layer: nn.Linear | nn.Conv2d
    end: list[nn.Module]

    @property
    def units(self) -> int:
        """Outputs: units, or channels."""
        return self.layer.weight.shape[0]

    @property
    def inputs(self) -> int:
        return self.layer.weight.shape[1]


def blocks(trunk: Backbone) -> list[Block]:
    """The chain of a backbone's layers, without flattening: `enter` flattens."""
    found: list[Block] = []
    chain = getattr(trunk, "layers", None)
    if not isinstance(chain, nn.Sequential):
        raise TypeError(f"{type(trunk).__name__} is not a chain of layers")
    for module in chain:
        if isinstance(module, nn.Linear | nn.Conv2d):
            found.append(Block(module, []))
        elif any(True for _ in module.parameters()):
            raise TypeError(f"{type(module).__name__} is neither nn.Linear nor nn.Conv2d")
        elif found and not isinstance(module, nn.Flatten):
            found[-1].end.append(module)
    return found


def enter(layer: nn.Module, x: Tensor) -> Tensor:
    """The layer's output; images are flattened for a linear layer."""
    out: Tensor = layer(x.flatten(1) if isinstance(layer, nn.Linear) else x)
    return out
