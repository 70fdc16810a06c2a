"""The report page: nothing of the user's text can become markup, nothing is fetched, and every figure arrives."""

import base64
import errno
import hashlib
import math
import os
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_reader import Reader
from sample_report import sample_map, sample_report

from bandana.errors import UserError
from bandana.reporting import charts
from bandana.reporting.charts import BarChart, Curve, LineChart
from bandana.reporting.html import (
    Fact,
    Groups,
    Map,
    NextStep,
    Report,
    Row,
    Score,
    Section,
    Shades,
    Table,
    Verdict,
    page,
    write_report,
)

REPORTING = Path(charts.__file__).parent
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<!--<script>",
    "]]>",
    "' onmouseover='alert(1)",
    '" autofocus onfocus="alert(1)',
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;&amp;",
    "\u202egnp.exe",
    "\u2028\u2029\x00\x1b[2J",
    "\ud800 half a pair",
    "é𝄞" * 300,
    "",
]


def worded(text: str) -> Report:
    """A report in which every string is the same."""
    table = Table(
        caption=text,
        columns=(text,),
        rows=(Row(text, (Verdict("good", text),), hint=text), Row(text, (text,))),
        note=text,
    )
    chart = LineChart(
        title=text, x_label=text, curves=(Curve(name=text, x=[0, 1], y=[0, 1]),), marked=0.5, mark_text=text
    )
    bars = BarChart(title=text, x_label=text, names=[text], heights=[1])
    drawn = Map(
        points=np.zeros((2, 2)),
        ids=[text, text],
        colourings=(Groups(name=text, values=np.array([0, -1]), names=[text]),),
        neighbours={text: np.array([[1], [-1]])},
        note=text,
    )
    section = Section(
        title=text,
        lead=text,
        verdicts=(Verdict("poor", text),),
        facts=(Fact(text, text, text),),
        tables=(table,),
        charts=(chart, bars),
    )
    return Report(
        title=text,
        summary=text,
        facts=(Fact(text, text, text),),
        verdicts=(Verdict("note", text),),
        map=drawn,
        sections=(section,),
        next_steps=(NextStep(text, text),),
        made_with=(Fact(text, text),),
    )


@pytest.mark.parametrize("text", [text for text in HOSTILE if text])
def test_hostile_text_stays_text(text: str) -> None:
    assert Reader(page(worded(text))).elements == Reader(page(worded("harmless"))).elements


@given(st.text(st.characters(), min_size=1))
def test_no_text_at_all_becomes_markup_and_every_id_survives(text: str) -> None:
    read = Reader(page(worded(text)))
    assert read.elements == Reader(page(worded("harmless"))).elements
    assert read.map_data["ids"] == [text, text]


def test_a_page_with_every_hostile_id_can_be_written_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "report.html"
    write_report(path, sample_report(len(HOSTILE), HOSTILE))
    assert Reader(path.read_text(encoding="utf-8")).map_data["ids"] == HOSTILE


def test_the_policy_names_the_very_script_and_style_on_the_page() -> None:
    text = page(sample_report(10))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'")
    assert "unsafe" not in policy[1]
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    for kind, content in (("script-src", Reader(text).scripts[1]), ("style-src", style[1])):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy[1]


def test_nothing_is_fetched_and_no_attribute_is_code() -> None:
    text = page(sample_report(10))
    read = Reader(text)
    for tag, attributes in read.attributes:
        assert not {"style", "src", "srcset", "action"} & set(attributes), tag
        assert not any(name.startswith("on") for name in attributes), tag
        assert (attributes.get("href") or "#").startswith(("#", "data:"))
    addresses = set(re.findall(r"https?://[^\"'\s]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not a place
    assert not re.search(
        r"@import|url\(|\bfetch\(|XMLHttpRequest|innerHTML|insertAdjacent|document\.write|\beval\b", text
    )


def test_map_data_arrive_bit_for_bit() -> None:
    drawn = sample_map(50)
    data = Reader(page(replace(sample_report(), map=drawn))).map_data
    points = np.frombuffer(base64.b64decode(data["points"]), "<f4").reshape(-1, 2)
    shift = points - drawn.points * (np.ptp(points[:, 0]) / np.ptp(drawn.points[:, 0]))
    assert np.allclose(shift, shift[0], atol=1e-5)  # moved and scaled as a whole
    assert np.abs(points).max() == pytest.approx(1)
    for colouring, packed in zip(drawn.colourings, data["colourings"], strict=True):
        kind = "<i4" if isinstance(colouring, Groups) else "<f4"
        assert np.array_equal(np.frombuffer(base64.b64decode(packed["values"]), kind), colouring.values)
    for (name, lists), packed in zip(drawn.neighbours.items(), data["neighbours"], strict=True):
        assert packed["name"] == name
        assert np.array_equal(
            np.frombuffer(base64.b64decode(packed["positions"]), "<i4").reshape(-1, packed["most"]), lists
        )


def test_every_word_and_figure_of_the_report_is_on_the_page() -> None:
    read = " ".join(Reader(page(sample_report(10))).texts)
    for words in (
        "Better than every floor",
        "0.947",
        "Adamic–Adar",
        "no vectors",
        "bandana links out/ --top 100",
        "99.4 %",
        "weights kept",
    ):
        assert words in read


def test_a_report_of_two_sentences_is_a_page() -> None:
    read = Reader(page(Report(title="A graph", summary="Small.")))
    assert read.scripts == []
    assert "Small." in read.texts


def test_those_who_listen_get_names_for_everything() -> None:
    read = Reader(page(sample_report(10)))
    ids = [attributes["id"] for _, attributes in read.attributes if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in read.attributes:
        for name in ("aria-labelledby", "aria-describedby"):
            assert attributes.get(name, ids[0]) in ids
        if tag == "svg":
            assert (
                attributes.get("aria-label") if attributes.get("role") == "img" else attributes["aria-hidden"] == "true"
            )
        if (attributes.get("href") or "#content").startswith("#"):
            assert (attributes.get("href") or "#content")[1:] in ids
    levels = [int(tag[1]) for tag, _ in read.attributes if re.fullmatch(r"h\d", tag)]
    assert levels.count(1) == 1
    assert all(deeper - level <= 1 for level, deeper in pairwise(levels))


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def themes() -> list[dict[str, str]]:
    css = (REPORTING / "report.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    return [dict(re.findall(r"--([\w-]+): (#\w{6});", block)) for block in blocks]


def test_the_light_the_dark_and_the_printed_page_can_be_read() -> None:
    assert len(themes()) == 3
    for theme in themes():
        for name in ("text", "muted", "accent"):
            assert contrast(theme[name], theme["ground"]) >= 4.5
            assert contrast(theme[name], theme["raised"]) >= 4.5
        for tone in ("good", "fair", "poor", "note"):
            assert contrast(theme[tone], theme[f"{tone}-ground"]) >= 4.5
        for name in ("edge", *(f"line-{number}" for number in range(4))):
            assert contrast(theme[name], theme["ground"]) >= 3


def test_points_stand_out_on_light_and_dark_ground() -> None:
    colours = set(re.findall(r"\"(#\w{6})\"", (REPORTING / "map_view.js").read_text(encoding="utf-8")))
    assert len(colours) == 11
    for theme in themes():
        assert {colour for colour in colours if contrast(colour, theme["ground"]) < 3} == set()


def test_the_parts_are_short_enough_to_read() -> None:
    for path in REPORTING.iterdir():
        if path.suffix in {".js", ".css", ".j2"}:
            assert len(path.read_text(encoding="utf-8").splitlines()) <= 300, path.name


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"points": np.zeros((3, 3))}, "shape"),
        ({"points": np.full((3, 2), np.nan)}, "finite"),
        ({"ids": ["a"]}, "1 ids for 3 points"),
        ({"colourings": (Shades(name="degree", values=np.zeros(2)),)}, "'degree'"),
        ({"colourings": (Groups(name="label", values=np.array([0, 1, 2]), names=["a", "b"]),)}, "without a name"),
        ({"neighbours": {"near": np.array([[1], [2], [3]])}}, "'near'"),
    ],
)
def test_a_map_that_does_not_fit_together_is_refused(changes: dict[str, object], words: str) -> None:
    fitting = Map(points=np.zeros((3, 2)), ids=[1, 2, 3], colourings=(), neighbours={})
    with pytest.raises(ValueError, match=words):
        replace(fitting, **changes)


def test_a_row_that_does_not_fill_its_table_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fill"):
        Table(caption="links", columns=("AUC", "AP"), rows=(Row("ours", ("0.9",)),))


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match=r"report\.html: cannot be written"):
        write_report(tmp_path / "file" / "report.html", sample_report(3))


def test_a_full_disk_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write_report(tmp_path / "report.html", sample_report(3))
    before = (tmp_path / "report.html").read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left"):
        write_report(tmp_path / "report.html", sample_report(4))
    assert (tmp_path / "report.html").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(("share", "width"), [(0.5, 50), (-1, 0), (2, 100), (math.nan, 0)])
def test_bars_in_tables_stay_on_their_track(share: float, width: float) -> None:
    assert Score("", share).width == width
