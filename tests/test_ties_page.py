"""docs/ties.md: its example prints what it says, and its statements about float32 hold."""

import math
import re
from pathlib import Path

import pytest
import torch

from bandana.evaluation.metrics import auc

TEXT = (Path(__file__).parent.parent / "docs" / "ties.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_page_shows(capsys) -> None:
    code, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", TEXT, flags=re.DOTALL).groups()
    exec(compile(code, "docs/ties.md", "exec"), {})
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize(
    ("logit", "stated"), re.findall(r"^\| (\d+) \| (?:about )?([\d,]+) \|", TEXT, flags=re.MULTILINE)
)
def test_few_values_are_left_above_a_large_logit(logit: str, stated: str) -> None:
    start, expected = float(logit), float(stated.replace(",", ""))
    values = torch.linspace(start, 18, 2_000_001).sigmoid().unique()
    left = int((values > torch.tensor(start).sigmoid()).sum())
    assert left == pytest.approx(2**23 * math.exp(-start), rel=0.01, abs=1)
    assert left == pytest.approx(expected, rel=0.05)


def test_the_sigmoid_is_one_from_24_log_2_on_and_not_before() -> None:
    edge = 24 * math.log(2)
    assert f"{edge:.2f}" == "16.64"
    below, above = torch.tensor([edge - 0.01, edge + 0.01]).sigmoid().tolist()
    assert below < 1 == above
    assert torch.tensor([-87.0, -86.9]).sigmoid().unique().numel() == 2


def test_the_formula_accounts_for_the_loss() -> None:
    """Exact where no logit lies just below the tie and none is met twice: equal ones may differ in their last bit."""
    generator = torch.Generator().manual_seed(1)
    links = torch.randint(-20, 60, (400,), generator=generator).float()
    others = torch.randint(-40, 40, (300,), generator=generator) + 0.5
    links, others = (x[(x < 8) | (x > 17)] for x in (links, others))
    in_tie, out_of = links[links > 16], others[others > 16]
    share = len(in_tie) / len(links) * len(out_of) / len(others)
    loss = auc(links, others) - auc(links.sigmoid(), others.sigmoid())
    assert loss == pytest.approx(share * (auc(in_tie, out_of) - 0.5), abs=1e-9)
    assert loss > 0.01
