"""Lays open what S, P and D of a trained ACLNet do. BWT = 0 says little if S is idle."""

from typing import Any

import torch
from torch import Tensor, nn

from clbench.networks.acl import ACLNet

from ._acl_frozen import FrozenLatents


@torch.no_grad()
def probe(
    strategy: Any, discriminator: nn.Module | None, k: int, latents: FrozenLatents
) -> dict[str, Any]:
    """After task k: the state of z_S on task k's test data, D's accuracy, and test accuracies with
    a branch taken away, on task k, and on all tasks after the last one."""
    model: ACLNet = strategy.model
    model.eval()
    tests = [task.test for task in strategy.stream.tasks]
    tasks = range(k + 1) if k == len(tests) - 1 else [k]
    found: dict[str, Any] = {"without": {}}
    for i in tasks:
        known = latents.known(model, tests[i]) if model.frozen else None
        z_s, z_p, y = _latents(model, tests[i], i, strategy, known)
        found["without"][str(i + 1)] = _without(model, z_s, z_p, y, i)
    if model.shared is not None:
        spread = z_s.std(0)
        found["shared_spread"] = float(spread.mean())
        found["shared_dead"] = float((spread <= 1e-6).float().mean())
    if discriminator is not None and model.shared is not None:
        noise = torch.randn(z_s.shape, generator=torch.Generator().manual_seed(k)).to(z_s.device)
        real = discriminator(z_s).argmax(1) == k + 1
        fake = discriminator(noise).argmax(1) == 0
        found["discriminator_real"] = 100 * float(real.float().mean())
        found["discriminator_noise"] = 100 * float(fake.float().mean())
    return found


def _latents(
    model: ACLNet, test: Any, i: int, strategy: Any, known: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    step, device = strategy.eval_mb_size, strategy.device
    parts = []
    for at in range(0, len(test), step):
        x: Any = test.inputs(slice(at, at + step)).to(device)
        x.known = None if known is None else known[at : at + step]
        parts.append(model.latents(x, i))
    z_s, z_p = (torch.cat(column) for column in zip(*parts, strict=True))
    return z_s, z_p, test.labels.to(device)


def _without(model: ACLNet, z_s: Tensor, z_p: Tensor, y: Tensor, i: int) -> dict[str, float]:
    """Test accuracy in percent, as it is and with one branch made useless."""
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(i)).to(y.device)
    variants = {
        "nothing": (z_s, z_p),
        "shared_zeroed": (torch.zeros_like(z_s), z_p),
        "shared_shuffled": (z_s[order], z_p),
        "private_zeroed": (z_s, torch.zeros_like(z_p)),
    }
    return {
        name: 100 * float((model.classify(*z, i).argmax(1) == y).float().mean())
        for name, z in variants.items()
    }
