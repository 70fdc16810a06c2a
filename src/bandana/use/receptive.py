"""Exact embeddings of some rows only: an encoder of k graph layers needs no more than what lies within k steps.

A row of a layer is a sum over the row's own entries, in their own order, whichever other rows are computed beside it.
Only the dense product ``h @ W`` may be blocked differently for another number of rows. So a row computed here is that
of a full pass up to the rounding of that product, and bit for bit where the product is (sparse first layers are).
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor

from bandana.engine.propagate import EdgeWeights, gcn_weights, propagate
from bandana.engine.structure import build_structure
from bandana.graph import Features, Graph, SparseFeatures
from bandana.method import Method
from bandana.methods.arga import ARGA
from bandana.methods.arvga import ARVGA
from bandana.methods.bandana import Bandana
from bandana.methods.cca_ssg import CCASSG
from bandana.methods.costa import COSTA
from bandana.methods.gae import GAE
from bandana.methods.gae_tuned import GAETuned
from bandana.methods.gca import GCA
from bandana.methods.grace import GRACE
from bandana.methods.t_bgrl import TBGRL
from bandana.methods.untrained_encoder import UntrainedEncoder
from bandana.methods.vgae import VGAE
from bandana.parts.edge_reconstruction import EdgeReconstruction
from bandana.parts.encoders import Stack, project

Known = Callable[[int, Tensor], Tensor]
"""The output of a layer at some nodes, as far as it was computed before."""


class Layer(NamedTuple):
    """One of the layers of a stack."""

    stack: Stack
    depth: int

    def __call__(self, mixed: Tensor) -> Tensor:
        """What the layer does to each row by itself, behind the graph."""
        if self.stack.norms:
            mixed = self.stack.norms[self.depth](mixed)
        elif self.stack.biases:
            mixed = mixed + self.stack.biases[self.depth]
        out: Tensor = self.stack.activations[self.depth](mixed)
        return out


class LocalEncoder(NamedTuple):
    """An encoder as graph convolutions one after the other.

    Attributes:
        layers: In order; the messages of each have the GCN weights of the graph.
        readout: Whether an embedding is all layers side by side, or the last one.
        node_vectors: ``[nodes, width]`` learned vectors that the first layer reads in place of features, or None.
    """

    layers: tuple[Layer, ...]
    readout: Literal["concat", "last"]
    node_vectors: Tensor | None = None

    @property
    def widths(self) -> list[int]:
        return [layer.stack.weights[layer.depth].shape[1] for layer in self.layers]


class Rows(NamedTuple):
    """Some rows of a matrix: their ascending numbers ``[n]``, and ``[n, width]``."""

    nodes: Tensor
    values: Tensor


def local_encoder(method: Method) -> LocalEncoder | None:
    """The convolutions that a method embeds with; None for one that embeds in another way."""
    match method:
        case Bandana() | UntrainedEncoder():
            stacks, readout = [method.encoder], method.config.readout
        case EdgeReconstruction(encoder=Stack() as encoder):
            stacks, readout = [encoder], method.config.readout
        case GAE() | COSTA() | TBGRL():
            stacks, readout = [method.encoder], "last"
        case GRACE() | GCA():
            stacks, readout = [method.contrast.encoder], "last"
        case VGAE() | ARGA() | ARVGA():
            stacks, readout = [method.encoder.hidden, cast(Stack, method.encoder.heads[0])], "last"
        case CCASSG() if method.config.encoder == "gcn":
            stacks, readout = [stack for stack in (method.inner, method.last) if stack is not None], "last"
        case _:
            return None
    layers = tuple(Layer(stack, depth) for stack in stacks for depth in range(len(stack.weights)))
    return LocalEncoder(layers, readout, node_vectors(method))


def node_vectors(method: Method) -> Tensor | None:
    """``[nodes, width]`` vectors that a method learned for the nodes of its graph and embeds them from, or None."""
    match method:
        case EdgeReconstruction():
            return method.node_vectors
        case GAETuned():
            return method.nodes
        case Bandana():
            return method.encoder.embedding
        case _:
            return None


@torch.no_grad()
def embed_rows(method: Method, graph: Graph, nodes: Tensor, *, without: Tensor | None = None) -> Tensor:
    """The rows of ``method.embed(graph)`` at some nodes, from their surroundings alone where the method allows it.

    Args:
        method: Trained; is put into evaluation mode.
        graph: With the features the method was trained on.
        nodes: ``[n]`` node numbers, ascending.
        without: Entries of the graph to leave out; of an undirected link both.

    Returns:
        ``[n, width]``.
    """
    method.eval()
    encoder = local_encoder(method)
    if encoder is None:
        return method.embed(graph if without is None else _cut(graph, without))[nodes]
    weight = graph.weight
    if without is not None:
        # To a GCN an edge of weight zero is no edge, neither in the sum nor in the degree; nothing is sorted anew.
        weight = torch.ones_like(graph.structure.col, dtype=torch.get_default_dtype()) if weight is None else weight
        weight = weight.index_fill(0, without, 0.0)
    wanted = [nodes]
    for _ in encoder.layers[1:]:
        wanted.append(neighbourhood(graph, wanted[-1], "senders"))
    outputs = encode_rows(encoder, graph, gcn_weights(graph.structure, weight), wanted[::-1])
    if encoder.readout == "last":
        return outputs[-1].values
    return torch.cat([output.values[torch.searchsorted(output.nodes, nodes)] for output in outputs], dim=1)


def encode_rows(
    encoder: LocalEncoder, graph: Graph, messages: EdgeWeights, wanted: Sequence[Tensor], known: Known | None = None
) -> list[Rows]:
    """Run an encoder layer by layer, each over the rows that are wanted of it.

    Args:
        encoder: In evaluation mode.
        graph: Where messages are passed.
        messages: GCN weights of the graph.
        wanted: Of each layer the ascending numbers of the rows to compute.
        known: The output of a layer at nodes that it was not wanted for; None if none is needed.
    """
    inputs: Features = graph.x if encoder.node_vectors is None else encoder.node_vectors
    outputs: list[Rows] = []
    for number, (layer, nodes) in enumerate(zip(encoder.layers, wanted, strict=True)):
        entries = ranges(graph.structure.rowptr, nodes)
        senders = graph.structure.col[entries]
        read = torch.cat([nodes, senders]).unique()
        hidden = _take(inputs, read) if not number else _look_up(outputs[-1], read, number - 1, known)
        mixed = project(hidden, layer.stack.weights[layer.depth], 0.0, None)
        place = torch.searchsorted(nodes, graph.structure.row[entries])
        around, _ = build_structure(place, torch.searchsorted(read, senders), nodes.numel(), read.numel())
        summed = propagate(around, messages.values[entries], mixed)
        own = mixed.index_select(0, torch.searchsorted(read, nodes))
        outputs.append(Rows(nodes, layer(summed.addcmul_(messages.loop[nodes].unsqueeze(1), own))))
    return outputs


def neighbourhood(graph: Graph, nodes: Tensor, side: Literal["senders", "receivers"]) -> Tensor:
    """The nodes and all who send to them, or who receive from them, ascending."""
    structure = graph.structure
    if side == "senders":
        found = structure.col[ranges(structure.rowptr, nodes)]
    else:
        found = structure.transposed_col[ranges(structure.transposed_rowptr, nodes)]
    ascending: Tensor = torch.cat([nodes, found]).unique()
    return ascending


def ranges(pointers: Tensor, rows: Tensor) -> Tensor:
    """The entries of some rows, row after row."""
    sizes = pointers[rows + 1] - pointers[rows]
    offset: Tensor = pointers[rows] - sizes.cumsum(0) + sizes
    return offset.repeat_interleave(sizes) + torch.arange(int(sizes.sum()), device=rows.device)


def _look_up(computed: Rows, nodes: Tensor, layer: int, known: Known | None) -> Tensor:
    place = torch.searchsorted(computed.nodes, nodes)
    if known is None:
        return computed.values[place]
    values = known(layer, nodes)
    if computed.nodes.numel():
        fresh = computed.nodes[place.clamp_(max=computed.nodes.numel() - 1)] == nodes
        values[fresh] = computed.values[place[fresh]]
    return values


def _take(x: Features, nodes: Tensor) -> Features:
    if isinstance(x, Tensor):
        return x[nodes]
    entries = ranges(x.structure.rowptr, nodes)
    place = torch.searchsorted(nodes, x.structure.row[entries])
    structure, order = build_structure(place, x.structure.col[entries], nodes.numel(), x.shape[1])
    return SparseFeatures(structure, x.values[entries][order])


def _cut(graph: Graph, entries: Tensor) -> Graph:
    keep = torch.ones(graph.num_edges, dtype=torch.bool, device=graph.device).index_fill(0, entries, False)
    return graph.keep_edges(keep.nonzero().squeeze(1))
