"""A fixed division into train and test for data that comes without one.

Images are ordered by the SHA-256 of their name, which is as good as shuffled, the same on every
machine and in every version of every library, and does not move when other images are missing.
"""

import hashlib
from collections.abc import Mapping, Sequence


def shuffled(names: Sequence[str]) -> list[str]:
    """`names` in an order that depends on the names alone."""
    return sorted(names, key=lambda name: (hashlib.sha256(name.encode()).digest(), name))


def quotas(counts: Mapping[str, int], total: int) -> dict[str, int]:
    """`total` test images divided among classes in proportion to `counts`, at least one each.

    Largest remainders: every class gets its share rounded down, and what is left goes one by one
    to the largest fractions (the earlier class first where they are equal).
    """
    everything = sum(counts.values())
    shares = {name: total * count / everything for name, count in counts.items()}
    given = {name: int(share) for name, share in shares.items()}
    by_fraction = sorted(counts, key=lambda name: given[name] - shares[name])
    for name in by_fraction[: total - sum(given.values())]:
        given[name] += 1
    return {name: max(1, number) for name, number in given.items()}
