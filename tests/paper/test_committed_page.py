"""The page under results/ shows the rows that its own command names, as they are."""

import re
from pathlib import Path

from bandana.paper.artifact import Scope
from bandana.paper.catalogue import artifacts
from bandana.paper.pieces import TRAINING, digest_of
from bandana.paper.rows import read_rows

ROOT = Path(__file__).parents[2]


def test_the_page_was_made_from_the_rows_of_today() -> None:
    command = (ROOT / "results" / "README.md").read_text(encoding="utf-8").partition("The page was made by")[2]
    (seeds,) = re.findall(r"all --no-run --seeds (\d+)", command)
    given = read_rows([ROOT / name for name in re.findall(r"--rows ([^\s\"]+)", command)]).found
    shown = read_rows([ROOT / "results" / "reproduce" / "trainings.csv"]).found
    wanted = {
        (digest_of(piece.arguments["experiment"]), str(piece.arguments["seed"]))
        for artifact in artifacts().values()
        for piece in artifact.pieces(Scope(seeds=int(seeds)))
        if piece.work == TRAINING
    }
    there = {key for key in wanted & given.keys() if given[key].values is not None}
    assert len(there) > 1000
    assert there - shown.keys() == set(), "rows that the page does not show: make it anew"
    assert [key for key in there if repr(shown[key].values) != repr(given[key].values)] == []
