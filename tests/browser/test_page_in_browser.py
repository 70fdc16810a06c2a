"""The page of the paper under a real hand: details, filters, keys, themes and widths."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sample_sheets import sample_sections

from bandana.reporting.page import write_page

pytestmark = pytest.mark.browser
Page = Callable[..., Any]


@pytest.fixture
def opened(chromium: Any, tmp_path: Path) -> Iterator[Page]:
    """Opens the sample page; afterwards the browser must have had nothing to complain of."""
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "a b.toml").write_text("")
    path = write_page(tmp_path, "The paper", sample_sections(), {"torch": "2.13.0"})

    def open_page(*, width: int = 1400, theme: str = "light") -> Any:
        features = [
            {"name": "prefers-color-scheme", "value": theme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        chromium.get(path.as_uri())
        return chromium

    yield open_page
    assert chromium.get_log("browser") == []


def find(page: Any, selector: str) -> Any:
    return page.find_element("css selector", selector)


def press(page: Any, *keys: str) -> None:
    from selenium.webdriver import ActionChains

    ActionChains(page).send_keys(*keys).perform()


def test_a_cell_tells_what_is_behind_it(opened: Page) -> None:
    page = opened()
    card = find(page, "#told")
    assert not card.is_displayed()
    find(page, ".cell").click()
    assert find(page, "#told-title").text == "Bandana · Cora"
    assert "84.62 ± 0.37 (10 runs)" in card.text
    assert find(page, "#told a").get_attribute("href").endswith("/configs/a%20b.toml")
    press(page, "\ue00c")  # Escape
    assert not card.is_displayed()
    assert page.switch_to.active_element == find(page, ".cell")


def test_keys_walk_from_cell_to_cell(opened: Page) -> None:
    page = opened()
    page.execute_script("document.querySelector('.cell').focus()")
    press(page, "\ue015", "\ue014")  # down, right
    assert find(page, "#told-title").text == "gae_x · CS"
    press(page, "\ue007")  # Enter
    assert page.switch_to.active_element == find(page, "#told")
    press(page, "\ue00c")
    assert page.switch_to.active_element.get_attribute("data-mark") == "not tested"


def test_pointing_at_a_cell_previews_it(opened: Page) -> None:
    from selenium.webdriver import ActionChains

    page = opened()
    ActionChains(page, duration=0).move_to_element(page.find_elements("css selector", ".cell")[3]).perform()
    assert find(page, "#told-verdict").text == "▼ lower"
    ActionChains(page, duration=0).move_to_element(find(page, "h1")).perform()
    assert not find(page, "#told").is_displayed()


def test_a_verdict_can_be_looked_at_alone(opened: Page) -> None:
    page = opened()
    find(page, "[data-filter='lower']").click()
    bright = page.find_elements("css selector", ".cell:not(.aside)")
    assert [cell.get_attribute("data-mark") for cell in bright] == ["lower"]
    assert not find(page, "#theory").is_displayed()
    assert find(page, "#made-with").is_displayed()
    assert find(page, "#shown").text == "Only “lower”. Choose it again to see all."
    find(page, "[data-filter='lower']").click()
    assert find(page, "#theory").is_displayed()
    assert page.find_elements("css selector", ".aside") == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_the_page_fits_and_wears_its_theme(opened: Page, width: int, theme: str) -> None:
    page = opened(width=width, theme=theme)
    find(page, ".cell").click()
    assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    box = find(page, "#told").rect
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    ground = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}[theme]
    assert page.execute_script("return document.querySelector('img').naturalWidth") == 90
