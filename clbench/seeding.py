"""Random draws that depend on the seed and a name, and on nothing else."""

import hashlib
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def derive(seed: int, *names: str | int) -> int:
    """A 63-bit seed from the run's seed and what the draws are for."""
    text = "/".join(map(str, (seed, *names)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: str | int) -> "torch.Generator":
    """A CPU generator of its own, seeded by `derive`."""
    import torch

    return torch.Generator().manual_seed(derive(seed, *names))


def seed_everything(seed: int, *names: str | int) -> None:
    """Seed the global generators (weights, dropout, a plugin's draws) for one stretch of a run.

    Done at the start of every task, so a run resumed after task k draws what it would have drawn.
    """
    import numpy as np
    import torch

    value = derive(seed, *names)
    torch.manual_seed(value)
    np.random.seed(value % 2**32)
    random.seed(value)
