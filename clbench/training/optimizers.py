"""The optimizer of a training protocol."""

from typing import Any

import torch

from clbench.protocol import Protocol


def make_optimizer(groups: list[dict[str, Any]], p: Protocol) -> torch.optim.Optimizer:
    """SGD, Adam or AdamW over groups of parameters, which may have options of their own."""
    if p.optimizer == "sgd":
        return torch.optim.SGD(
            groups, lr=p.lr, momentum=p.momentum, weight_decay=p.weight_decay, foreach=True
        )
    kind = torch.optim.Adam if p.optimizer == "adam" else torch.optim.AdamW
    betas = (p.beta1, p.beta2)
    # a group's momentum is for SGD: Adam would keep it without using it
    groups = [{k: v for k, v in group.items() if k != "momentum"} for group in groups]
    return kind(groups, lr=p.lr, betas=betas, eps=p.eps, weight_decay=p.weight_decay, foreach=True)
