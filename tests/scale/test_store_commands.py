"""The verbs of a large graph from end to end: partition, verify, infer; and sentences instead of tracebacks."""

from pathlib import Path

import numpy as np
import pytest
import torch
from commands import call

from bandana import model_folder
from bandana.data.tables import read_graph
from bandana.method import GraphSpec
from bandana.methods.bandana import Bandana, BandanaConfig
from bandana.own.trained import TrainedModel
from bandana.reporting.embeddings import read_embeddings


def test_from_tables_to_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    random = np.random.default_rng(0)
    names = [f"p{number}" for number in range(80)]
    ends = random.integers(80, size=(300, 2))
    Path("edges.csv").write_text("source,target\n" + "".join(f"{names[a]},{names[b]}\n" for a, b in ends))
    x = random.normal(size=(80, 4)).astype(np.float32)
    rows = (",".join([name, *map(repr, map(float, row))]) for name, row in zip(names, x, strict=True))
    Path("people.csv").write_text("id,a,b,c,d\n" + "\n".join(rows) + "\n")

    partition = ("partition", "edges.csv", "store", "--features", "people.csv", "-k", "4", "--memory", "64MB")
    assert call(monkeypatch, *partition) == 0
    assert "80 nodes" in capsys.readouterr().out
    assert call(monkeypatch, *partition) == 2
    assert "--force" in capsys.readouterr().err
    assert call(monkeypatch, "verify", "store") == 0
    assert "are as written" in capsys.readouterr().out

    graph = read_graph(Path("edges.csv"), features=Path("people.csv")).graph
    config, spec = BandanaConfig(), GraphSpec.of(graph)
    torch.manual_seed(0)
    model = TrainedModel(name="bandana", config=config, spec=spec, method=Bandana(config, spec))
    model_folder.save(tmp_path / "model", model)
    assert call(monkeypatch, "infer", "store", "--model", "model", "-o", "vectors") == 0
    found = read_embeddings(Path("vectors/embeddings.parquet"))
    assert graph.node_ids is not None
    order = [found.node_ids.index(name) for name in graph.node_ids]
    # Here rows stand in another order than in memory, so sums over neighbours are rounded differently.
    torch.testing.assert_close(found.vectors[order], model.embed(graph), rtol=1e-5, atol=1e-6)


def test_a_header_with_unusual_names_is_no_edge_and_the_user_has_the_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Path("edges.csv").write_text("person_a,person_b\n" + "".join(f"n{a},n{(a * 7 + 1) % 50}\n" for a in range(50)))
    for words, nodes, remark in (
        ((), 50, "is taken as a header; if it is an edge, say --header no"),
        (("--header", "yes"), 50, ""),
        (("--header", "no"), 52, ""),
    ):
        assert call(monkeypatch, "partition", "edges.csv", "store", "-k", "2", "--force", *words) == 0
        said = " ".join("".join(capsys.readouterr()).split())
        assert f"{nodes} nodes" in said
        assert ("--header" in said) == bool(remark)
        assert remark in said
        assert call(monkeypatch, "partition", "edges.csv", "store", "-k", "2", "--estimate", *words) == 0
        capsys.readouterr()
    assert call(monkeypatch, "partition", "edges.csv", "other", "--header", "maybe") == 2
    assert "--header 'maybe': there is no such choice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("partition", "edges.csv", "store", "--partitioner", "metris"), "Did you mean 'metis'"),
        (("partition", "edges.csv", "store", "--memory", "lots"), "give a size"),
        (("partition", "edges.csv", "store", "--memory", "9" * 400), "give a size from 16MB to 1024TB"),
        (("partition", "edges.csv", "store", "--memory", "1025TB"), "give a size from 16MB to 1024TB"),
        (("partition", "absent.csv", "store"), "absent.csv: there is no such file"),
        (("partition", "edges.csv", "s" * 300), "sss: no file can have a name as long as this; shorten it."),
        (("partition", "x" * 300, "store"), "xxx: cannot be opened (File name too long); correct the path"),
        (("partition", "edges.csv", "store", "--labels", "no.csv"), "no.csv: there is no such file"),
        (("verify", "s" * 300), "no file can have a name as long as this"),
        (("verify", "."), "is no store"),
        (("infer", ".", "--model", "absent"), "absent"),
    ],
)
def test_mistakes_end_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, words: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Path("edges.csv").write_text("source,target\na,b\nb,c\n")
    assert call(monkeypatch, *words) == 2
    assert sentence in capsys.readouterr().err
    assert not Path("store").exists()
