"""The page in a real browser: its tables, and what a reader sorts, filters, copies and saves."""

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clbench.record import Record
from clbench.report import latex, plain, tables
from clbench.report.page.serve import Live, bind
from clbench.store import Store

Make = Callable[..., Record]
Open = Callable[..., Any]
ACL = "Ebrahimi et al., 2020"
SCRIPT = "<script>alert(1)</script>"


def names(page: Any) -> list[str]:
    """The rows that can be seen, from the top."""
    found: list[str] = page.locator("button.open:visible").all_inner_texts()
    return found


def test_the_table_reads_as_in_the_terminal(open_page: Open, grid: list[Record]) -> None:
    page = open_page(grid)
    assert names(page) == ["ewc[strength=500]", "pnn", "agem", "finetune", "joint"]
    row = page.get_by_role("row", name=re.compile("pnn"))
    assert row.get_by_role("cell").all_inner_texts() == [
        "88.25 ± 0.35", "Zero", "2.50", "0.00", "4.5 ± 0.7", "2",
    ]  # fmt: skip
    assert row.locator("strong").all_inner_texts() == ["88.25 ± 0.35", "Zero"]
    assert "T = 2 tasks." in page.locator(".caption").first.inner_text()
    assert page.locator(".warnings").count() == 0


def test_headings_sort_by_pointer_and_by_key(open_page: Open, grid: list[Record]) -> None:
    page = open_page(grid)
    usual = names(page)
    heading = page.get_by_role("columnheader", name="ACC %")
    assert heading.get_attribute("aria-sort") == "none"
    heading.get_by_role("button").click()
    assert names(page) == ["joint", "pnn", "agem", "ewc[strength=500]", "finetune"]
    assert heading.get_attribute("aria-sort") == "descending"
    page.keyboard.press("Enter")  # the heading keeps the focus
    assert names(page) == ["finetune", "ewc[strength=500]", "agem", "pnn", "joint"]
    assert heading.get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Enter")
    assert names(page) == usual
    page.get_by_role("columnheader", name="BWT %").get_by_role("button").press("Space")
    assert names(page)[-1] == "joint"  # no value: last, whichever way
    page.keyboard.press("Space")
    assert names(page)[-1] == "joint"
    page.get_by_role("columnheader", name="method").get_by_role("button").click()
    assert names(page) == sorted(usual)


def test_filters_by_text_and_family(open_page: Open, grid: list[Record]) -> None:
    page = open_page(grid)
    assert page.get_by_role("status").first.inner_text() == "5 rows, 10 runs"
    page.get_by_label("Filter").fill("strength EWC")
    assert names(page) == ["ewc[strength=500]"]
    assert page.get_by_role("status").first.inner_text() == "1 of 5 rows, 10 runs"
    page.get_by_label("Filter").fill("")
    page.get_by_label("Family").select_option("reference")
    assert names(page) == ["finetune", "joint"]
    page.get_by_label("Filter").fill("nothing like it")
    assert names(page) == []


def test_latex_is_copied_to_the_letter(open_page: Open, grid: list[Record]) -> None:
    page = open_page(grid, permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy LaTeX").click()
    page.get_by_text("LaTeX of Two Tasks copied.").wait_for()
    (table,) = tables(grid)
    assert page.evaluate("navigator.clipboard.readText()") == latex.render(table)


def test_latex_is_shown_where_copying_is_forbidden(open_page: Open, grid: list[Record]) -> None:
    page = open_page(grid)
    page.evaluate("void (navigator.clipboard.writeText = () => Promise.reject(new Error('no')))")
    page.get_by_role("button", name="Copy LaTeX").click()
    (table,) = tables(grid)
    assert page.get_by_label("LaTeX", exact=True).input_value() == latex.render(table)
    marked = page.evaluate("(t => t.selectionEnd - t.selectionStart)(document.activeElement)")
    assert marked == len(latex.render(table))
    page.get_by_role("button", name="Close").click()
    page.locator("dialog").wait_for(state="detached")


def test_csv_is_downloaded_to_the_letter(open_page: Open, grid: list[Record]) -> None:
    page = open_page(grid)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    (table,) = tables(grid)
    assert download.value.suggested_filename == "table-two-tasks.csv"
    assert Path(download.value.path()).read_text() == plain.render_csv(table)


def test_a_name_is_only_text(open_page: Open, grid: list[Record], record: Make) -> None:
    bad = record(
        SCRIPT,
        titles__benchmark=SCRIPT,
        titles__method="<img src=x onerror=alert(2)>",
        family=SCRIPT,
        benchmark=SCRIPT,
        provenance={SCRIPT: SCRIPT, "argv": ["</script x", "<img src=x onerror=alert(3)>"]},
        data={SCRIPT: {"sha256": "ab", "note": SCRIPT}},
        status="failed",
        failure={"error": SCRIPT, "traceback": SCRIPT},
    )
    page = open_page([*grid, bad])
    page.locator("button.open", has_text=SCRIPT).click()
    page.get_by_text("Failure").wait_for()
    assert page.locator("pre").inner_text() == SCRIPT
    assert page.get_by_role("heading", name=SCRIPT).count() == 1
    assert page.evaluate("[document.scripts.length, document.images.length]") == [2, 0]


def test_the_policy_stops_a_script_that_got_in(open_page: Open, grid: list[Record]) -> None:
    page = open_page(grid)
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'),"
        " {textContent: 'window.hit = 1'}))"
    )
    assert page.evaluate("window.hit") is None
    assert "Content Security Policy" in page.bad.pop()


def test_columns_can_be_chosen(open_page: Open, grid: list[Record]) -> None:
    page = open_page(grid)
    page.locator("#chooser summary").press("Enter")
    page.get_by_label("FWT %").check()
    page.get_by_label("arch MB").uncheck()
    heads = page.locator(".main thead button").all_inner_texts()
    assert heads == ["method", "ACC %", "BWT %", "FWT %", "replay MB", "time s", "seeds"]
    assert "FWT: mean over" in page.locator(".caption").last.inner_text()
    page.keyboard.press("Escape")
    assert not page.get_by_label("FWT %").is_visible()


def test_published_stands_beside_measured(
    open_page: Open, grid: list[Record], cifar: list[Record]
) -> None:
    assert open_page(grid).locator("th.published").count() == 0
    page = open_page(cifar)
    heads = page.locator(".main thead button").all_inner_texts()
    assert heads[1:5] == ["ACC %", f"{ACL} ACC %", "BWT %", f"{ACL} BWT %"]
    assert heads[-2:] == [f"vs {ACL}", "seeds"]
    beside = {
        name: row.locator(".published").all_inner_texts()
        for row in page.locator(".main > tbody > tr").all()
        for name in row.locator("button").all_inner_texts()
    }
    assert beside == {
        "pnn": ["75.25 ± 0.04 [a]", "Zero", "93.51", "matches (+0.04 pp, +1.0 sd)"],
        "finetune": ["34.71 ± 3.36 [b]", "-48.56 ± 3.17", "27.2", "above (+15.29 pp, +4.6 sd)"],
        "si": ["", "", "", ""],
        "er-res (epochs=1)": [
            "66.78 ± 0.48 [c]", "-15.01 ± 1.11", "25.4 + 16", "not comparable: other budget",
        ],
    }  # fmt: skip
    page.get_by_role("button", name=f"{ACL} BWT %").click()
    assert names(page) == ["pnn", "er-res (epochs=1)", "finetune", "si"]  # Zero counts as 0
    page.get_by_role("button", name=f"{ACL} MB").click()
    assert names(page) == ["pnn", "er-res (epochs=1)", "finetune", "si"]  # 25.4 + 16 before 27.2
    below = page.locator(".caption").all_inner_texts()
    assert "matches within 2 published standard deviations" in below[1]
    assert f"Numbers of {ACL}: " in below[2]
    assert "[b] own run" in below[2]
    assert "intransigence" not in below[2]
    page.locator("#chooser summary").press("Enter")
    page.get_by_label("I_T", exact=True).check()
    assert "intransigence" in page.locator(".caption").last.inner_text()
    assert f"{ACL} I" in page.locator(".main thead button").all_inner_texts()
    page.get_by_label("I_T pp", exact=True).check()  # both columns bring the same warning
    said = page.locator(".warnings li").all_inner_texts()
    assert sum("No intransigence" in warning for warning in said) == 1


def test_streams_of_one_title_are_told_apart(
    open_page: Open, grid: list[Record], record: Make
) -> None:
    long = record("ewc", benchmark="two-tasks[tasks=40]")
    other = record("ewc", benchmark="other", titles__benchmark="Other Tasks")
    page = open_page([*grid, long, other])
    links = page.get_by_role("navigation").get_by_role("link")
    assert links.all_inner_texts() == [
        "Other Tasks", "Two Tasks (two-tasks)", "Two Tasks (two-tasks[tasks=40])",
    ]  # fmt: skip
    titles = page.get_by_role("heading", level=2).all_inner_texts()
    assert titles == ["Other Tasks other", "Two Tasks two-tasks", "Two Tasks two-tasks[tasks=40]"]
    for words in ("Copy LaTeX: ", "Download CSV: "):
        assert page.get_by_role("button", name=f"{words}Two Tasks (two-tasks[").count() == 1
    for role, words in (("region", "Table of "), ("table", "")):
        assert page.get_by_role(role, name=f"{words}Two Tasks (two-tasks[").count() == 1


def test_what_is_saved_says_of_which_stream(open_page: Open, record: Make) -> None:
    page = open_page([record("ewc"), record("ewc", benchmark="two-tasks[tasks=40]")])
    with page.expect_download():
        page.locator("#csv-1").click()
    page.get_by_text("CSV of Two Tasks (two-tasks[tasks=40]) saved.").wait_for()


def test_a_served_page_follows_the_runs(
    open_page: Open, grid: list[Record], record: Make, save: Callable[[list[Record]], Path]
) -> None:
    out = save(grid)

    def build() -> Any:
        records, problems = Store(out).records()
        return tables(records, problems), records

    with bind(0, Live(out / "records", build)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            page = open_page([], server.url)
            page.get_by_role("button", name="agem").click()
            page.get_by_label("Filter").fill("reference")
            shown = names(page)
            save([record("extra", 0, (70.0, 70.0))])
            page.get_by_role("button", name="extra").wait_for()
            assert sorted(names(page)) == sorted([*shown, "extra"])
            assert page.locator(".run").count() == 2  # what was open still is
            assert page.get_by_label("Filter").input_value() == "reference"
            assert page.evaluate("document.activeElement.id") == "filter"
            page.get_by_label("Filter").fill("")
            page.get_by_role("grid").get_by_role("gridcell").nth(2).focus()
            save([record("more", 0, (71.0, 70.0))])
            page.get_by_role("button", name="more").wait_for()
            assert page.evaluate("document.activeElement.textContent") == "91.00"
            page.get_by_role("button", name="Copy LaTeX").focus()
            save([record("third", 0, (71.0, 70.0))])
            page.get_by_role("button", name="third").wait_for()
            assert page.evaluate("document.activeElement.textContent") == "Copy LaTeX"
            page.locator(".compare svg[tabindex]").focus()
            save([record("fourth", 0, (71.0, 70.0))])
            page.get_by_role("button", name="fourth").wait_for()
            assert page.evaluate("document.activeElement.closest('.compare') !== null")
        finally:
            server.shutdown()
            thread.join()


def test_a_thousand_rows_stay_usable(open_page: Open, record: Make) -> None:
    page = open_page([record(f"ewc[strength={i}]", last=(i / 10, 50.0)) for i in range(1000)])
    page.get_by_role("button", name="ACC %").click()
    assert page.locator("button.open").first.inner_text() == "ewc[strength=999]"
    page.get_by_label("Filter").fill("strength=77")
    assert len(names(page)) == 11
    note = page.locator(".note").inner_text()
    assert note == "The first 10 rows of 11: sort or filter the table to see others."
    assert json.loads(page.locator("#data").text_content())["schema"] == 1
