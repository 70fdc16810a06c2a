"""Bandana's training step the way it is usually written with PyTorch and PyG: what `epoch.py` compares ours with.

Dense features; messages gathered along an edge list and added up at their receivers; self-loops laid as edges; a
decoder that holds the embeddings of both ends of every pair; gradients by autograd alone. Nothing here is slow on
purpose and nothing is clever. tests/test_benchmarks_reference.py shows that it computes what `Bandana` computes.
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.utils import negative_sampling

from bandana.graph import Graph, SparseFeatures
from bandana.methods.bandana import BandanaConfig
from bandana.training.trainer import TrainingConfig


class Reference(nn.Module):
    """The encoder and the decoder of the paper's defaults: every layer has its own mask and predicts it."""

    def __init__(self, config: BandanaConfig, num_features: int) -> None:
        super().__init__()
        self.config = config
        widths = [num_features, *[config.encoder.width] * config.encoder.num_layers]
        self.projections = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for width in widths[1:])
        self.hidden = nn.Linear(config.encoder.width, config.decoder_width)
        self.out = nn.Linear(config.decoder_width, 2)

    def loss(self, x: Tensor, edge_index: Tensor, masks: list[Tensor], positives: Tensor, negatives: Tensor) -> Tensor:
        """The mean of the layers' losses.

        Args:
            x: ``[nodes, features]``.
            edge_index: ``[2, edges]`` (sender, receiver), both directions of every link.
            masks: ``[edges]`` bandwidths for each layer.
            positives: Positions in `edge_index` of the edges to predict.
            negatives: ``[2, pairs]`` nodes without an edge.
        """
        losses = []
        for projection, norm, mask in zip(self.projections, self.norms, masks, strict=True):
            x = F.dropout(x, self.config.encoder.dropout, self.training)
            x = F.elu(norm(convolve(projection(x), edge_index, mask)))
            present = self.decode(x, edge_index[:, positives]).log_softmax(dim=1)[:, 0]
            absent = self.decode(x, negatives).log_softmax(dim=1)[:, 1]
            losses.append(-(mask[positives] * present).mean() - absent.mean())
        return torch.stack(losses).mean()

    def decode(self, z: Tensor, pairs: Tensor) -> Tensor:
        """``[pairs, 2]`` logits: edge, no edge."""
        product = F.dropout(z[pairs[0]] * z[pairs[1]], self.config.decoder_dropout, self.training)
        logits: Tensor = self.out(F.relu(self.hidden(product)))
        return logits


def convolve(x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
    """``D^-1/2 (A + I) D^-1/2 x`` by gathering and scattering along edges."""
    nodes = torch.arange(x.shape[0], device=x.device)
    sender, receiver = torch.cat([edge_index, nodes.expand(2, -1)], dim=1)
    weight = torch.cat([weight, weight.new_ones(x.shape[0])])
    scale = weight.new_zeros(x.shape[0]).index_add_(0, receiver, weight).rsqrt()
    messages = x.index_select(0, sender) * (scale[sender] * weight * scale[receiver]).unsqueeze(1)
    return torch.zeros_like(x).index_add_(0, receiver, messages)


def softmax_at_receiver(logits: Tensor, receiver: Tensor, num_nodes: int) -> Tensor:
    """``[edges]`` softmax over the edges that end in the same node."""
    highest = logits.new_full((num_nodes,), -torch.inf).scatter_reduce(0, receiver, logits, "amax")
    share = (logits - highest[receiver]).exp()
    return share / share.new_zeros(num_nodes).index_add_(0, receiver, share)[receiver]


class ReferenceTraining:
    """A reference model, its data and its optimiser, under the same recipe as ours; call it to train one epoch."""

    def __init__(self, graph: Graph, model: BandanaConfig, training: TrainingConfig) -> None:
        self.x = graph.x.dense() if isinstance(graph.x, SparseFeatures) else graph.x
        self.edge_index = graph.edge_index
        self.training = training
        self.model = Reference(model, graph.num_features).to(graph.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=training.lr, weight_decay=training.weight_decay)

    def __call__(self) -> float:
        """Train one epoch: new negatives once, then a whole encoder pass for every batch of edges."""
        num_nodes, num_edges = self.x.shape[0], self.edge_index.shape[1]
        negatives = negative_sampling(self.edge_index, num_nodes, num_edges)
        order = torch.randperm(num_edges, device=self.x.device)
        return sum(
            self.step(positives, negatives[:, positives[positives < negatives.shape[1]]])
            for positives in order.split(self.training.edge_batch_size or num_edges)
        )

    def step(self, positives: Tensor, negatives: Tensor) -> float:
        """One step of Adam; returns the loss."""
        self.optimizer.zero_grad()
        loss = self.model.loss(self.x, self.edge_index, self.draw_masks(), positives, negatives)
        loss.backward()
        if self.training.clip_norm:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.training.clip_norm)
        self.optimizer.step()
        return loss.item()

    def draw_masks(self) -> list[Tensor]:
        """``[edges]`` bandwidths for each layer."""
        config = self.model.config
        return [
            softmax_at_receiver(
                torch.randn(self.edge_index.shape[1], device=self.x.device) / config.mask.temperature_of(layer),
                self.edge_index[1],
                self.x.shape[0],
            )
            for layer in range(config.encoder.num_layers)
        ]
