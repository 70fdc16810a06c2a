"""What a scouting draws, and who goes on."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from scout import FINALISTS, READINGS, SPACE, drawn, finalists


def test_a_number_always_draws_the_same_settings_and_others_draw_others() -> None:
    assert drawn(3) == drawn(3)
    assert len({tuple(drawn(number).values()) for number in range(50)}) > 45
    assert all(value in SPACE[option] for option, value in drawn(7).items())


def test_the_best_settings_go_on_once_each_in_their_best_reading_beside_the_tuned_recipe() -> None:
    scored = [
        (number / 100 + place / 1000, {**drawn(number), **reading})
        for number in range(10)
        for place, reading in enumerate(READINGS)
    ]
    tuned, *others = finalists(scored)
    assert tuned is None
    assert others == [{**drawn(number), **READINGS[-1], "copies": 3} for number in range(9, 9 - FINALISTS, -1)]
