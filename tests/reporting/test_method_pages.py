"""Pages say what the method's own file says, and the committed ones are current."""

import sys
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Literal

import pytest
import torch
from rich.console import Console

from bandana.__main__ import main
from bandana.graph import Graph
from bandana.method import Batch, Clock, GraphSpec, Method, MethodFacts
from bandana.registry import all_methods
from bandana.reporting.method_pages import in_families, index_page, method_page, options
from bandana.terminal import research

COMMITTED = Path(__file__).parent.parent.parent / "docs" / "methods"


@dataclass(frozen=True)
class Inner:
    depth: int = 3
    """How deep
    it goes."""


@dataclass(frozen=True)
class Inherited:
    """What others extend."""

    share: float = 0.5
    """Of what is there."""


@dataclass(frozen=True)
class OwnConfig(Inherited):
    """What can be chosen.

    And more of it."""

    inner: Inner = field(default_factory=Inner)
    mode: Literal["fast", "slow"] = "fast"
    """How: a|b."""
    rate: float = 5e-05
    on: bool = True
    layers: tuple[int, ...] = (1, 2)
    way: Literal["in", "out"] | None = None
    limit: int | None = None


class Own(Method):
    """A method of the test's own."""

    Config = OwnConfig
    facts = MethodFacts("toy", 1999, "Nobody et al., Nothing, 1999", "O(1)", ("link",))

    def __init__(self, config: OwnConfig, spec: GraphSpec) -> None:
        super().__init__()

    def loss(self, batch: Batch, clock: Clock) -> torch.Tensor:
        return torch.zeros(())

    def embed(self, graph: Graph) -> torch.Tensor:
        return torch.zeros(graph.num_nodes, 1)


DOCSTRING = """Own: a summary.

Idea. Take it easy. Paper is patient.

Equations (of the test) and where they are:
    a = b      here
      + c      there

Paper: Nobody et al., "Nothing", 1999.
Deviations: docs/deviations.md.

One more paragraph.
"""
BOOK = {
    "sources": {"mine": "the test", "theirs": "a friend"},
    "link": {"defaults": {"training.lr": [0.001, "mine"]}, "cora": {"model.on": [False, "theirs"]}},
}


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys.modules[__name__], "__doc__", DOCSTRING)
    return method_page("own", Own, BOOK)


def test_a_page_holds_the_docstring_by_its_headings(page: str) -> None:
    assert page.startswith(
        "# own\n\nA method of the test's own. Family: toy. Tasks: link.\n\nCost of an epoch: O(1).\n"
    )
    assert "## Idea\n\nTake it easy. Paper is patient.\n" in page
    assert (
        "## Equations\n\nEquations (of the test) and where they are:\n\n```\na = b      here\n  + c      there\n```"
        in page
    )
    assert '## Paper\n\nNobody et al., "Nothing", 1999.\n' in page
    assert "## Deviations\n\ndocs/deviations.md.\n\nOne more paragraph.\n" in page


def test_a_page_lists_the_options_with_what_their_docstrings_say(page: str) -> None:
    assert "What can be chosen.\n" in page
    assert "And more of it" not in page
    assert "| `model.inner.depth` | `3` | How deep it goes. |" in page
    assert "| `model.mode` | `fast` | How: a\\|b. One of `fast`, `slow`. |" in page
    assert "| `model.share` | `0.5` | Of what is there. |" in page
    assert "| `model.rate` | `5e-05` |  |" in page
    assert "| `model.on` | `true` |" in page
    assert "| `model.layers` | `[1, 2]` |" in page
    assert "| `model.way` | not set | One of `in`, `out`. |" in page
    assert "| `model.limit` | not set |  |" in page


def test_a_page_lists_the_recipes_with_their_sources(page: str) -> None:
    assert "node classification" not in page
    table = page[page.index("## Recipes for link prediction") :].split("\n\n")[1].splitlines()
    assert table == [
        "| option | defaults | cora |",
        "|---|---|---|",
        "| `training.lr` | 0.001 (a) |  |",
        "| `model.on` |  | false (b) |",
    ]
    assert "- a: the test\n- b: a friend" in page


@pytest.mark.parametrize("name", all_methods())
def test_every_real_docstring_is_understood(name: str) -> None:
    method = all_methods()[name]
    text = method_page(name, method, {"sources": {}})
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        *("## Idea", "## Equations", "## Paper", "## Deviations", "## Options")
    ]
    assert text.count("```") == 2
    assert all(f"`model.{option.name}`" in text for option in options(method.Config()))


def test_the_index_has_every_method_floors_last() -> None:
    order = in_families(all_methods())
    assert sorted(order) == list(all_methods())
    assert all_methods()[order[-1]].facts.family == "floor"
    index = index_page(all_methods())
    assert [index.index(f"[{name}]({name}.md)") for name in order] == sorted(
        index.index(f"[{name}]({name}.md)") for name in order
    )


def test_the_committed_pages_are_current() -> None:
    """Otherwise: bandana methods --write-docs docs/methods."""
    committed = {path.name: path.read_text(encoding="utf-8") for path in COMMITTED.glob("*.md")}
    assert committed == research.method_pages()


def test_the_command_writes_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bandana", "methods", "--write-docs", str(tmp_path / "new" / "pages")])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    assert {path.name for path in (tmp_path / "new" / "pages").iterdir()} == {
        "README.md",
        *(f"{name}.md" for name in all_methods()),
    }


@pytest.mark.parametrize("width", [80, 120])
def test_the_listing_fits_the_terminal_and_keeps_names_whole(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(width=width, file=StringIO())
    monkeypatch.setattr(research, "console", console)
    research.show_methods(json=False, write_docs=None)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    firsts = [line.split()[0] for line in lines if line.strip()]
    for name, method in all_methods().items():
        assert name in firsts
        assert any(line.startswith(f"{method.facts.year}, {' and '.join(method.facts.tasks)}") for line in lines)
