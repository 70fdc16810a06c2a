"""What somebody would otherwise install to get vectors for nodes, each as its own documentation shows it.

A peer gets a graph and a seed and gives ``[nodes, width]`` vectors. Where a package leaves the width to its user it is
`WIDTH`, that of our own choice for a graph of this size; everything else is the package's default or its example.
"""

import importlib
import importlib.metadata
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bandana.graph import Graph, dense

WIDTH = 256


class Peer(NamedTuple):
    """A way to embed a graph.

    Attributes:
        embed: From a graph and a seed to ``[nodes, width]``.
        package: What to install.
        modules: What is imported before the clock starts.
        reads_features: Whether it looks at the nodes' features; blind otherwise.
        settings: What was asked of it, and where that comes from.
        can_use_gpu: Whether it follows a graph to the device that the graph is on.
    """

    embed: Callable[[Graph, int], Tensor]
    package: str
    modules: tuple[str, ...]
    reads_features: bool
    settings: str
    can_use_gpu: bool = False

    def absence(self) -> str:
        """Why it cannot be used here; empty if it can."""
        try:
            for name in self.modules:
                importlib.import_module(name)
        except Exception as problem:  # a package that is there but broken fails in its own way
            return f"{type(problem).__name__}: {problem}"
        return ""

    def version(self) -> str:
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return "not installed"


def links_of(graph: Graph) -> Tensor:
    """``[2, links]``, every link once."""
    return graph.edge_index[:, graph.links]


def adjacency(graph: Graph) -> Any:
    """The graph as SciPy's sparse matrix."""
    from scipy.sparse import csr_matrix

    rowptr, col = graph.structure.rowptr.numpy(), graph.structure.col.numpy()
    return csr_matrix((np.ones(col.size), col, rowptr), shape=(graph.num_nodes, graph.num_nodes))


def by_node(names: list[str], vectors: np.ndarray, num_nodes: int) -> Tensor:
    """Rows put back in the order of the nodes; a node that the peer never saw, having no link, stays at zero."""
    z = torch.zeros(num_nodes, vectors.shape[1])
    z[torch.tensor([int(name) for name in names])] = torch.from_numpy(np.ascontiguousarray(vectors)).float()
    return z


def spectral(graph: Graph, seed: int) -> Tensor:
    from sknetwork.embedding import Spectral

    np.random.seed(seed)  # its solver starts from numpy's global state
    return torch.from_numpy(Spectral(WIDTH).fit_transform(adjacency(graph))).float()


def svd(graph: Graph, seed: int) -> Tensor:
    from sknetwork.embedding import SVD

    np.random.seed(seed)
    return torch.from_numpy(SVD(WIDTH).fit_transform(adjacency(graph))).float()


def cleora(graph: Graph, seed: int) -> Tensor:
    import pycleora

    matrix = _cleora_matrix(graph)
    return by_node(matrix.entity_ids, pycleora.embed(matrix, seed=seed), graph.num_nodes)


def cleora_features(graph: Graph, seed: int) -> Tensor:
    """It takes no seed; its vectors are as wide as the features."""
    import pycleora

    matrix, x = _cleora_matrix(graph), dense(graph.x).numpy()
    features = {name: x[int(name)] for name in matrix.entity_ids}
    return by_node(matrix.entity_ids, pycleora.embed_with_node_features(matrix, features), graph.num_nodes)


def _cleora_matrix(graph: Graph) -> Any:
    import pycleora

    lines = (f"{a} {b}" for a, b in links_of(graph).T.tolist())
    return pycleora.SparseMatrix.from_iterator(lines, "complex::reflexive::node")


def node2vec(graph: Graph, seed: int) -> Tensor:
    import networkx
    from node2vec import Node2Vec

    network = networkx.Graph(links_of(graph).T.tolist())
    words = Node2Vec(network, quiet=True, seed=seed).fit(window=10, min_count=1, seed=seed).wv
    return by_node(words.index_to_key, words.vectors, graph.num_nodes)


def pyg_gae(graph: Graph, seed: int) -> Tensor:
    return _gae(graph, seed, width=16)


def pyg_gae_wide(graph: Graph, seed: int) -> Tensor:
    return _gae(graph, seed, width=WIDTH)


def _gae(graph: Graph, seed: int, width: int) -> Tensor:
    from torch_geometric.nn import GAE, GCN
    from torch_geometric.transforms import NormalizeFeatures

    torch.manual_seed(seed)
    data = NormalizeFeatures()(graph.to_pyg())
    model = GAE(GCN(data.num_features, 2 * width, num_layers=2, out_channels=width)).to(graph.device)
    return _trained(
        model,
        lambda: model.recon_loss(model.encode(data.x, data.edge_index), data.edge_index),
        lambda: model.encode(data.x, data.edge_index),
        lr=0.01,
        epochs=400,
    )


def pyg_dgi(graph: Graph, seed: int) -> Tensor:
    from torch_geometric.nn import DeepGraphInfomax, GCNConv, Sequential

    torch.manual_seed(seed)
    data = graph.to_pyg()
    encoder = Sequential(
        "x, edge_index", [(GCNConv(data.num_features, 512), "x, edge_index -> x"), torch.nn.PReLU(512)]
    )
    model = DeepGraphInfomax(
        512,
        encoder,
        summary=lambda z, *_: z.mean(0).sigmoid(),
        corruption=lambda x, edge_index: (x[torch.randperm(x.shape[0], device=x.device)], edge_index),
    ).to(graph.device)
    return _trained(
        model,
        lambda: model.loss(*model(data.x, data.edge_index)),
        lambda: model(data.x, data.edge_index)[0],
        lr=0.001,
        epochs=300,
    )


def _trained(
    model: torch.nn.Module, loss: Callable[[], Tensor], encode: Callable[[], Tensor], *, lr: float, epochs: int
) -> Tensor:
    """The vectors after Adam has descended a loss over the whole graph."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    model.train()
    for _ in range(epochs):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return encode()


def raw_features(graph: Graph, seed: int) -> Tensor:
    return dense(graph.x)


GCN_MODULES = ("torch_geometric.nn", "torch_geometric.transforms")
NETWORK_MODULES = ("sknetwork.embedding",)

PEERS = {
    "raw features": Peer(raw_features, "torch", (), True, "the features themselves: a floor"),
    "scikit-network spectral": Peer(
        spectral, "scikit-network", NETWORK_MODULES, False, f"Spectral({WIDTH}), otherwise its defaults"
    ),
    "scikit-network svd": Peer(svd, "scikit-network", NETWORK_MODULES, False, f"SVD({WIDTH}), otherwise its defaults"),
    "pycleora": Peer(
        cleora, "pycleora", ("pycleora",), False, "embed() with its defaults: 256 wide, 40 rounds, whitened"
    ),
    "pycleora, features": Peer(
        cleora_features, "pycleora", ("pycleora",), True, "embed_with_node_features() with its defaults"
    ),
    "node2vec": Peer(
        node2vec,
        "node2vec",
        ("networkx", "node2vec"),
        False,
        "its defaults (128 wide, 10 walks of 80 steps, p = q = 1) and the window of 10 of its example; one worker",
    ),
    "PyG GAE": Peer(
        pyg_gae,
        "torch_geometric",
        GCN_MODULES,
        True,
        "as its examples/autoencoder.py: 32 then 16 wide, 400 epochs",
        can_use_gpu=True,
    ),
    "PyG GAE, wide": Peer(
        pyg_gae_wide, "torch_geometric", GCN_MODULES, True, f"the same, {2 * WIDTH} then {WIDTH} wide", can_use_gpu=True
    ),
    "PyG DGI": Peer(
        pyg_dgi,
        "torch_geometric",
        GCN_MODULES,
        True,
        "as its examples/infomax_transductive.py: 512 wide, 300 epochs",
        can_use_gpu=True,
    ),
}
