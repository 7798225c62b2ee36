"""The fixed divisions of data that comes without one."""

from pathlib import Path

from clbench.data import miniimagenet, notmnist
from clbench.data.split import quotas, shuffled

OFFICIAL = dict(zip("ABCDEFGHIJ", (1872, 1873, 1873, 1873, 1873, *[1872] * 5), strict=True))


def test_complete_notmnist_has_the_papers_sizes():
    names = [f"{letter}/{n}.png" for letter, count in OFFICIAL.items() for n in range(count)]
    parts = notmnist._divide(Path("x"), names)
    assert {part: len(found) for part, found in parts.items()} == {"train": 18_265, "test": 459}
    assert not set(parts["train"]) & set(parts["test"])


def test_notmnist_division_does_not_depend_on_the_order_of_files():
    names = [f"{letter}/{n}.png" for letter in OFFICIAL for n in range(30)]
    assert notmnist._divide(Path("x"), names) == notmnist._divide(Path("x"), names[::-1])


def test_complete_miniimagenet_gives_500_and_100_per_class():
    index = {f"n{c:02d}": [f"{n}.jpg" for n in range(600)] for c in range(3)}
    parts = miniimagenet._divide(index)
    for label in index:
        assert len(parts["train"][label]) == 500
        assert len(parts["test"][label]) == 100


def test_the_order_never_changes():
    assert shuffled(list("abcdef")) == list("dfcbea")
    assert shuffled(list("fedcba")) == list("dfcbea")


def test_quotas_add_up_and_leave_no_class_out():
    assert quotas({"a": 10, "b": 10, "c": 10}, 4) == {"a": 2, "b": 1, "c": 1}
    assert quotas({"a": 100, "b": 1}, 5) == {"a": 5, "b": 1}
