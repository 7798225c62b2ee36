"""Keeps z_S of the samples while ACL's S is frozen, so that S runs once per sample."""

from typing import Any

import torch
from torch import Tensor

from clbench.loader import TensorLoader
from clbench.stream import Split

from ._acl_net import ACLNet


class FrozenLatents:
    """Gives the strategy's loader the z_S of its samples while S does not learn.

    All kept z_S are dropped when a weight of S changes, so a test measures the network as it is.
    """

    def __init__(self) -> None:
        self.weights: list[Tensor] = []
        """The weights of S that the kept z_S were computed with."""
        self.kept: dict[int, tuple[Split, Tensor, bool]] = {}
        """By the id of a split: the split, its z_S, and whether it is test data."""

    def keep_tests(self) -> None:
        """Drop the training and validation data of the task that is over."""
        self.kept = {key: found for key, found in self.kept.items() if found[2]}

    def put_into(self, strategy: Any, test: bool = False) -> None:
        """Let the strategy's loader give z_S with each batch, if S is frozen and the data fit."""
        loader, model = strategy.dataloader, strategy.model
        if not isinstance(loader, TensorLoader):
            return
        loader.known = None
        if not model.frozen or loader.x is None or len(loader.splits) > 1:
            return
        if strategy.stream.protocol.autocast or loader.home.type != strategy.device.type:
            return  # the network gets copies of the batches, on its own device
        split = loader.splits[0]
        loader.known = self.known(model, split)
        if loader.known is None:
            parts = loader.x.split(strategy.eval_mb_size)
            with torch.no_grad():
                loader.known = torch.cat([model.shared(model.scaled(x)) for x in parts])
            self.kept[id(split)] = (split, loader.known, test)

    def known(self, model: ACLNet, split: Split) -> Tensor | None:
        """The z_S of all samples of a split, if they were computed with the present S."""
        assert model.shared is not None
        weights = list(model.shared.state_dict().values())
        if not self.weights or not all(map(torch.equal, self.weights, weights)):
            self.weights, self.kept = [weight.clone() for weight in weights], {}
        return self.kept[id(split)][1] if id(split) in self.kept else None
