"""The report that ``bandana embed`` writes of a real graph, opened, clicked through and photographed."""

import csv
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from bandana.data.tables import read_graph
from bandana.own.automatic import choose
from bandana.own.embed import embed_own, write_embedded
from bandana.own.outputs import REPORT

pytestmark = pytest.mark.browser
Select = pytest.importorskip("selenium.webdriver.support.select", reason="install selenium").Select
pyplot = pytest.importorskip("matplotlib.pyplot", reason="reads screenshots with matplotlib")

WIDE, HIGH = 1400, 900


@pytest.fixture(scope="module")
def page(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The characters of Les Misérables after a few epochs."""
    folder = tmp_path_factory.mktemp("own")
    with (folder / "scenes.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("source", "target"), *nx.les_miserables_graph().edges])
    own = read_graph(folder / "scenes.csv")
    write_embedded(folder / "out", embed_own(own, choose(own.graph, device="cpu", epochs=20)), title="scenes.csv")
    size = {"width": WIDE, "height": HIGH, "deviceScaleFactor": 1, "mobile": False}
    light = [{"name": "prefers-color-scheme", "value": "light"}, {"name": "prefers-reduced-motion", "value": "reduce"}]
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": light})
    chromium.get((folder / "out" / REPORT).as_uri())
    return chromium


def text(page: Any, selector: str) -> str:
    return page.find_element("css selector", selector).text


def photograph(page: Any, path: Path) -> np.ndarray:
    """The window as it is seen, kept as a file for whoever wants to look."""
    page.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))")
    assert page.save_screenshot(str(path))
    return (pyplot.imread(path)[..., :3] * 255).round().astype(int)


def test_a_character_is_found_clicked_and_followed_to_a_neighbour(page: Any, tmp_path: Path) -> None:
    page.execute_script("document.getElementById('canvas').scrollIntoView({block: 'center', behavior: 'instant'})")
    before = photograph(page, tmp_path / "before.png")
    page.find_element("id", "find").send_keys("Prouvaire")
    page.find_element("css selector", "#found button").click()
    assert text(page, "#card strong") == "Prouvaire"
    after = photograph(page, tmp_path / "after.png")
    assert before.shape == after.shape == (HIGH, WIDE, 3)
    assert (before != after).any(axis=2).mean() > 0.01
    neighbour = page.find_element("css selector", "#card ul button")
    name = neighbour.text
    assert name in nx.les_miserables_graph()
    neighbour.click()
    assert text(page, "#card strong") == name
    assert page.get_log("browser") == []


def legend(page: Any) -> dict[str, int]:
    rows = page.find_elements("css selector", "#legend button")
    parts = [row.text.rsplit("\n", 1) for row in rows]
    return {name: int(count) for name, count in parts}


def test_points_can_be_coloured_by_community_named_after_its_busiest_character(page: Any, tmp_path: Path) -> None:
    page.execute_script("document.getElementById('canvas').scrollIntoView({block: 'center', behavior: 'instant'})")
    choice = Select(page.find_element("id", "colour"))
    assert [option.text for option in choice.options] == ["community", "degree"]
    choice.select_by_visible_text("degree")
    by_degree = photograph(page, tmp_path / "degree.png")
    choice.select_by_visible_text("community")
    by_community = photograph(page, tmp_path / "community.png")
    assert (by_degree != by_community).any(axis=2).mean() > 0.001
    groups, degree = legend(page), dict(nx.les_miserables_graph().degree)
    assert sum(groups.values()) == 77
    assert all(name.removeprefix("around ") in degree for name in groups)
    assert f"around {max(degree, key=lambda name: degree[name])}" in groups
    page.find_element("css selector", "#legend button").click()
    assert (photograph(page, tmp_path / "picked.png") != by_community).any(axis=2).mean() > 0.001
    page.find_element("css selector", "#legend button").click()
    page.find_element("id", "find").clear()
    page.find_element("id", "find").send_keys("Valjean")
    page.find_element("css selector", "#found button").click()
    assert "around Valjean" in text(page, "#card")


def test_each_verdict_wears_the_badge_of_its_tone(page: Any) -> None:
    badges = page.find_elements("css selector", "#in-short .badge")
    words = {"good": "Good", "fair": "Fair", "poor": "Weak", "note": "Note"}
    tones = [badge.get_attribute("class").split()[1] for badge in badges]
    assert [badge.text.split()[-1] for badge in badges] == [words[tone] for tone in tones]
    assert len(set(tones)) >= 3


def test_the_first_screen_shows_what_the_graph_is_and_what_the_vectors_are_worth(page: Any, tmp_path: Path) -> None:
    page.execute_script("scrollTo({top: 0, behavior: 'instant'})")
    seen = photograph(page, tmp_path / "top.png")
    assert len(np.unique(seen.reshape(-1, 3), axis=0)) > 50
    words = text(page, "body")
    assert "scenes.csv" in words
    assert "77" in words
    assert "254" in words
    assert "held-out" in words
    requests = page.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert [name for name in requests if not name.startswith(("data:", "blob:"))] == []
