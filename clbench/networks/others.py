"""Networks from outside clbench as backbones: torchvision's, timm's, and a user's function.

The last layer of a library's model, the classifier, is removed. If inputs do not have three
channels, the first convolution is a new one with as many channels as they have; images are never
changed. One forward pass finds the width of the features.
"""

import copy
import hashlib
import io
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from clbench.backbone import Network
from clbench.errors import UserError, unknown
from clbench.files import brief, read_bounded, shown
from clbench.limits import CHECKPOINT
from clbench.networks.backbones import Backbone
from clbench.registry import import_class

CLASSES = 1000
"""Outputs of a library's model before its classifier is removed."""
LEAST = 8
"""Samples of a batch that batch normalisation needs: with one it fails, and with two or three that
are alike its gradients are so large that the network can be lost in one step."""


class Wrapped(Backbone):
    """A module that gives features, as a backbone; features of other shapes are flattened."""

    def __init__(self, module: nn.Module, name: str, input_shape: Sequence[int]) -> None:
        super().__init__()
        self.network = module
        normed = any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in module.modules())
        self.least_batch = LEAST if normed else 1
        self.features = self._width(name, tuple(input_shape))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.network(x)
        return out.flatten(1)

    def _width(self, name: str, shape: tuple[int, ...]) -> int:
        """The width of the features of two blank images; in training mode a test changes nothing
        either, because it is made with a copy of the random state and the buffers."""
        size = "x".join(map(str, shape))
        kept = copy.deepcopy(self.network.state_dict())
        widths = []
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            for mode in (True, False):
                self.network.train(mode)
                try:
                    out = self.network(torch.zeros(2, *shape))
                except Exception as error:
                    raise UserError(
                        f"{name} cannot take images of {size}: {type(error).__name__}: "
                        f"{brief(error)}"
                    ) from None
                if not isinstance(out, Tensor) or not out.is_floating_point():
                    kind = type(out).__name__
                    raise UserError(f"{name} must give a tensor of features; it gives a {kind}.")
                if out.dim() < 2 or len(out) != 2 or not out[0].numel():
                    raise UserError(
                        f"{name} must give features for each image, (B, width); for a batch of 2 "
                        f"images of {size} it gives the shape {tuple(out.shape)}."
                    )
                widths.append(out[0].numel())
        if len(set(widths)) > 1:
            raise UserError(
                f"{name} gives {widths[0]} features in training and {widths[1]} in tests."
            )
        self.network.load_state_dict(kept)
        self.network.train()
        return widths[0]


def foreign(network: Network, input_shape: Sequence[int]) -> Wrapped:
    """A fresh network from a library or a user's function; a UserError says what does not fit."""
    build = {"torchvision": _torchvision, "timm": _timm}.get(network.library, _users)
    return Wrapped(build(network, tuple(input_shape)), network.name, input_shape)


def _users(network: Network, shape: tuple[int, ...]) -> nn.Module:
    assert network.code is not None
    function = import_class(network.code)
    call = f"{shown(network.code.path)}: {network.code.class_name}({shape})"
    try:
        made = function(shape)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{call} raised {type(error).__name__}: {brief(error)}") from error
    if not isinstance(made, nn.Module):
        raise UserError(f"{call} must return an nn.Module; it returned a {type(made).__name__}.")
    return made


def _torchvision(network: Network, shape: tuple[int, ...]) -> nn.Module:
    from torchvision import models

    known = models.list_models(module=models)
    if network.model not in known:
        raise unknown("torchvision model", network.model, known)
    options: dict[str, Any] = {}
    if network.model in ("googlenet", "inception_v3"):  # else they give several outputs
        options = {"aux_logits": False, "init_weights": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = models.get_model(network.model, weights=None, num_classes=CLASSES, **options)
    _take_channels(model, network.name, shape[0])
    classifier = _last(model, network.name)
    _replace(model, classifier, nn.Identity())
    if network.weights is not None:
        _load(model, network, (f"{classifier}.", "aux1.", "aux2.", "AuxLogits."))
    return model


def _take_channels(model: nn.Module, name: str, channels: int) -> None:
    """Replace the first convolution of a fresh model by one for inputs of so many channels."""
    where, first = next(
        ((n, m) for n, m in model.named_modules() if isinstance(m, nn.Conv2d)), ("", None)
    )
    if first is None or first.in_channels == channels:
        return
    if first.groups != 1:
        raise UserError(f"{name} cannot take images of {channels} channels.")
    new = nn.Conv2d(
        channels,
        first.out_channels,
        first.kernel_size,  # type: ignore[arg-type]
        first.stride,  # type: ignore[arg-type]
        first.padding,  # type: ignore[arg-type]
        bias=first.bias is not None,
    )
    _replace(model, where, new)


def _replace(model: nn.Module, where: str, new: nn.Module) -> None:
    parent, _, last = where.rpartition(".")
    setattr(model.get_submodule(parent), last, new)


def _last(model: nn.Module, name: str) -> str:
    """The name of the classifier: the last layer with as many outputs as there are classes."""
    found = ""
    for where, module in model.named_modules():
        if isinstance(module, nn.Linear | nn.Conv2d) and module.weight.shape[0] == CLASSES:
            found = where
    if not found:
        raise UserError(f"{name} has no classifier that can be removed.")
    return found


def _timm(network: Network, shape: tuple[int, ...]) -> nn.Module:
    import timm

    try:
        model: nn.Module = timm.create_model(
            network.model, pretrained=False, num_classes=0, in_chans=shape[0]
        )
    except RuntimeError as error:
        if "Unknown model" not in str(error):
            raise UserError(f"{network.name} cannot be built: {brief(error)}") from None
        raise unknown("timm model", network.model, timm.list_models()) from None
    except (TypeError, AssertionError, ValueError) as error:
        raise UserError(f"{network.name} cannot be built: {brief(error)}") from None
    if network.weights is not None:
        heads = getattr(model, "pretrained_cfg", {}).get("classifier") or ()
        heads = (heads,) if isinstance(heads, str) else heads
        _load(model, network, tuple(f"{head}." for head in heads))
    return model


def _load(model: nn.Module, network: Network, without: tuple[str, ...]) -> None:
    """Load the weights of a local file, which may hold only tensors; a classifier is left out."""
    path, name = network.weights, network.name
    assert path is not None
    try:
        content = read_bounded(path, CHECKPOINT)
        if hashlib.sha256(content).hexdigest() != network.weights_sha256:
            raise UserError(f"{shown(path)} has changed since this command read it; run it again.")
        state = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    except UserError:
        raise
    except Exception as error:  # torch.load raises many kinds
        what = brief(str(error).partition("\n")[0])
        raise UserError(f"{shown(path)} holds no weights that can be loaded: {what}") from None
    for key in ("state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or not all(isinstance(v, Tensor) for v in state.values()):
        raise UserError(f"{shown(path)} holds no weights: it must be the state dict of a model.")
    kept = {key: value for key, value in state.items() if not key.startswith(without)}
    try:
        model.load_state_dict(kept)
    except RuntimeError as error:
        what = brief(" ".join(str(error).split()))
        raise UserError(f"The weights in {shown(path)} do not fit {name}: {what}") from None
