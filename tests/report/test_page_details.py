"""What opens under a row of the page, in a real browser: runs, heat maps, curves."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from clbench.record import Record

Make = Callable[..., Record]
Open = Callable[..., Any]
playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")


def test_a_number_leads_to_its_runs_record(
    open_page: Open, grid: list[Record], open_method: Record
) -> None:
    page = open_page([*grid, open_method])
    page.locator("a", has_text="85.00").click()
    text = page.locator(".run").inner_text()
    assert page.url.endswith(f"#run-{open_method.id}")
    for words in (
        "a-host",
        "versions.torch",
        "lr_factor",
        "SECONDS",
        "part zeroed",
        "its part is idle: 0.12 points",
    ):
        assert words.lower() in text.lower()
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    # the address alone leads there, too; and a mean leads to all of its seeds
    fresh = open_page([*grid, open_method], page.url)
    fresh.locator(".run[open] .heat").wait_for()
    fresh.get_by_role("row", name=re.compile("agem")).locator("a").first.click()
    seeds = fresh.locator(".run > summary strong")
    playwright.expect(seeds).to_have_text(["Seed 0", "Seed 1", "Seed 0"])


def test_the_heat_map_answers_pointer_and_keys(open_page: Open, open_method: Record) -> None:
    page = open_page([open_method])
    page.get_by_role("button", name="stranger").press("Enter")
    grid = page.get_by_role("grid")
    readout = grid.locator("xpath=ancestor::figure").locator(".readout")
    grid.get_by_role("gridcell").nth(2).hover()
    playwright.expect(readout).to_have_text(
        "After task 2, task 1: 90.00 %, \N{MINUS SIGN}5.00 points since it was learned"
    )
    grid.get_by_role("gridcell").nth(0).focus()
    page.keyboard.press("ArrowRight")
    playwright.expect(readout).to_have_text("After task 1, task 2: 60.00 %, before it was learned")
    page.keyboard.press("ArrowDown")
    playwright.expect(readout).to_have_text("After task 2, task 2: 80.00 %")
    page.keyboard.press("ArrowDown")  # there is no more
    assert page.evaluate("document.activeElement.textContent") == "80.00"
    assert grid.locator("[tabindex='0']").count() == 1


def test_the_confusion_between_tasks_is_a_heat_map_of_its_own(
    open_page: Open, by_class: Make
) -> None:
    page = open_page([by_class()])
    page.get_by_role("button", name="ewc").press("Enter")
    grid = page.get_by_role("grid", name=re.compile("Percentage of answers"))
    assert grid.get_by_role("gridcell").all_inner_texts() == ["75.00", "25.00", "10.00", "90.00"]
    grid.get_by_role("gridcell").nth(1).hover()
    readout = grid.locator("xpath=ancestor::figure").locator(".readout")
    words = "Samples of task 1: 25.00 % of the answers are classes of task 2"
    playwright.expect(readout).to_have_text(words)
    assert "avg. %" in page.locator("thead").first.inner_text().lower()


def test_curves_answer_pointer_and_keys(open_page: Open, open_method: Record) -> None:
    page = open_page([open_method])
    page.get_by_role("button", name="stranger").click()
    figure = page.locator(".run figure", has_text="Validation accuracy")
    chart, readout = figure.locator("svg[tabindex]"), figure.locator(".readout")
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 5, box["y"] + 5)
    playwright.expect(readout).to_have_text("Task 2, epoch 3: 73.00")
    assert figure.locator(".line.dim").count() == 1
    page.mouse.move(0, 0)
    assert figure.locator(".line.dim").count() == 0
    chart.focus()
    page.keyboard.press("ArrowLeft")
    playwright.expect(readout).to_have_text("Task 2, epoch 2: 72.00")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Home")
    playwright.expect(readout).to_have_text("Task 1, epoch 1: 71.00")


def test_the_paper_stands_above_the_runs(open_page: Open, cifar: list[Record]) -> None:
    page = open_page(cifar)
    for button in page.locator("button.open").all():
        button.press("Enter")
    rows = page.locator(".main > tbody", has=page.locator(".details"))
    texts = [row.locator(".paper").all_inner_texts() for row in rows.all()]
    assert texts == [
        [
            "Ebrahimi et al., 2020: ACC 75.25 ± 0.04 [a], BWT Zero, MB 93.51 (74.7 MB in the "
            "text). Its source: re-implementation of HAT's authors. Measured here: "
            "matches (+0.04 pp, +1.0 sd)."
        ],
        [
            "Ebrahimi et al., 2020: ACC 34.71 ± 3.36 [b], BWT -48.56 ± 3.17, MB 27.2. Its source: "
            "own run. Measured here: above (+15.29 pp, +4.6 sd)."
        ],
        [],
        [
            "Ebrahimi et al., 2020: ACC 66.78 ± 0.48 [c], BWT -15.01 ± 1.11, MB 25.4 + 16. Its "
            "source: quoted from Chaudhry et al., 2019. Measured here: not comparable: other "
            "budget. The difference in ACC, all the same: -0.48 points, -1.0 published standard "
            "deviations."
        ],
    ]
    page.locator("#chooser summary").press("Enter")
    page.get_by_label("I_T pp", exact=True).check()
    assert "MB 25.4 + 16, I -0.0020." in page.locator(".paper").last.inner_text()


def test_charts_have_a_text_alternative(open_page: Open, open_method: Record) -> None:
    page = open_page([open_method])
    page.get_by_role("button", name="stranger").click()
    charts = page.get_by_role("application")
    assert {chart.locator("desc").text_content() for chart in charts.all()} == {
        "stranger: 95.00 after task 1, 85.00 after task 2",
        "Task 1: 95.00 after task 1, 90.00 after task 2; Task 2: 80.00 after task 2",
        "Task 1: 71.00 epoch 1, 73.00 epoch 3; Task 2: 71.00 epoch 1, 73.00 epoch 3",
        "Task 1: 1.00 epoch 1, 0.33 epoch 3; Task 2: 1.00 epoch 1, 0.33 epoch 3",
        "Layer 1: 10.00 after task 1, 30.00 after task 2; "
        "Layer 2: 20.00 after task 1, 40.00 after task 2",
    }
    cells = page.get_by_role("grid").get_by_role("gridcell").all_inner_texts()
    assert cells == ["95.00", "60.00", "90.00", "80.00"]


def test_a_heat_map_of_many_tasks_fits_and_keeps_its_numbers(open_page: Open, record: Make) -> None:
    many = record("ewc", tasks=40, done=40, R=[[50.0] * 40] * 40, R0=[50.0] * 40)
    page = open_page([many], viewport={"width": 1400, "height": 900})
    page.get_by_role("button", name="ewc").click()
    grid = page.get_by_role("grid")
    assert grid.locator("..").evaluate("e => e.scrollWidth <= e.clientWidth")
    for role in ("columnheader", "rowheader"):  # those without room are still read out
        assert grid.get_by_role(role, name="7", exact=True).count() == 1


def test_numbers_below_a_chart_do_not_touch(open_page: Open, cifar: list[Record]) -> None:
    page = open_page(cifar)
    ticks = page.locator(".compare .axes text[text-anchor=middle]:not(.name)")
    assert ticks.all_text_contents() == ["1", "4", "6", "8", "10", "12", "14", "16", "18", "20"]


def test_lines_of_similar_colour_differ_in_their_dashes(
    open_page: Open, open_method: Record
) -> None:
    page = open_page([open_method])
    for theme in ("light", "dark"):
        page.evaluate("theme => setTheme(theme)", theme)
        lines = page.evaluate("Array.from({ length: COMPARED }, (_, i) => lineStyle(i))")
        for i, one in enumerate(lines):
            for other in lines[:i]:
                ways = [
                    abs(int(one["colour"][k : k + 2], 16) - int(other["colour"][k : k + 2], 16))
                    for k in (1, 3, 5)
                ]
                assert sum(ways) > 70 or one["dash"] != other["dash"], (one, other)
