"""The table of all data sets of the paper, and `load`, which turns a name of it into a graph."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor

from bandana.data import bundled, ogb_raw, pyg_raw, synthetic
from bandana.data.prepared import Prepared, recall, remember
from bandana.data.raw_files import RawFiles, copy_of, data_root, download, downloads, find, fingerprint, reading
from bandana.data.splits import EdgeSplit, NodeSplit, official_edge_split
from bandana.errors import UserError, did_you_mean
from bandana.graph import Graph


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """One row of the table.

    Attributes:
        name: What `load` and the command line call it.
        source: Where it comes from.
        nodes: Number of nodes.
        edges: Number of directed entries of `Graph`: an undirected edge counts twice, self-loops and repetitions not
            at all. None where it has not been counted so.
        features: Number of features.
        classes: Number of classes; 0 without labels.
        url: Where to read about it.
        directed: Whether edges go one way.
        metrics: What the paper reports on it.
        remark: Where its numbers or its use differ from what one may expect.
        test_sees_validation: Whether official rules let test links be scored with validation links in the graph.
    """

    name: str
    source: str
    nodes: int
    edges: int | None
    features: int
    classes: int
    url: str
    _: KW_ONLY
    directed: bool = False
    metrics: str = "micro- and macro-F1 of nodes, AUC and AP of links"
    remark: str = ""
    test_sees_validation: bool = False


@dataclass(frozen=True, eq=False)
class Dataset:
    """A graph with its official splits; None where there is none.

    Attributes:
        name: Its name in the table.
        graph: The whole graph, or the training part where links are officially held out.
        node_split: Official training, validation and test nodes.
        edge_split: Official training graph and held-out links, certified.
    """

    name: str
    graph: Graph
    node_split: NodeSplit | None = None
    edge_split: EdgeSplit | None = None


def find_dataset(name: str) -> DatasetInfo:
    """The row called `name`.

    Raises:
        UserError: There is none.
    """
    if name not in DATASETS:
        raise UserError(f"There is no data set {name!r}. {did_you_mean(name, DATASETS)}")
    return DATASETS[name]


def load(name: str, root: str | Path | None = None) -> Dataset:
    """Load a data set of the table, downloading its files where they are nowhere to be found.

    Args:
        name: A name of `DATASETS`.
        root: Folder with raw files, which is only read; ``BANDANA_DATA`` when not given. Downloads, and copies that
            make the next time quick, go to ``BANDANA_CACHE`` or the system's cache folder.

    Raises:
        UserError: There is no such data set, or its files are missing or broken.
    """
    info = find_dataset(name)
    graph, node_split, held_out = Prepared(_BUILT_IN[name]()) if name in _BUILT_IN else _read(name, root)
    if held_out is None:
        return Dataset(name, graph, node_split)
    valid, test = held_out
    test_graph = _with_links(graph, valid.positive) if info.test_sees_validation else None
    return Dataset(name, graph, node_split, official_edge_split(graph, valid, test, test_graph))


def presence(info: DatasetInfo, root: str | Path | None = None) -> str:
    """Whether a data set can be loaded without a download: "built in", "found in …", "cached" or "not here"."""
    if info.name in _BUILT_IN:
        return "built in"
    place = find(_RAW_FILES[info.name], data_root(root))
    if place is None:
        return "not here"
    return "cached" if place == downloads() else f"found in {place}"


def _read(name: str, root: str | Path | None) -> Prepared:
    raw, own = _RAW_FILES[name], data_root(root)
    place = find(raw, own) or download(name, raw, own)
    copy, made_of = copy_of(raw, place), fingerprint(raw, place)
    prepared = recall(copy, made_of)
    if prepared is None:
        with reading(place / raw.folder):
            prepared = raw.read(place / raw.folder)
        remember(copy, made_of, prepared)
    return prepared


def _with_links(graph: Graph, pairs: Tensor) -> Graph:
    edge_index = torch.cat([graph.edge_index, pairs], dim=1)
    return Graph.from_edges(edge_index, num_nodes=graph.num_nodes, x=graph.x, y=graph.y, directed=graph.directed)


_SKLEARN = "https://scikit-learn.org/stable/modules/generated/sklearn.datasets."
_PLANETOID = "https://arxiv.org/abs/1603.08861"
_PITFALLS = "https://arxiv.org/abs/1811.05868"
_OGB = "https://ogb.stanford.edu/docs/"
_PICTURE = "none, a picture"
_NODES_ONLY = "micro- and macro-F1 of nodes"

_ROWS = (
    DatasetInfo(
        *("swiss_roll", "synthetic", 500, 6_712, 3, 5, f"{_SKLEARN}make_swiss_roll.html"),
        metrics=_PICTURE,
        remark="drawn anew, not with PyGSP; the paper hides the coordinates and gives each node its own indicator",
    ),
    DatasetInfo(
        *("two_moon", "synthetic", 2_000, 12_430, 2, 2, f"{_SKLEARN}make_moons.html"),
        metrics=_PICTURE,
        remark="drawn anew, not with PyGSP (12,264 edges); the paper hides the coordinates as well",
    ),
    DatasetInfo(
        *("karate", "PyG KarateClub", 34, 156, 34, 4, "https://doi.org/10.1086/jar.33.4.3629752"),
        metrics=_PICTURE,
    ),
    DatasetInfo(
        *("digits", "scikit-learn", 1_797, 12_618, 64, 10, f"{_SKLEARN}load_digits.html"),
        metrics="none",
        remark="not in the paper: real data that needs no download",
    ),
    DatasetInfo("cora", "PyG Planetoid", 2_708, 10_556, 1_433, 7, _PLANETOID),
    DatasetInfo("citeseer", "PyG Planetoid", 3_327, 9_104, 3_703, 6, _PLANETOID),
    DatasetInfo("pubmed", "PyG Planetoid", 19_717, 88_648, 500, 3, _PLANETOID),
    DatasetInfo(
        *("photo", "PyG Amazon", 7_650, 238_162, 745, 8, _PITFALLS),
        remark="the paper's table says 7,487 nodes and 119,043 edges, but its code uses these files",
    ),
    DatasetInfo(
        *("computers", "PyG Amazon", 13_752, 491_722, 767, 10, _PITFALLS),
        remark="the paper's table says 13,381 nodes and 245,778 edges, but its code uses these files",
    ),
    DatasetInfo("cs", "PyG Coauthor", 18_333, 163_788, 6_805, 15, _PITFALLS, remark="the paper counts edges once"),
    DatasetInfo("physics", "PyG Coauthor", 34_493, 495_924, 8_415, 5, _PITFALLS, remark="the paper counts edges once"),
    DatasetInfo(
        *("wikics", "PyG WikiCS", 11_701, 296_590, 300, 10, "https://arxiv.org/abs/2007.02901"),
        directed=True,
        metrics=_NODES_ONLY,
        remark="297,110 links less 520 self-loops; the paper's 216,123 edges disregard direction",
    ),
    DatasetInfo(
        *("ogbn-arxiv", "OGB raw files", 169_343, 2_315_598, 128, 40, f"{_OGB}nodeprop/#ogbn-arxiv"),
        metrics=_NODES_ONLY,
        remark="citations in both directions",
    ),
    DatasetInfo(
        *("ogbn-mag", "OGB raw files", 736_389, 10_792_672, 128, 349, f"{_OGB}nodeprop/#ogbn-mag"),
        metrics=_NODES_ONLY,
        remark="only papers that cite papers, in both directions",
    ),
    DatasetInfo(
        *("ogbl-collab", "OGB raw files", 235_868, None, 128, 0, f"{_OGB}linkprop/#ogbl-collab"),
        metrics="Hits@20 and Hits@50 of links",
        remark="training links from 2010 on; the paper's 2,570,930 edges are of all years and splits",
        test_sees_validation=True,
    ),
    DatasetInfo(
        *("ogbl-ppa", "OGB raw files", 576_289, 42_463_862, 58, 0, f"{_OGB}linkprop/#ogbl-ppa"),
        metrics="Hits@50 and Hits@100 of links",
        remark="training links; the paper's 30,326,273 edges are of all splits, each counted once",
    ),
)

DATASETS: Mapping[str, DatasetInfo] = MappingProxyType({row.name: row for row in _ROWS})
"""Every data set by name, the built-in ones first."""

_BUILT_IN: Mapping[str, Callable[[], Graph]] = {
    "swiss_roll": synthetic.swiss_roll,
    "two_moon": synthetic.two_moon,
    "karate": bundled.karate,
    "digits": bundled.digits,
}

_RAW_FILES: Mapping[str, RawFiles] = {
    "cora": pyg_raw.planetoid("Cora"),
    "citeseer": pyg_raw.planetoid("CiteSeer"),
    "pubmed": pyg_raw.planetoid("PubMed"),
    "photo": pyg_raw.npz("Photo", "amazon_electronics_photo"),
    "computers": pyg_raw.npz("Computers", "amazon_electronics_computers"),
    "cs": pyg_raw.npz("CS", "ms_academic_cs"),
    "physics": pyg_raw.npz("Physics", "ms_academic_phy"),
    "wikics": pyg_raw.wikics(),
    "ogbn-arxiv": ogb_raw.arxiv(),
    "ogbn-mag": ogb_raw.mag(),
    "ogbl-collab": ogb_raw.collab(),
    "ogbl-ppa": ogb_raw.ppa(),
}
