"""A fixed division into train and test for data sets that have no official one.

Images are ordered by the SHA-256 of their name: the same on every machine, and for a subset.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence


def shuffled(names: Sequence[str]) -> list[str]:
    """`names` in an order that depends on the names alone."""
    return sorted(names, key=lambda name: (hashlib.sha256(os.fsencode(name)).digest(), name))


def quotas(counts: Mapping[str, int], total: int) -> dict[str, int]:
    """`total` test images per class, in proportion to `counts`, at least one each. Shares
    are rounded down, and the rest goes to the largest fractions (of equal ones, the first)."""
    everything = sum(counts.values())
    shares = {name: total * count / everything for name, count in counts.items()}
    given = {name: int(share) for name, share in shares.items()}
    by_fraction = sorted(counts, key=lambda name: given[name] - shares[name])
    for name in by_fraction[: total - sum(given.values())]:
        given[name] += 1
    return {name: max(1, number) for name, number in given.items()}
