"""What opens under a row of the page, in a real browser: runs, heat maps, curves."""

import re
from collections.abc import Callable
from typing import Any

import pytest

Record = dict[str, Any]
Open = Callable[..., Any]
playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")


def test_a_number_leads_to_its_runs_record(
    open_page: Open, grid: list[Record], acl: Record
) -> None:
    page = open_page([*grid, acl])
    page.locator("a", has_text="85.00").click()
    text = page.locator(".run").inner_text()
    assert page.url.endswith(f"#run-{acl['id']}")
    for words in ("a-host", "versions.torch", "lr_factor", "SECONDS", "shared zeroed", "S is idle"):
        assert words.lower() in text.lower()
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    # the address alone leads there, too; and a mean leads to all of its seeds
    fresh = open_page([*grid, acl], page.url)
    fresh.locator(".run[open] .heat").wait_for()
    fresh.get_by_role("row", name=re.compile("agem")).locator("a").first.click()
    seeds = fresh.locator(".run > summary strong")
    playwright.expect(seeds).to_have_text(["Seed 0", "Seed 1", "Seed 0"])


def test_the_heat_map_answers_pointer_and_keys(open_page: Open, acl: Record) -> None:
    page = open_page([acl])
    page.get_by_role("button", name="acl").press("Enter")
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


def test_curves_answer_pointer_and_keys(open_page: Open, acl: Record) -> None:
    page = open_page([acl])
    page.get_by_role("button", name="acl").click()
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
