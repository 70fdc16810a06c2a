"""The report under a real hand: searching, pointing, clicking, keys, themes, and 50,000 points."""

import base64
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_report import sample_report

from bandana.reporting.html import Map, Report, write_report

pytestmark = pytest.mark.browser
pyplot = pytest.importorskip("matplotlib.pyplot", reason="reads screenshots with matplotlib")
Page = Callable[..., Any]

HOSTILE = "</script><img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"


@pytest.fixture
def opened(chromium: Any, tmp_path: Path) -> Iterator[Page]:
    """Opens a sample report; afterwards the browser must have had nothing to complain of."""

    def open_page(
        report: Report | None = None, *, width: int = 1400, theme: str = "light", motion: str = "reduce"
    ) -> Any:
        features = [
            {"name": "prefers-color-scheme", "value": theme},
            {"name": "prefers-reduced-motion", "value": motion},
        ]
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        write_report(tmp_path / "report.html", report or sample_report(300))
        chromium.get((tmp_path / "report.html").as_uri())
        chromium.execute_script(
            "document.getElementById('canvas').scrollIntoView({block: 'center', behavior: 'instant'})"
        )
        frame(chromium)
        return chromium

    yield open_page
    assert chromium.get_log("browser") == []


def frame(page: Any) -> None:
    """Wait until what was asked for has been drawn."""
    page.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))")


def text(page: Any, selector: str) -> str:
    return page.find_element("css selector", selector).text


def press(page: Any, *keys: str) -> None:
    from selenium.webdriver import ActionChains

    ActionChains(page).send_keys(*keys).perform()
    frame(page)


def move(page: Any, across: int = 0, down: int = 0, *, click: bool = False) -> None:
    """Put the pointer somewhere, counted from the middle of the map."""
    from selenium.webdriver import ActionChains

    hand = ActionChains(page, duration=0).move_to_element_with_offset(page.find_element("id", "canvas"), across, down)
    (hand.click() if click else hand).perform()
    frame(page)


def find(page: Any, words: str) -> None:
    field = page.find_element("id", "find")
    field.clear()
    field.send_keys(words)


def map_pixels(page: Any) -> np.ndarray:
    script = "return document.getElementById('canvas').toDataURL('image/png')"
    picture = base64.b64decode(page.execute_script(script).partition(",")[2])
    return (pyplot.imread(io.BytesIO(picture))[..., :3] * 255).round().astype(int)


def test_a_searched_node_comes_to_the_middle_with_its_neighbours(opened: Page) -> None:
    page = opened()
    find(page, "PAPER-00042")
    assert text(page, "#found-status") == "1 id found."
    press(page, "\ue007")  # Enter
    assert text(page, "#card strong") == "paper-00042"
    neighbours = [
        item.text for item in page.find_elements("css selector", "#card ul")[0].find_elements("css selector", "li")
    ]
    assert neighbours == [f"paper-{place:05d}" for place in range(43, 49)]
    assert text(page, "#zoom") == "Zoom ×4.0."
    move(page)
    assert text(page, "#tip strong") == "paper-00042"
    assert "nearest vectors: paper-00043, paper-00044" in text(page, "#tip")


def test_many_matches_are_counted_and_a_neighbour_can_be_followed(opened: Page) -> None:
    page = opened()
    find(page, "paper-001")
    assert text(page, "#found-status") == "The first 8 of 100 ids."
    page.find_elements("css selector", "#found button")[3].click()
    assert page.find_elements("css selector", "#found button") == []
    assert page.switch_to.active_element.get_attribute("id") == "find"
    assert text(page, "#card strong") == "paper-00103"
    page.find_element("css selector", "#card ul button").click()
    assert text(page, "#card strong") == "paper-00104"
    find(page, "nowhere")
    assert text(page, "#found-status") == "No ids found."


def test_clicking_a_point_keeps_it_and_clicking_nothing_lets_it_go(opened: Page) -> None:
    page = opened()
    find(page, "paper-00007")
    press(page, "\ue007")
    press(page, "\ue00c")
    move(page, click=True)
    assert text(page, "#card strong") == "paper-00007"
    page.find_element("id", "whole").click()
    frame(page)
    move(page, 380, 290, click=True)
    assert text(page, "#card") == "No node is chosen."


def test_dragging_moves_the_map_by_as_much(opened: Page) -> None:
    from selenium.webdriver import ActionChains

    page = opened()
    before = map_pixels(page)
    canvas = page.find_element("id", "canvas")
    hand = ActionChains(page, duration=0).move_to_element_with_offset(canvas, 380, 290)
    hand.click_and_hold().move_by_offset(-40, -25).release().move_by_offset(20, 20).perform()
    frame(page)
    after = map_pixels(page)
    inner = (slice(60, -60), slice(60, -60))
    moved = np.roll(before, (-25, -40), axis=(0, 1))
    assert (after[inner] != moved[inner]).any(axis=2).mean() < 0.002  # a point may round to the next pixel
    assert (after[inner] != before[inner]).any(axis=2).mean() > 0.005


def test_the_wheel_zooms_only_a_map_that_has_been_clicked(opened: Page) -> None:
    from selenium.webdriver.common.action_chains import ActionChains, ScrollOrigin

    page = opened()
    origin = ScrollOrigin.from_element(page.find_element("id", "canvas"))
    page.execute_script("scrollBy({top: -100, behavior: 'instant'})")
    ActionChains(page, duration=0).scroll_from_origin(origin, 0, 100).perform()
    frame(page)
    assert text(page, "#zoom") == "Zoom ×1.0."
    move(page, 380, 290, click=True)
    ActionChains(page, duration=0).scroll_from_origin(origin, 0, -400).perform()
    frame(page)
    assert text(page, "#zoom") == "Zoom ×1.8."


def test_keys_alone_reach_a_node(opened: Page) -> None:
    page = opened()
    page.execute_script("document.getElementById('whole').focus()")
    press(page, "\ue004")  # Tab
    assert page.switch_to.active_element.get_attribute("id") == "canvas"
    press(page, "+", "+", "\ue012", "\ue013")
    assert text(page, "#zoom") == "Zoom ×1.7."
    press(page, "\ue007")
    assert text(page, "#card strong").startswith("paper-")
    press(page, "0")
    assert text(page, "#zoom") == "Zoom ×1.0."
    press(page, "\ue00c")
    assert text(page, "#card") == "No node is chosen."


def test_colours_follow_the_choice_and_the_legend_picks_out_a_group(opened: Page) -> None:
    page = opened()
    labels = map_pixels(page)
    first = page.find_element("css selector", "#legend button")
    first.click()
    frame(page)
    assert first.get_attribute("aria-pressed") == "true"
    picked = map_pixels(page)
    strong = [(np.ptp(pixels, axis=2) > 90).sum() for pixels in (labels, picked)]
    assert 0.05 * strong[0] < strong[1] < 0.4 * strong[0]
    page.find_element("css selector", "#colour option:nth-child(2)").click()
    frame(page)
    assert text(page, "#legend .ends span") == "1"
    assert (map_pixels(page) != labels).any(axis=2).sum() > 500
    page.find_element("css selector", "#colour option:nth-child(3)").click()
    assert len(page.find_elements("css selector", "#legend button")) == 11  # ten, and the rest together


def test_hostile_ids_are_shown_as_they_are(opened: Page) -> None:
    page = opened(sample_report(3, [HOSTILE, "b", "c"]))
    find(page, "<img")
    press(page, "\ue007")
    move(page)
    assert text(page, "#card strong") == HOSTILE
    assert text(page, "#tip strong") == HOSTILE
    assert page.title == sample_report(3).title
    assert page.find_elements("css selector", "img") == []


def test_a_neighbour_that_is_not_drawn_is_named_but_cannot_be_followed(opened: Page) -> None:
    drawn = Map(
        points=np.eye(2), ids=["a", "b", "far away"], colourings=(), neighbours={"near": np.array([[1, 2], [0, 2]])}
    )
    page = opened(Report(title="Two of three", summary="", map=drawn))
    find(page, "far")
    assert text(page, "#found-status") == "No ids found."
    find(page, "a")
    press(page, "\ue007")
    assert [item.text for item in page.find_elements("css selector", "#card li")] == ["b", "far away"]
    assert [item.text for item in page.find_elements("css selector", "#card li button")] == ["b"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_the_page_fits_and_the_map_wears_its_theme(opened: Page, width: int, theme: str) -> None:
    page = opened(width=width, theme=theme)
    assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    ground = {"light": [255, 255, 255], "dark": [20, 23, 28]}[theme]
    assert map_pixels(page)[0, 0].tolist() == ground
    assert len(np.unique(map_pixels(page).reshape(-1, 3), axis=0)) > 20


def test_a_dark_page_prints_on_white(opened: Page) -> None:
    page = opened(theme="dark")
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    frame(page)
    assert map_pixels(page)[0, 0].tolist() == [255, 255, 255]
    assert not page.find_element("css selector", ".controls").is_displayed()
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_fifty_thousand_points_stay_fluid(opened: Page) -> None:
    page = opened(sample_report(50_000))
    script = """
        const [done, canvas, times] = [arguments[0], document.getElementById("canvas"), []];
        const step = () => {
          times.push(Number(canvas.dataset.milliseconds));
          if (times.length > 40) return done(times.slice(1).sort((a, b) => a - b)[20]);
          canvas.dispatchEvent(new KeyboardEvent("keydown", { key: times.length % 2 ? "ArrowLeft" : "ArrowRight" }));
          requestAnimationFrame(step);
        };
        step();
    """
    assert page.execute_async_script(script) < 50  # milliseconds in the median, on a core that may be shared
    find(page, "paper-49999")
    press(page, "\ue007")
    assert text(page, "#card strong") == "paper-49999"
