"""Charts as numbers: lines and bars lie where their values say."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandana.reporting import charts
from bandana.reporting.charts import BarChart, Curve, LineChart, draw, nice_ticks


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_are_few_round_and_inside(low: float, width: float) -> None:
    ticks = nice_ticks(low, low + width)
    if low + width > low and width > 1e-9 * abs(low):
        assert 1 <= len(ticks) <= 8
        slack = 1e-6 * width + 1e-12 * abs(low)
        assert all(low - slack <= tick <= low + width + slack for tick in ticks)
        steps = np.diff(ticks)
        assert np.allclose(steps, steps[:1], rtol=1e-4, atol=1e-9 * max(abs(low), width))


def test_a_curve_breaks_where_it_has_no_value_and_bends_where_the_numbers_do() -> None:
    nan = math.nan
    chart = LineChart(title="t", x_label="epoch", curves=(Curve(name="c", x=range(7), y=[0, 1, nan, 2, nan, 3, 4]),))
    (line,) = draw(chart).lines
    assert line.path.count("M") == 2
    assert len(line.dots) == 1
    x, y = np.array([pair.split(",") for pair in re.split(r"[ML ]+", line.path.strip("M ")) if pair], float).T
    assert np.allclose(np.corrcoef(x, [0, 1, 5, 6])[0, 1], 1)
    assert np.allclose(np.corrcoef(y, [0, 1, 3, 4])[0, 1], -1)
    assert x.min() == charts.LEFT
    assert x.max() == charts.WIDTH - charts.RIGHT


@pytest.mark.parametrize("values", [[], [math.nan], [3.0], [2.0, 2.0], [math.inf, 1.0, 2.0]])
def test_curves_of_any_length_can_be_drawn(values: list[float]) -> None:
    chart = LineChart(title="t", x_label="epoch", curves=(Curve(name="c", x=range(len(values)), y=values),), marked=5)
    assert "nan" not in str(draw(chart)._replace(words=""))


def test_bars_are_as_tall_as_their_numbers_and_stand_on_the_axis() -> None:
    bars = draw(BarChart(title="t", x_label="x", names="abc", heights=[1, 0, 4])).bars
    assert [bar.height / bars[2].height for bar in bars] == pytest.approx([0.25, 0, 1])
    assert all(bar.y + bar.height == pytest.approx(charts.HEIGHT - charts.BOTTOM) for bar in bars)
