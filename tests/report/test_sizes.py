"""The counts of the paper's data sets, beside those of the data that is there."""

import csv
import io
from pathlib import Path

import pytest

from clbench.paper_file import Size, Table
from clbench.report.sizes import _published, render, sizes, write


def test_embedded_data_are_counted_and_have_no_published_counts() -> None:
    rows, problems = sizes("split-mnist-5k", Path("/nowhere"), False)
    assert problems == []
    assert rows == [["split-mnist-5k", "1-5", "2", "1x28x28", "680", "120", "200", "", "", "", ""]]


def test_where_the_data_is_missing_the_published_counts_stand_alone() -> None:
    rows, [problem] = sizes("five-datasets", Path("/nowhere"), False)
    assert problem.startswith("five-datasets is not counted: ")
    assert [row[1] for row in rows] == ["MNIST", "notMNIST", "Fashion-MNIST", "CIFAR10", "SVHN"]
    assert rows[4][4:] == ["", "", "", "62,269", "10,988", "26,032", "no data"]


@pytest.mark.parametrize(("train", "word"), [(680, "same"), (681, "differs")])
def test_counts_are_compared_with_the_published(
    monkeypatch: pytest.MonkeyPatch, train: int, word: str
) -> None:
    row = Size(benchmark="split-mnist-5k", train=train, valid=120, test=200, classes=2)
    monkeypatch.setattr("clbench.report.sizes._paper", lambda: Table(title="Sizes", sizes=[row]))
    [found], _ = sizes("split-mnist-5k", Path("/nowhere"), False)
    assert found[1:3] == ["1-5", "2"]
    assert found[-4:] == [str(train), "120", "200", word]


def test_data_sets_whose_order_is_drawn_are_found_by_name() -> None:
    def images(*task) -> int | None:
        found = _published(*task)
        return found and found.train

    assert images("five-datasets", 1, "fashion-mnist") == 9574
    assert images("five-datasets", 1, "svhn") == 62269
    assert images("split-mnist", 2, "2/3") == 10276
    assert images("permuted-mnist", 7, "") == 51000
    assert images("split-mnist-5k", 1, "") is None


def test_it_is_written_in_every_format(tmp_path: Path) -> None:
    rows, _ = sizes("split-mnist", Path("/nowhere"), False)
    paths = write(rows, tmp_path, tmp_path)
    assert [path.name for path in paths] == [f"table-datasets.{f}" for f in ("md", "tex", "csv")]
    texts = [path.read_text() for path in paths]
    assert "| split-mnist |" in texts[0].replace("  ", "")
    assert r"\toprule" in texts[1]
    head, first, *_ = csv.reader(io.StringIO(texts[2]))
    assert dict(zip(head, first, strict=True))["paper train"] == "10,766"
    text = render(rows, "txt")
    assert "10 training images" in text
    assert "paper: Ebrahimi et al., 2020." in text
