"""The demonstration writes what it says it writes."""

from functools import partial

import pyarrow.parquet as pq
import pytest
from sklearn.manifold import TSNE

from bandana import demo
from bandana.paper.cookbook import recipe

pytest.importorskip("matplotlib", reason="the picture needs the plot extra")


@pytest.mark.slow
def test_the_demo_shows_both_tasks_and_leaves_vectors_and_a_picture(tmp_path, monkeypatch, capsys) -> None:
    short = {"training.epochs": 2, "training.evaluate_every": 1, "probe.repeats": 2}
    monkeypatch.setattr(demo, "recipe", lambda *cell: recipe(*cell, short))
    # As few and as rough steps as it takes: a picture, not a map.
    monkeypatch.setattr("sklearn.manifold.TSNE", partial(TSNE, max_iter=250, angle=1.0))
    demo.run_demo(tmp_path, "cpu")
    shown = capsys.readouterr().out
    for words in ("node classification", "link prediction", "raw features", "untrained encoder", "resource allocation"):
        assert words in shown
    table = pq.read_table(tmp_path / "embeddings.parquet")
    assert table.column_names == ["node_id", "embedding"]
    assert table.num_rows == 1797
    assert table.schema.field("embedding").type.list_size == 256
    assert (tmp_path / "embeddings.png").read_bytes().startswith(b"\x89PNG")
