"""The counts of the paper's data sets, beside those of the data that is there."""

import csv
import io
import os
from pathlib import Path

import pytest

from clbench.report.sizes import render, sizes, write

REAL = Path(os.environ.get("CLBENCH_DATA", "/nowhere"))


def test_embedded_data_are_counted_and_have_no_published_counts() -> None:
    rows, problems = sizes("split-mnist-5k", Path("/nowhere"), False)
    assert problems == []
    assert rows == [["split-mnist-5k", "1-5", "2", "1x28x28", "680", "120", "200", "", "", "", ""]]


def test_where_the_data_is_missing_the_published_counts_stand_alone() -> None:
    rows, [problem] = sizes("five-datasets", Path("/nowhere"), False)
    assert problem.startswith("five-datasets is not counted: ")
    assert [row[1] for row in rows] == ["MNIST", "notMNIST", "Fashion-MNIST", "CIFAR10", "SVHN"]
    assert rows[4][4:] == ["", "", "", "62,269", "10,988", "26,032", "no data"]


@pytest.mark.skipif(not (REAL / "MNIST").is_dir(), reason="needs MNIST in $CLBENCH_DATA")
def test_mnist_has_the_published_counts() -> None:
    rows, problems = sizes("split-mnist,permuted-mnist", REAL, False)
    assert problems == []
    assert [row[-1] for row in rows] == ["same"] * 6
    assert rows[5][1] == "1-10"


def test_it_is_written_in_every_format(tmp_path: Path) -> None:
    rows, _ = sizes("split-mnist", Path("/nowhere"), False)
    paths = write(rows, tmp_path)
    assert [path.name for path in paths] == [f"table-datasets.{f}" for f in ("md", "tex", "csv")]
    texts = [path.read_text() for path in paths]
    assert "| split-mnist |" in texts[0].replace("  ", "")
    assert r"\toprule" in texts[1]
    head, first, *_ = csv.reader(io.StringIO(texts[2]))
    assert dict(zip(head, first, strict=True))["paper train"] == "10,766"
    assert "a slip" in render(rows, "txt")
