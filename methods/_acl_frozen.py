"""What a frozen S of ACL said of samples, so that it is not asked the same again."""

from typing import Any

import torch
from torch import Tensor

from clbench.loader import TensorLoader
from clbench.networks.acl import ACLNet
from clbench.stream import Split


class FrozenLatents:
    """Lets samples carry their z_S, while S does not learn.

    Training and validation data come back in every epoch, test data after every task. All that S
    said is forgotten as soon as a weight of S is not what it was, so that a test tells of the
    network as it is.
    """

    def __init__(self) -> None:
        self.weights: list[Tensor] = []
        self.kept: dict[int, tuple[Split, Tensor, bool]] = {}
        """Data, their z_S, and whether they are for tests, by the id of the data."""

    def keep_tests(self) -> None:
        """Forget the data of the task that is over."""
        self.kept = {key: found for key, found in self.kept.items() if found[2]}

    def put_into(self, strategy: Any, test: bool = False) -> None:
        """The samples of the strategy's loader carry z_S, if that can be."""
        loader, model = strategy.dataloader, strategy.model
        if not isinstance(loader, TensorLoader):
            return
        loader.known = None
        if not model.frozen or loader.x is None or len(loader.splits) > 1:
            return
        if strategy.stream.protocol.autocast or loader.home.type != strategy.device.type:
            return  # samples of another device are copied to the network's, and lose it
        split = loader.splits[0]
        loader.known = self.known(model, split)
        if loader.known is None:
            parts = loader.x.split(strategy.eval_mb_size)
            with torch.no_grad():
                loader.known = torch.cat([model.shared(model.scaled(x)) for x in parts])
            self.kept[id(split)] = (split, loader.known, test)

    def known(self, model: ACLNet, split: Split) -> Tensor | None:
        """The z_S of all samples of a split, if S was asked and is what it was then."""
        assert model.shared is not None
        weights = list(model.shared.state_dict().values())
        if not self.weights or not all(map(torch.equal, self.weights, weights)):
            self.weights, self.kept = [weight.clone() for weight in weights], {}
        return self.kept[id(split)][1] if id(split) in self.kept else None
