"""What is missing is said once for each reason, and with the number of seeds wherever others have a result."""

import pytest

from bandana.paper.artifact import Piece, Result, Scope
from bandana.paper.figures import depth, karate, temperature
from bandana.paper.sentences import failure_notes, sentence, without_result

NOT_YET = "not run yet; to run it: bandana reproduce x --seeds 4"
DONE = Result({"metrics": {"micro_f1": 0.8}})


def seeds(name: str, *results: Result, place: int = 0) -> list[tuple[Piece, Result]]:
    return [(Piece(name, {"seed": seed, "place": place}), result) for seed, result in enumerate(results)]


def notes(*results: tuple[Piece, Result]) -> list[str]:
    return failure_notes(results, lambda piece: piece.work, lambda piece: piece.arguments["place"])


@pytest.mark.parametrize(
    ("text", "whole"),
    [("", ""), ("quoted", "Quoted."), ("It ends.", "It ends."), ("Does it?", "Does it?"), ("a: b", "A: b.")],
)
def test_a_remark_becomes_a_sentence(text: str, whole: str) -> None:
    assert sentence(text) == whole
    assert sentence(whole) == whole


def test_not_run_yet_is_said_only_of_what_has_no_result_at_all() -> None:
    missing = Result(None, NOT_YET)
    assert notes(*seeds("a", missing, missing), *seeds("b", missing, missing)) == [f"a; b: {NOT_YET}."]
    assert notes(*seeds("a", DONE, missing, missing, missing)) == [
        "a: 3 of 4 seeds have no result (to run them: bandana reproduce x --seeds 4)."
    ]
    assert notes(*seeds("a", DONE, DONE)) == []


def test_other_reasons_are_told_beside_it_each_with_its_seeds() -> None:
    assert notes(*seeds("a", DONE, Result(None, "ValueError: no"), Result(None), Result(None))) == [
        "a: 1 of 4 seeds has no result (ValueError: no).",
        "a: 2 of 4 seeds have no result (not run).",
    ]


def test_points_that_lack_as_many_seeds_are_counted_together() -> None:
    missing = Result(None, NOT_YET)
    shares = [(DONE, DONE, DONE), *[(DONE, missing, missing)] * 3, (missing, missing, missing)]
    results = [pair for place, own in enumerate(shares) for pair in seeds("a", *own, place=place)]
    assert notes(*results) == [
        "a: 2 of 3 seeds have no result at 3 of 5 points, 3 of 3 at 1 (to run them: bandana reproduce x --seeds 4)."
    ]


def test_one_seed_has_and_several_have() -> None:
    assert without_result(1, 10, "x") == "1 of 10 seeds has no result (x)"
    assert without_result(7, 10, "x") == "7 of 10 seeds have no result (x)"


def test_a_figure_that_has_some_of_its_seeds_does_not_say_that_it_was_not_run() -> None:
    for artifact, said in (
        (temperature.ARTIFACT, "Cora; PubMed: 2 of 3 seeds have no result at 12 of 13 points (to run them: x)."),
        (depth.ARTIFACT, "Cora; PubMed: 2 of 3 seeds have no result at 31 of 32 points (to run them: x)."),
    ):
        pieces = artifact.pieces(Scope(seeds=3, datasets=("cora", "pubmed")))
        whole = {str(pieces[0].arguments["experiment"]), str(pieces[len(pieces) // 6].arguments["experiment"])}
        results = [
            (piece, DONE if piece.arguments["seed"] == 0 or str(piece.arguments["experiment"]) in whole else later())
            for piece in pieces
        ]
        (shown,) = artifact.show(results)
        assert said in shown.notes  # type: ignore[union-attr]
        assert not any("not run" in note for note in shown.notes)  # type: ignore[union-attr]


def later() -> Result:
    return Result(None, "not run yet; to run it: x")


def test_the_club_says_how_many_seeds_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(karate, "draw", lambda *arguments: "<svg/>")
    values = {"mates": dict.fromkeys(karate.GROUPS, 0.5), "cut_off": 0.0}
    pieces = karate.pieces(Scope(seeds=10))
    (shown,) = karate.show([(piece, Result(values) if piece.arguments["seed"] < 3 else later()) for piece in pieces])
    assert shown.notes[-1] == "discrete; uniform; bandwidths: 7 of 10 seeds have no result (to run them: x)."
