"""Random draws that depend only on the seed and a name."""

import hashlib
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def derive(seed: int, *names: str | int) -> int:
    """A 63-bit seed, computed from the run's seed and names for its purpose."""
    text = "/".join(map(str, (seed, *names)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: str | int) -> "torch.Generator":
    """A separate CPU generator, seeded by `derive`."""
    import torch

    return torch.Generator().manual_seed(derive(seed, *names))


def seed_everything(seed: int, *names: str | int) -> None:
    """Seed the global generators, which weights, dropout and plugins draw from. The runner does
    this at the start of every task, so a resumed run draws the same numbers."""
    import numpy as np
    import torch

    value = derive(seed, *names)
    torch.manual_seed(value)
    np.random.seed(value % 2**32)
    random.seed(value)
