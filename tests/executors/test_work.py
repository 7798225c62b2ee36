"""What a worker refuses to do."""

from collections.abc import Callable
from typing import Any

from clbench.executors.work import work
from clbench.provenance import versions
from clbench.store import Store


def test_a_node_with_other_versions_trains_nothing(cell: Callable[..., Any], place: Any) -> None:
    ours = versions()
    Store(place.out).prepare()
    end = work(cell(), place, lambda event: None, ours | {"torch": "1.0", "numpy": "1.0"})
    assert end["status"] == "refused"
    assert f"has torch {ours['torch']} instead of 1.0; install the same versions" in end["text"]
    assert Store(place.out).records() == ([], [])
    assert work(cell(), place, lambda event: None, ours)["status"] == "done"
