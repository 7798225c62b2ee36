"""The page as a file: what it holds, that nothing breaks out of it, and what it costs."""

import base64
import cProfile
import hashlib
import json
import pstats
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from clbench.record import Record
from clbench.report import latex, plain, tables, write
from clbench.report.page import data, document, embed, render

Make = Callable[..., Record]
SCRIPT = "<script>alert(1)</script>"


class Elements(HTMLParser):
    """What a parser of HTML makes of the page: every element, and the text of some."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.texts.append("")
        self._inside = True

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, text: str) -> None:
        if self._inside:
            self.texts[-1] += text

    def all(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        pairs = zip(self.found, self.texts, strict=True)
        return [(attributes, text) for (name, attributes), text in pairs if name == tag]


def page_of(records: list[Record]) -> str:
    return render(tables(records), records)


def content_of(text: str) -> dict[str, Any]:
    """The data as the page's script reads them."""
    (found,) = [t for attributes, t in Elements(text).all("script") if attributes.get("id")]
    value: dict[str, Any] = json.loads(found)
    return value


@pytest.mark.parametrize("name", [SCRIPT, "<!--<script>", "</script >", "]]>&amp;", "{{script}}"])
def test_no_name_breaks_out_of_the_data(grid: list[Record], record: Make, name: str) -> None:
    plain_page = Elements(page_of([*grid, record("plain")]))
    bad = record(name, titles__benchmark=name, provenance={name: name}, family=name)
    text = page_of([*grid, bad])
    page = Elements(text)
    assert [tag for tag, _ in page.found] == [tag for tag, _ in plain_page.found]
    (benchmark,) = content_of(text)["benchmarks"]
    assert any(row["name"].startswith(name) for row in benchmark["rows"])


def test_what_is_embedded_is_ascii_without_markup() -> None:
    text = embed({"a": "<&>\N{EM DASH}\u2028\ud800"})
    assert text.isascii()
    assert not set("<&>") & set(text)
    assert json.loads(text) == {"a": "<&>\N{EM DASH}\u2028\ud800"}


def test_the_policy_names_the_very_script_and_style(grid: list[Record]) -> None:
    page = Elements(page_of(grid))
    (policy,) = [
        meta["content"] or ""
        for meta, _ in page.all("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'; ")
    assert "connect-src 'none'" in policy
    assert "unsafe" not in policy
    (style,) = [text for _, text in page.all("style")]
    (script,) = [text for attributes, text in page.all("script") if not attributes]
    for name, text in (("style", style), ("script", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy


def test_only_a_served_page_may_ask_and_only_its_own_server() -> None:
    assert "connect-src 'self';" in document("{}", served=True)


def test_nothing_is_fetched(grid: list[Record]) -> None:
    text = page_of(grid)
    addresses = [
        value
        for _, attributes in Elements(text).found
        for key, value in attributes.items()
        if key in ("src", "href")
    ]
    assert addresses == ["data:,", "#main"]
    assert set(re.findall(r"https?://[^\"'\s)]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|url\(|innerHTML|insertAdjacentHTML|document\.write|eval\(", text)


def test_latex_and_csv_are_those_of_the_files(grid: list[Record], tmp_path: Path) -> None:
    paths = write(tables(grid, columns=("fwt",)), tmp_path, ["tex", "csv", "html"], records=grid)
    files = {path.name: path.read_text() for path in paths}
    (benchmark,) = content_of(files["report.html"])["benchmarks"]
    assert benchmark["latex"] == files["table-two-tasks.tex"]
    assert benchmark["csv"] == files["table-two-tasks.csv"]
    (table,) = tables(grid, columns=("fwt",))
    assert benchmark["latex"] == latex.render(table)
    assert benchmark["csv"] == plain.render_csv(table)


def test_rows_read_as_in_the_other_formats(grid: list[Record]) -> None:
    document = content_of(page_of(grid))
    rows = {row["name"]: row for row in document["benchmarks"][0]["rows"]}
    assert document["shown"] == ["acc", "bwt", "arch", "replay", "time"]
    assert rows["pnn"]["values"]["bwt"] == ["Zero", 0.0]
    assert rows["ewc[strength=500]"]["values"]["acc"] == ["82.75 ± 0.35", 82.75]
    assert rows["pnn"]["best"] == [
        "acc", "average", "bwt", "forgetting", "intransigence", "intransigence-fraction"
    ]  # fmt: skip
    assert [run["seed"] for run in rows["agem"]["runs"]] == [0, 1]
    assert rows["joint"]["runs"][0]["R"] == [[], [96.0, 85.0]]


def test_a_column_that_is_chosen_later_brings_its_warning(record: Make) -> None:
    (benchmark,) = content_of(page_of([record("ewc")]))["benchmarks"]
    assert benchmark["warnings"] == []
    (warning,) = benchmark["column_warnings"]["intransigence"]
    assert warning.startswith("No intransigence without a finished run of ")


def test_published_numbers_come_from_one_place(grid: list[Record], cifar: list[Record]) -> None:
    (benchmark,) = content_of(page_of(cifar))["benchmarks"]
    (table,) = tables(cifar)
    assert table.versus is not None
    for row, shown in zip(table.rows, benchmark["rows"], strict=True):
        published = dict(shown["published"] or {})
        published.pop("shown", None)
        assert published == (table.versus.beside(row) or {})
    assert benchmark["paper"]["cite"] == "Ebrahimi et al., 2020"
    (benchmark,) = content_of(page_of(grid))["benchmarks"]  # of a stream without published numbers
    assert benchmark["paper"] == {"cite": "", "columns": []}


def test_published_numbers_read_as_in_the_other_formats(cifar: list[Record]) -> None:
    (benchmark,) = content_of(page_of(cifar))["benchmarks"]
    rows = {row["title"]: row["published"] for row in benchmark["rows"]}
    assert rows["si"] is None
    (table,) = tables(cifar, vs_paper=True)
    for row in table.rows:
        if row.name == "si":
            continue
        shown = rows[row.head.method_title]["shown"]
        for column in table.columns[-3:]:
            assert shown[column.key] == table.show(row, column, " ± {}")
    assert rows["PNN"]["shown"]["paper-bwt"] == "Zero"


def test_remarks_on_the_paper_come_along(grid: list[Record], cifar: list[Record]) -> None:
    (benchmark,) = content_of(page_of(cifar))["benchmarks"]
    sources, setting, remarks = benchmark["remarks"][0]
    assert setting.startswith("Setting of Ebrahimi et al., 2020: ")
    assert "[a] re-implementation of HAT's authors, [b] own run, [c] quoted" in sources
    assert "PNN: 93.51 MB in the table, 74.7 MB in the text." in remarks
    (table,) = tables(cifar, vs_paper=True)
    assert benchmark["remarks"][0] == table.remarks
    shown = content_of(render([table], cifar))["shown"]
    assert shown == content_of(page_of(cifar))["shown"]  # the page has columns of its own for these
    (benchmark,) = content_of(page_of(grid))["benchmarks"]
    assert benchmark["remarks"] == [[], []]


def test_the_same_records_give_the_same_bytes(grid: list[Record]) -> None:
    assert page_of(grid) == page_of(list(reversed(grid)))


def test_the_page_has_what_a_method_lays_open(open_method: Record) -> None:
    (benchmark,) = content_of(page_of([open_method]))["benchmarks"]
    (run,) = benchmark["rows"][0]["runs"]
    without = {"nothing": 90.0, "part_zeroed": 89.9}
    assert run["shown"] == [
        {
            "title": "Accuracy without a part",
            "kind": "without",
            "unit": "%",
            "values": [{"1": without, "2": without}],
        },
        {"title": "Cost of a part", "kind": "number", "unit": "points", "values": [0.75, 0.125]},
        {
            "title": "Share in use",
            "kind": "layers",
            "unit": "%",
            "values": [[10.0, 20.0], [30.0, 40.0]],
        },
    ]
    assert run["warnings"] == ["its part is idle: 0.12 points."]
    assert benchmark["warnings"] == ["stranger: its part is idle: 0.12 points."]


def test_curves_are_thinned_and_the_page_says_so(
    record: Make, curve: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = content_of(page_of([record("ewc", curve=curve(10, 10))]))
    assert whole["notes"] == []
    assert whole["benchmarks"][0]["rows"][0]["runs"][0]["curve"]["epoch"] == [*range(1, 11)] * 2
    monkeypatch.setattr(data, "EPOCHS", 5)
    thin = content_of(page_of([record("ewc", curve=curve(10, 10))]))
    kept = thin["benchmarks"][0]["rows"][0]["runs"][0]["curve"]
    assert kept["at"] == [1, 5, 9, 10, 13, 17, 20]
    assert kept["epoch"] == [1, 5, 9, 10, 3, 7, 10]
    (note,) = thin["notes"]
    assert note.endswith("training curves show one epoch in 4 and the last of each task.")


def test_what_runs_share_is_kept_once(record: Make) -> None:
    runs = [record("ewc", seed, provenance={"host": "a-machine" * 9}) for seed in range(20)]
    assert page_of(runs).count("a-machine" * 9) == 1


def test_the_cost_of_a_page_grows_with_the_number_of_records(record: Make, curve: Make) -> None:

    def cost(n: int) -> tuple[int, int]:
        """How many calls it takes, and how many characters it gives: both the same every time."""
        records = [record(f"ewc[s={i % n // 3}]", i % 3, curve=curve(20)) for i in range(n)]
        profile = cProfile.Profile()
        text = profile.runcall(page_of, records)
        return pstats.Stats(profile).total_calls, len(text)  # type: ignore[attr-defined]

    base, once, twice = cost(3), cost(150), cost(300)
    for i in (0, 1):
        assert (twice[i] - base[i]) < 2.2 * (once[i] - base[i])
