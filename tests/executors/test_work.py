"""What a worker does when it cannot do its work."""

from collections.abc import Callable
from typing import Any

import pytest

from clbench.events import Event, TaskEnded
from clbench.executors.work import ListenerGoneError, work
from clbench.provenance import versions
from clbench.store import Store


def test_a_node_with_other_versions_trains_nothing(cell: Callable[..., Any], place: Any) -> None:
    ours = versions()
    Store(place.out).prepare()
    end = work(cell(), place, lambda cell, event: None, ours | {"torch": "1.0", "numpy": "1.0"})
    assert end.status == "refused"
    assert ours["torch"] in end.text
    assert "1.0" in end.text
    assert "numpy" not in end.text
    assert Store(place.out).records() == ([], [])
    assert work(cell(), place, lambda cell, event: None, ours).status == "done"


def test_a_listener_that_is_gone_is_no_failure_of_the_method(
    cell: Callable[..., Any], place: Any
) -> None:
    def gone(cell: Any, event: Event) -> None:
        if isinstance(event, TaskEnded):
            raise BrokenPipeError

    with pytest.raises(ListenerGoneError):
        work(cell(), place, gone)
    [record] = Store(place.out).records()[0]
    assert (record.status, record.done) == ("partial", 1)
    assert work(cell(), place, lambda cell, event: None).status == "done"
