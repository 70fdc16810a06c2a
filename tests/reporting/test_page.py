"""The page of the paper: every exhibit is on it, no text becomes markup, nothing is fetched, and its links hold."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import page_reader
import pytest
from page_reader import Reader
from sample_sheets import SVG, cell, sample_claims, sample_picture, sample_sections, sample_sheet

from bandana.errors import UserError
from bandana.paper.artifact import Score, Sheet
from bandana.reporting.compare import average_ranks
from bandana.reporting.marks import CELL_MARKS
from bandana.reporting.page import Section, page, write_page

HOSTILE = "</script><img src=x onerror=alert(1)><!--{{ 7 * 7 }}' onmouseover='alert(1)\" autofocus=\"\u2028"
FACTS = {"torch": "2.13.0", "hardware": "two cores"}


@pytest.fixture(autouse=True)
def _images_need_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_reader, "VOID", page_reader.VOID | {"img", "wbr"})


def read(sections: tuple[Section, ...] = sample_sections(), folder: Path = Path("nowhere")) -> Reader:
    return Reader(page(folder, "The paper", sections, FACTS))


def buttons(found: Reader, kind: str) -> list[dict[str, str | None]]:
    return [given for tag, given in found.attributes if tag == "button" and kind in (given.get("class") or "").split()]


def test_every_cell_has_a_sign_a_word_a_colour_and_its_details() -> None:
    found = read()
    cells = buttons(found, "cell")
    told = json.loads(found.scripts[0])
    words = [told[int(given["data-details"])]["word"] for given in cells]
    assert words == [given["data-mark"] for given in cells]
    assert {*words, "side by side"} == {mark.word for mark in CELL_MARKS}, "ranks alone are side by side"
    tones = {given["data-mark"]: given["class"].split()[-1] for given in cells}
    assert tones["same"] == "tone-good"
    assert tones["undecided"] == "tone-fair"
    assert tones["higher"] == "tone-fair"
    assert tones["lower"] == "tone-poor"
    assert {tones[word] for word in ("not run", "out of memory", "failed")} == {"tone-absent"}
    assert len({mark.sign for mark in CELL_MARKS}) == len(CELL_MARKS)
    first = told[0]
    facts = dict(first["facts"])
    assert facts["Ours"] == "84.50 ± 0.50 (10 seeds)"
    assert facts["Published"] == "84.62 ± 0.37 (10 runs)"
    probes = replace(sample_sheet().cells[0], published_over="probes of one encoder")
    section = replace(sample_sections()[0], exhibits=(sample_sheet(cells=(probes,)),))
    facts = dict(json.loads(read((section,)).scripts[0])[0]["facts"])
    assert facts["Published"] == "84.62 ± 0.37 (10 probes of one encoder)"
    assert facts["Difference"] == "−0.12"
    assert facts["Protocol"] == "linear probe"
    assert "prediction interval" in first["note"]


def test_the_number_of_seeds_stands_in_every_cell_that_has_a_figure() -> None:
    text = page(Path("nowhere"), "t", sample_sections()[:1], FACTS)
    figures = [cell.ours for cell in sample_sheet().cells if cell.ours]
    assert re.findall(r'<small class="seeds">\((\d+)\)</small>', text) == [str(score.seeds) for score in figures]
    settings = replace(sample_sheet(), highest_is_best=None, cells=(cell("a", "b", Score(3, None, 1)),))
    text = page(Path("nowhere"), "t", (replace(sample_sections()[0], exhibits=(settings,)),), FACTS)
    assert 'class="seeds"' not in text


def test_nothing_in_a_cell_lies_over_its_figure() -> None:
    text = page(Path("nowhere"), "t", sample_sections()[:1], FACTS)
    assert '<small class="seeds">(10)</small> <span class="published">84.62 ± 0.37</span></span>' in text
    assert '<span class="below"><small class="seeds">(3)</small> </span>' in text, "without a published figure"
    style = re.search("<style>(.*?)</style>", text, re.S)[1]
    assert "display: flex" in re.search(r"\.cell \.below {(.*?)}", style)[1]
    assert not any("absolute" in rules for rules in re.findall(r"\.seeds {(.*?)}", style))


def test_ranks_are_side_by_side_and_counted_so() -> None:
    section = replace(sample_sections()[0], exhibits=(average_ranks([sample_sheet()]),))
    found = read((section,))
    assert {given["data-mark"] for given in buttons(found, "cell")} == {"side by side", "not run"}
    assert "?" not in "".join(found.texts)
    assert [given["data-filter"] for given in buttons(found, "filter")] == ["side by side", "not run"]
    assert "‖ 4 side by side" in " ".join(" ".join(found.texts).split())
    told = json.loads(found.scripts[0])[0]
    assert (told["sign"], told["word"], told["note"]) == ("‖", "side by side", "Ranks are set side by side.")
    assert "not tested" in {given["data-mark"] for given in buttons(read(), "cell")}, "one seed leaves a question"


def test_names_of_rows_wrap_after_underscores_and_dots_and_stay_text() -> None:
    row = "a_b.c <i>_"
    sheet = sample_sheet(rows=(row,), columns=("cora",), cells=(cell(row, "cora", Score(80, 1, 3)),))
    text = page(Path("nowhere"), "t", (replace(sample_sections()[0], exhibits=(sheet,)),), FACTS)
    assert '<th scope="row">a_<wbr>b.<wbr>c &lt;i&gt;_</th>' in text


def test_a_table_that_goes_on_fades_out_where_it_is_cut_but_a_drawing_does_not() -> None:
    text = page(Path("nowhere"), "t", sample_sections(), FACTS)
    fade = re.search(r"\.scroll:not\(\.paper\)::after {(.*?)}", text)[1]
    for rule in ("position: sticky; right: 0", "linear-gradient(to left, var(--ground), transparent)"):
        assert rule in fade, "the ground follows light and dark"


def test_contents_are_open_without_a_script_and_fold_where_the_style_shows_what_opens_them() -> None:
    found = read()
    assert ("details", {"id": "contents", "open": None}) in found.attributes
    text = page(Path("nowhere"), "t", sample_sections(), FACTS)
    assert 'matchMedia("(max-width: 900px)")' in found.scripts[1]
    narrow = text.partition("@media screen and (max-width: 900px) {")[2].partition("@media")[0]
    assert ".browse > nav summary { display: list-item; }" in narrow


def test_what_verdicts_mean_in_one_table_alone_is_said_there() -> None:
    own = sample_sheet(meanings={"same": "grows within the order"}, counted="sizes")
    text = page(Path("nowhere"), "t", (replace(sample_sections()[0], exhibits=(own,)),), FACTS)
    assert "In this table: = grows within the order; in brackets the number of sizes." in text
    assert "In this table" not in page(Path("nowhere"), "t", sample_sections(), FACTS)


def test_numbers_of_a_figure_are_read_without_python_and_lead_to_files(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    for name in ("configs/a.toml", "depth-1.csv", "depth-1.svg"):
        (tmp_path / name).write_text("")
    rows = ((1, None, "configs/a.toml configs/gone.toml"), *[(2, 1 / 3, "")] * 200)
    picture = replace(sample_picture(), columns=("x", "sd", "origins"), rows=rows)
    text = page(tmp_path, "t", (replace(sample_sections()[1], exhibits=(picture,)),), FACTS)
    assert "None" not in text
    assert "<td>– </td>" in text
    assert "<td>0.33333 </td>" in text
    assert '<td><a href="configs/a.toml">a.toml</a> configs/gone.toml </td>' in text
    assert 'The first 200; <a href="depth-1.csv">depth-1.csv</a> has all.' in text
    assert '<p class="note files"><a href="depth-1.csv">depth-1.csv</a> <a href="depth-1.svg">' in text


def test_words_that_the_paper_prints_stand_where_its_figure_would() -> None:
    sheet = sample_sheet(
        rows=("grace",),
        columns=("physics",),
        cells=(cell("grace", "physics", Score(94.5, 0.5, 3), None, printed="OOM"),),
    )
    text = page(Path("nowhere"), "t", (replace(sample_sections()[0], exhibits=(sheet,)),), FACTS)
    assert '<span class="published">OOM</span>' in text
    assert dict(json.loads(Reader(text).scripts[0])[0]["facts"])["Published"] == "OOM"


def test_every_table_has_the_counts_of_its_verdicts_and_the_top_has_none() -> None:
    found = read()
    text = " ".join(" ".join(found.texts).split())
    assert "= 1 same ≈ 1 undecided ▲ 1 higher ▼ 1 lower ? 1 not tested" in text
    assert "= same ≈ undecided ▲ higher ▼ lower ? not tested" in text
    assert [given["data-filter"] for given in buttons(found, "filter")][-3:] == ["holds", "does not hold", "open"]
    for expected in (
        *FACTS.values(),
        "bandana reproduce nodes",
        "It falls.",
        "statement None",
        "Three sentences & more.",
    ):
        assert expected in text


def test_contents_count_each_published_figure_once_also_where_two_tables_score_it() -> None:
    sheet = sample_sheet()
    section = replace(sample_sections()[0], exhibits=(sheet, replace(sheet, rescored=True)))
    text = page(Path("nowhere"), "t", (section,), FACTS)
    contents = text.partition('<li data-section="nodes">')[2].partition("</li>")[0]
    assert re.findall(r">(\S)(\d+)</span>", contents)[:5] == [(sign, "1") for sign in "=≈▲▼?"]
    assert text.count("= 1 same") == 2, "each table says what it has"


def test_a_verdict_has_the_colour_that_most_of_its_cells_have() -> None:
    orders = sample_sheet(highest_is_best=False, marks_best=False)
    for first, tone in (((orders,), "poor"), ((sample_sheet(), sample_sheet(), orders), "fair")):
        section = replace(sample_sections()[0], exhibits=first)
        (higher,) = (it for it in buttons(read((section,)), "filter") if it["data-filter"] == "higher")
        assert higher["class"].split() == ["filter", f"tone-{tone}"]


def test_an_option_of_a_command_is_not_wrapped_at_its_hyphens() -> None:
    words = "not run; to run it: bandana reproduce nodes --data-root FOLDER, on a graph - or two"
    sheet = sample_sheet(notes=(words,))
    section = replace(sample_sections()[0], exhibits=(sheet,), command="bandana reproduce nodes --seeds 10")
    text = page(Path("nowhere"), "t", (section,), FACTS)
    assert '<pre><code>bandana reproduce nodes <span class="option">--seeds</span> 10</code></pre>' in text
    assert 'nodes <span class="option">--data-root</span> FOLDER, on a graph - or two</li>' in text
    assert ".option { white-space: nowrap; }" in text


def test_a_drawing_wider_than_a_narrow_screen_says_so() -> None:
    text = page(Path("nowhere"), "t", sample_sections(), FACTS)
    assert '<p class="note wide">The drawing is wider than the screen: swipe to see the rest.</p>' in text
    assert ".wide { display: none; }" in text.partition("@media screen and (max-width: 600px)")[0]
    assert ".wide { display: block; }" in text.partition("@media screen and (max-width: 600px)")[2]
    assert '<div class="scroll paper" role="region" tabindex="0" aria-label="Depth">' in text


def test_methods_and_data_sets_have_the_names_of_the_figures() -> None:
    text = page(Path("nowhere"), "t", sample_sections(), FACTS)
    assert '<th scope="row">Bandana</th>' in text
    assert '<th scope="col">CS</th>' in text
    assert json.loads(Reader(text).scripts[0])[0]["title"] == "Bandana · Cora"
    picture = replace(sample_picture(), columns=("dataset", "method", "file"), rows=(("cs", "t_bgrl", "cs"),))
    text = page(Path("nowhere"), "t", (replace(sample_sections()[1], exhibits=(picture,)),), FACTS)
    assert "<td>CS </td><td>T-BGRL </td><td>cs </td>" in text
    claim = replace(sample_claims()[0], measured={"cora, whole": 1.0})
    text = page(Path("nowhere"), "t", (replace(sample_sections()[2], exhibits=(claim,)),), FACTS)
    assert "<dt>Cora, whole</dt>" in text


def test_every_section_can_be_reached_and_drawings_are_sealed_off() -> None:
    found = read()
    ids = {given.get("id") for _, given in found.attributes}
    inner = {given["href"][1:] for tag, given in found.attributes if tag == "a" and given["href"].startswith("#")}
    assert inner <= ids
    assert {"nodes", "depth", "theory", "made-with"} <= inner
    (image,) = [given for tag, given in found.attributes if tag == "img"]
    assert base64.b64decode(image["src"].partition(",")[2]).decode() == SVG
    assert image["alt"] == "Depth"


def test_links_lead_from_the_page_to_files_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "a b.toml").write_text("")
    elsewhere = tmp_path / "elsewhere.toml"
    elsewhere.write_text("")
    folder = tmp_path
    sheet = sample_sheet()
    sheet = replace(
        sheet, cells=(*sheet.cells[:3], replace(sheet.cells[3], origins=(str(elsewhere),)), *sheet.cells[4:])
    )
    section = replace(sample_sections()[0], exhibits=(sheet,))
    text = page(folder, "t", (section,), FACTS)
    plain = re.findall(
        r'<noscript><a class="config" href="([^"]+)" title="([^"]+)">configuration</a> </noscript>', text
    )
    assert plain == [("configs/a%20b.toml", "a b.toml"), ("elsewhere.toml", "elsewhere.toml")]
    told = json.loads(Reader(text).scripts[0])
    assert told[0]["links"] == [["a b.toml", "configs/a%20b.toml"]]
    assert told[2]["links"] == [["configs/gone.toml", ""]]
    assert told[3]["links"] == [["elsewhere.toml", "elsewhere.toml"]]


def test_nothing_is_fetched_and_only_our_script_may_run() -> None:
    text = page(Path("nowhere"), "t", sample_sections(), FACTS)
    found = Reader(text)
    policy = next(given["content"] for tag, given in found.attributes if given.get("http-equiv"))
    assert policy.startswith("default-src 'none'; ")
    for kind, content in (("script", found.scripts[1]), ("style", re.search("<style>(.*?)</style>", text, re.S)[1])):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    addresses = [given[name] for _, given in found.attributes for name in ("src", "href") if given.get(name)]
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert not any(name == "style" or name.startswith("on") for _, given in found.attributes for name in given)


def test_no_text_becomes_markup() -> None:
    plain, hostile = (
        page(
            Path("nowhere"),
            text,
            (
                Section(
                    name="n",
                    title=text,
                    kind="table",
                    command=text,
                    exhibits=(
                        Sheet(
                            title=text,
                            rows=(text,),
                            columns=(text,),
                            cells=(
                                cell(
                                    text,
                                    text,
                                    Score(1, 1, 2),
                                    None,
                                    note=text,
                                    protocol=text,
                                    origins=(text,),
                                    printed=text,
                                ),
                            ),
                            notes=(text,),
                        ),
                        replace(sample_picture(), title=text, columns=(text,), rows=((text,),), notes=(text,)),
                        replace(sample_claims()[0], statement=text, explanation=text, measured={text: 1.0}),
                    ),
                ),
            ),
            {text: text},
        )
        for text in ("plain", HOSTILE)
    )
    assert Reader(plain).elements == Reader(hostile).elements
    assert json.loads(Reader(hostile).scripts[0])[0]["note"] == HOSTILE
    assert "49" not in Reader(hostile).texts


def test_the_page_is_written_where_it_was_asked_for(tmp_path: Path) -> None:
    path = write_page(tmp_path / "results", "The paper", sample_sections(), FACTS)
    assert path == tmp_path / "results" / "index.html"
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        write_page(tmp_path / "file", "t", (), {})


def test_an_empty_page_says_so_little_but_stands() -> None:
    found = read(())
    assert buttons(found, "cell") == []
    assert buttons(found, "filter") == []
