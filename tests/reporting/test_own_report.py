"""The map of somebody's own graph: whatever the vectors are, there is a place for every node."""

import html
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from bandana.data.tables import OwnGraph, read_graph
from bandana.graph import Graph
from bandana.own import automatic
from bandana.own.automatic import choose
from bandana.own.calibration import Estimate
from bandana.own.embed import embed_own, write_embedded
from bandana.reporting import own_report
from bandana.reporting.changes_report import changes_report
from bandana.reporting.html import Map, Report
from bandana.reporting.own_report import embedding_map
from bandana.use.update import Changes


def map_of(z: Tensor) -> Map:
    nodes = len(z)
    ring = torch.stack([torch.arange(nodes), torch.arange(1, nodes + 1) % nodes])
    own = OwnGraph(Graph.from_edges(ring, num_nodes=nodes), (), None, None, ())
    return embedding_map(own, z, torch.zeros(nodes, dtype=torch.long))


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.fixture(params=["t-SNE", "variance"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "variance":
        monkeypatch.setattr(own_report, "MOST_FOR_TSNE", 5)
    return request.param


@pytest.mark.parametrize("value", [0.0, 0.1, 1e30])
def test_equal_vectors_lie_in_one_place_and_the_map_says_why(way: str, value: float) -> None:
    drawn = map_of(torch.full((12, 4), value))
    assert drawn.points.tolist() == [[0, 0]] * 12
    assert "collapsed" in drawn.note


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_vectors_that_are_not_finite_lie_in_one_place(way: str, value: float) -> None:
    z = noise(12, 4)
    z[3, 1] = value
    drawn = map_of(z)
    assert drawn.points.tolist() == [[0, 0]] * 12
    assert "not finite" in drawn.note


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("scale", [1e-30, 1, 1e30])
def test_vectors_of_any_width_and_size_find_different_places(way: str, width: int, scale: float) -> None:
    drawn = map_of(scale * noise(12, width))
    assert way in drawn.note
    assert len(np.unique(drawn.points, axis=0)) == 12


def test_vectors_that_hardly_differ_are_drawn_by_what_differs(way: str) -> None:
    z = torch.full((12, 3), 1000.0)
    z[0, 0] = torch.nextafter(z[0, 0], torch.tensor(torch.inf))
    assert np.isfinite(map_of(z).points).all()


def written(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    dimensions: int,
    features: str | None,
    name: str = "n{}",
    out: str = "out",
) -> str:
    """The report page of a small training."""
    monkeypatch.setattr(automatic, "estimate", lambda *args: Estimate(seconds=1.0, bytes=1))
    rows = [(name.format(a), name.format((a + step) % 30)) for a in range(30) for step in (1, 2)]
    (folder / "edges.csv").write_text("".join(f"{source},{target}\n" for source, target in rows))
    if features is not None:
        (folder / "features.csv").write_text(features)
    own = read_graph(folder / "edges.csv", features=folder / "features.csv" if features else None)
    choice = choose(own.graph, epochs=2, dimensions=dimensions, device="cpu")
    write_embedded(folder / out, embed_own(own, choice, device="cpu"), title="rings")
    return (folder / out / "report.html").read_text(encoding="utf-8")


def test_features_that_do_not_differ_end_in_a_report_of_collapse(monkeypatch, tmp_path: Path) -> None:
    page = written(monkeypatch, tmp_path, 8, "id,size\n" + "".join(f"n{a},1.5\n" for a in range(30)))
    assert "All nodes have the same vector: training collapsed" in page
    assert "All vectors are the same, so all points lie in one place" in page


def test_one_number_per_node_is_enough_for_a_report(monkeypatch, tmp_path: Path) -> None:
    assert "vectors of 1 number." in written(monkeypatch, tmp_path, 1, None)


def test_commands_can_be_typed_as_they_stand_whatever_ids_and_folders_are_called(monkeypatch, tmp_path: Path) -> None:
    page = written(monkeypatch, tmp_path, 4, None, name="<b>n {}</b>", out="a folder/with $HOME é")
    assert "<b>n" not in re.sub("<script.*?</script>", "", page, flags=re.DOTALL)
    similar, links = [shlex.split(html.unescape(text)) for text in re.findall("<pre><code>(.*?)</code></pre>", page)]
    folder = str(tmp_path / "a folder/with $HOME é")
    assert (similar[:4], similar[4:]) == (["bandana", "similar", folder, "--id"], ["<b>n 0</b>"])
    assert links == ["bandana", "links", folder, "--top", "100"]


def test_the_command_that_compares_two_folders_is_quoted_too() -> None:
    nothing = torch.empty(0, dtype=torch.long)
    changes = Changes(new=nothing, moved=nothing, distance=torch.empty(0), unchanged=3, recomputed=0)
    page = changes_report(Report(title="", summary=""), changes, "abc", "last week", "now & here")
    assert shlex.split(page.next_steps[0].command) == ["bandana", "compare", "last week", "now & here"]
