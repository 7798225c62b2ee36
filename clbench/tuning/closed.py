"""Data sets whose test part cannot be opened: what a trial of a search gets."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from clbench.errors import UserError


class Closed:
    """Stands where test data would be. Any use of it is an error."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise UserError(
            "A trial of `clbench tune` must not open test data, and the benchmark's `sources` "
            "looks into them. It may only pass them on: `Source(train, test, ...)`."
        )

    def __getattr__(self, name: str) -> NoReturn:
        self._refuse()

    __len__ = __iter__ = __getitem__ = __array__ = __contains__ = __call__ = __bool__ = _refuse


def closed(datasets: Mapping[str, Any]) -> dict[str, Any]:
    """The same data sets, whose only part that can be opened is `train`."""
    return {
        name: replace(
            dataset,
            parts={part: Closed() for part in ("test", *dataset.parts)}
            | {"train": dataset.parts["train"]},
        )
        for name, dataset in datasets.items()
    }
