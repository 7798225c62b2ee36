"""Measures what S, P and D of a trained ACLNet do. A BWT of 0 says little if S is idle."""

from typing import Any

import torch
from torch import Tensor, nn

from clbench.loader import Known

from ._acl_frozen import FrozenLatents
from ._acl_net import ACLNet


@torch.no_grad()
def probe(
    strategy: Any, discriminator: nn.Module | None, k: int, latents: FrozenLatents
) -> dict[str, Any]:
    """What z_S and D do on the test data of task k, and test accuracies without one branch on
    task k and, after the last task, on all tasks."""
    model: ACLNet = strategy.model
    model.eval()
    tests = [task.test for task in strategy.stream.tasks]
    last = k == len(tests) - 1
    without: dict[str, dict[str, float]] = {}
    for i in range(k + 1) if last else [k]:
        known = latents.known(model, tests[i]) if model.frozen else None
        z_s, z_p, y = _latents(model, tests[i], i, strategy, known)
        without[str(i + 1)] = _without(model, z_s, z_p, y, i)
    found: dict[str, Any] = {"without": without}
    if model.shared is None:
        return found
    spread = z_s.std(0)
    found["shared_spread"] = float(spread.mean())
    found["shared_dead"] = float((spread <= 1e-6).float().mean())
    if last:
        found["shared_cost"] = _shared_cost(list(without.values()))
    if discriminator is not None:
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
        x = test.inputs(slice(at, at + step)).to(device)
        model.known = None if known is None else Known(x, known[at : at + step])
        parts.append(model.latents(x, i))
    model.known = None
    z_s, z_p = (torch.cat(column) for column in zip(*parts, strict=True))
    return z_s, z_p, test.labels.to(device)


def _without(model: ACLNet, z_s: Tensor, z_p: Tensor, y: Tensor, i: int) -> dict[str, float]:
    """Test accuracy in percent, of the whole network and with one branch made useless."""
    variants = {"nothing": (z_s, z_p)}
    if model.shared is not None:
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(i)).to(y.device)
        variants["shared_zeroed"] = (torch.zeros_like(z_s), z_p)
        variants["shared_shuffled"] = (z_s[order], z_p)
    if len(model.private):
        variants["private_zeroed"] = (z_s, torch.zeros_like(z_p))
    return {
        name: 100 * float((model.classify(*z, i).argmax(1) == y).float().mean())
        for name, z in variants.items()
    }


def _shared_cost(rows: list[dict[str, float]]) -> float:
    """Mean points of accuracy lost without z_S, zeroed or shuffled, whichever costs more."""
    return max(
        sum(row["nothing"] - row[variant] for row in rows) / len(rows)
        for variant in ("shared_zeroed", "shared_shuffled")
    )
