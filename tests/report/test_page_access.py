"""The page for every reader, in a real browser: any window, any light, keyboard, screen reader."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from clbench.record import Record

Make = Callable[..., Record]
Open = Callable[..., Any]


def test_light_and_dark(open_page: Open, grid: list[Record]) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    page = open_page(grid, color_scheme="dark")
    dark = page.evaluate(colour)
    page.emulate_media(color_scheme="light")
    page.locator("html[data-theme=light]").wait_for()
    light = page.evaluate(colour)
    assert light != dark
    button = page.get_by_role("button", name="Dark")
    button.click()
    assert page.evaluate(colour) == dark
    assert button.get_attribute("aria-pressed") == "true"
    page.reload()
    assert page.evaluate(colour) == dark  # the reader's choice stays


@pytest.mark.parametrize("width", [320, 390, 1400])
def test_the_page_is_never_wider_than_the_window(
    open_page: Open, grid: list[Record], open_method: Record, record: Make, width: int
) -> None:
    long = record("ewc[" + ",".join(f"parameter_{i}=0.12345" for i in range(9)) + "]")
    page = open_page([*grid, open_method, long], viewport={"width": width, "height": 800})
    for button in page.locator("button.open").all():
        button.click()
    page.locator("#chooser summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_everything_that_acts_has_a_name(
    open_page: Open, grid: list[Record], open_method: Record
) -> None:
    page = open_page([*grid, open_method])
    page.get_by_role("button", name="stranger").click()
    nameless = page.evaluate(
        "[...document.querySelectorAll('button, input, select, a, [tabindex=\"0\"]')].filter(e =>"
        " !e.textContent.trim() && !e.getAttribute('aria-label') && !e.labels?.length)"
        ".map(e => e.outerHTML)"
    )
    assert nameless == []
    assert page.get_by_role("main").count() == 1
    assert page.get_by_role("heading", level=1).count() == 1


# what has the focus: where it is in the page, how it shows, and whether something else covers it
FOCUS = """() => {
  const e = document.activeElement;
  const { left, top, width, height } = e.getBoundingClientRect();
  const [x, y] = [left + Math.min(width / 2, 20), top + Math.min(height / 2, 10)];
  const over = document.elementFromPoint(x, y);
  return {
    at: [...document.querySelectorAll("*")].indexOf(e),
    tag: e.tagName,
    outline: getComputedStyle(e).outline,
    seen: over !== null && (e.contains(over) || over.contains(e)),
  };
}"""


@pytest.mark.parametrize("width", [390, 1400])
def test_the_tab_key_reaches_everything_and_shows_where_it_is(
    open_page: Open, cifar: list[Record], open_method: Record, width: int
) -> None:
    page = open_page([*cifar, open_method], viewport={"width": width, "height": 600})
    page.get_by_role("button", name="stranger").click()
    page.locator("#theme").focus()
    wanted = page.evaluate(
        "[...document.querySelectorAll('a, button, input, select, summary, pre, [tabindex]')]"
        ".filter(e => e.tabIndex >= 0 && e.checkVisibility())"
        ".map(e => [...document.querySelectorAll('*')].indexOf(e))"
    )
    for key in ("Tab", "Shift+Tab"):
        reached = set()
        for _ in range(2 * len(wanted)):  # once around, past the browser's own bars
            page.keyboard.press(key)
            focus = page.evaluate(FOCUS)
            if focus["tag"] in ("BODY", "HTML"):
                continue
            reached.add(focus["at"])
            assert "solid 2px" in focus["outline"], focus
            assert focus["seen"], focus
        assert reached == set(wanted)


def test_the_list_of_columns_does_not_stay_over_the_focus(
    open_page: Open, grid: list[Record]
) -> None:
    page = open_page(grid)
    page.locator("#chooser summary").press("Enter")
    last = page.locator("#columns input").last
    last.focus()
    assert page.locator("#chooser").get_attribute("open") is not None
    page.keyboard.press("Tab")
    assert page.locator("#chooser").get_attribute("open") is None


def test_a_title_is_not_cut_where_its_table_scrolls(open_page: Open, cifar: list[Record]) -> None:
    page = open_page(cifar[:1], viewport={"width": 390, "height": 800})
    page.get_by_role("button", name="pnn").click()
    region = page.get_by_role("region", name="Seconds per task")
    assert region.evaluate("e => e.scrollWidth > e.clientWidth")
    assert region.get_attribute("tabindex") == "0"  # so that the arrow keys scroll it
    box = page.locator("figcaption", has_text="Seconds per task").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert region.get_by_role("table", name="Seconds per task").count() == 1


def contrast(one: str, other: str) -> float:
    """Of two colours as a browser says them, from 1 to 21: WCAG's formula."""

    def light(text: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", text)[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


def style(element: Any, name: str) -> str:
    found: str = element.evaluate("(e, name) => getComputedStyle(e)[name]", name)
    return found


def test_contrast_is_enough_to_read(open_page: Open, record: Make) -> None:
    accuracies = [float(a) for a in range(5, 105, 5)]
    R = [[*accuracies[: k + 1], *[None] * (19 - k)] for k in range(20)]
    page = open_page([record("ewc", tasks=20, done=20, R=R, R0=[5.0] * 20)])
    page.get_by_role("button", name="ewc").click()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.locator(f"html[data-theme={scheme}]").wait_for()
        for cell in page.locator(".heat tr").last.locator("td").all():
            assert contrast(style(cell, "color"), style(cell, "backgroundColor")) >= 4.5
        for control in page.locator("#filter, #family, #theme, #chooser > summary").all():
            assert (
                contrast(style(control, "borderTopColor"), style(control, "backgroundColor")) >= 3
            )
