"""The page for every reader, in a real browser: any window, any light, keyboard, screen reader."""

from collections.abc import Callable
from typing import Any

import pytest

Record = dict[str, Any]
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
    open_page: Open, grid: list[Record], acl: Record, record: Make, width: int
) -> None:
    long = record("ewc[" + ",".join(f"parameter_{i}=0.12345" for i in range(9)) + "]")
    page = open_page([*grid, acl, long], viewport={"width": width, "height": 800})
    for button in page.locator("button.open").all():
        button.click()
    page.locator("#chooser summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_everything_that_acts_has_a_name(open_page: Open, grid: list[Record], acl: Record) -> None:
    page = open_page([*grid, acl])
    page.get_by_role("button", name="acl").click()
    nameless = page.evaluate(
        "[...document.querySelectorAll('button, input, select, a, [tabindex=\"0\"]')].filter(e =>"
        " !e.textContent.trim() && !e.getAttribute('aria-label') && !e.labels?.length)"
        ".map(e => e.outerHTML)"
    )
    assert nameless == []
    assert page.get_by_role("main").count() == 1
    assert page.get_by_role("heading", level=1).count() == 1
