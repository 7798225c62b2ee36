"""What a worker does when it cannot do its work."""

from collections.abc import Callable
from typing import Any

import pytest

from clbench.executors.work import ListenerGoneError, work
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


def test_a_listener_that_is_gone_is_no_failure_of_the_method(
    cell: Callable[..., Any], place: Any
) -> None:
    def gone(event: dict[str, Any]) -> None:
        if event["kind"] == "task":
            raise BrokenPipeError

    with pytest.raises(ListenerGoneError):
        work(cell(), place, gone)
    [record] = Store(place.out).records()[0]
    assert (record["status"], record["done"]) == ("partial", 1)
    assert work(cell(), place, lambda event: None)["status"] == "done"
