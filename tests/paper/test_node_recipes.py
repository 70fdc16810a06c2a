"""Node recipes learn from as much of the graph as their authors let them learn from."""

import pytest

from bandana.data.datasets import DATASETS, load
from bandana.data.features import preprocess
from bandana.experiment import edges_of
from bandana.paper.cookbook import recipe

KEEP_THE_LAST_WEIGHTS = ("cca_ssg", "costa", "gca", "grace", "graphmae", "graphmae2", "seegera")
"""Methods whose authors choose no weights by links, so that a held-out link would only be one less to learn from."""


@pytest.mark.parametrize("name", KEEP_THE_LAST_WEIGHTS)
def test_methods_that_choose_nothing_by_links_learn_from_all_of_them(name: str) -> None:
    for dataset in (dataset for dataset, info in DATASETS.items() if info.classes):
        experiment = recipe(name, dataset, "node")
        assert experiment.monitor == "none"
        assert (experiment.split.valid_edges, experiment.split.test_edges) == (0, 0)


@pytest.mark.parametrize("name", KEEP_THE_LAST_WEIGHTS)
def test_their_training_graph_is_the_whole_graph(name: str) -> None:
    experiment, data = recipe(name, "karate", "node"), load("karate")
    whole = preprocess(data.graph, experiment.features)
    train = edges_of(experiment, data, whole, seed=0).train
    assert train.edge_index.equal(whole.edge_index)


@pytest.mark.parametrize("dataset", ["cora", "citeseer", "pubmed"])
def test_maskgae_path_learns_from_the_complete_citation_graphs(dataset: str) -> None:
    experiment = recipe("maskgae_path", dataset, "node")
    assert experiment.monitor == "none"
    assert (experiment.split.valid_edges, experiment.split.test_edges) == (0, 0)


@pytest.mark.parametrize("name", [name for name in KEEP_THE_LAST_WEIGHTS if name != "costa"])
def test_link_recipes_still_hold_links_out(name: str) -> None:
    split = recipe(name, "cora", "link").split
    assert split.valid_edges == 0.05
    assert split.test_edges == 0.10
