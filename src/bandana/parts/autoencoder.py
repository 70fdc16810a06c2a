"""What the graph autoencoders share: a GCN whose layers have widths of their own, and the reconstruction of links."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from bandana.engine.adjacency_loss import adjacency_loss, kipf_balance
from bandana.engine.pair_loss import dot_products, pair_loss
from bandana.engine.propagate import gcn_weights
from bandana.graph import Features, Graph
from bandana.method import Batch
from bandana.parts.decoders import HadamardMLP
from bandana.parts.encoders import Stack
from bandana.parts.negatives import draw_negatives


@dataclass(frozen=True, kw_only=True, slots=True)
class LayersConfig:
    """Layers of a GCN: dropout, convolution, batch norm where asked for, activation."""

    widths: tuple[int, ...] = (32, 16)
    """Of every layer's output; the last is that of an embedding."""
    dropout: float = 0.0
    batch_norm: bool = False
    activation: Literal["relu", "elu"] = "relu"
    bias: bool = True

    def __post_init__(self) -> None:
        check_widths("widths", self.widths)
        if not self.widths:
            raise ValueError("widths: must name at least one layer, got none")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout: must lie in [0, 1), got {self.dropout}")


def check_widths(name: str, widths: tuple[int, ...]) -> None:
    """Refuse widths that are not whole and positive.

    Raises:
        ValueError: One of them is not.
    """
    if not all(isinstance(width, int) and width >= 1 for width in widths):
        raise ValueError(f"{name}: must be whole numbers of at least 1, got {list(widths)}")


class HeadedGCN(nn.Module):
    """Hidden layers, and on the last of them linear layers side by side: one to embed, two for a mean and a spread."""

    def __init__(self, config: LayersConfig, num_features: int, *, num_heads: int, noise: float = 0.0) -> None:
        """Build the layers.

        Args:
            config: The last of its widths is that of each head; a head has neither batch norm nor activation.
            num_features: Width of the input.
            num_heads: Number of linear layers side by side.
            noise: Standard deviation of the Gaussian noise on the last hidden layer, in training.
        """
        super().__init__()
        self.noise = noise
        *hidden, width = [num_features, *config.widths]
        self.hidden = Stack(
            hidden,
            name=config.activation,
            bias=config.bias,
            batch_norm=config.batch_norm,
            dropout=config.dropout,
        )
        self.heads = nn.ModuleList(
            Stack([hidden[-1], width], activate_last=False, bias=config.bias, dropout=config.dropout)
            for _ in range(num_heads)
        )

    def forward(self, graph: Graph, generator: torch.Generator | None = None) -> list[Tensor]:
        """Encode all nodes.

        Args:
            graph: Its edge weights are those of the messages.
            generator: Randomness of dropout and noise; None for evaluation.

        Returns:
            One ``[nodes, width]`` per head.
        """
        messages = [gcn_weights(graph.structure, graph.weight)] * (len(self.hidden.weights) + 1)
        layers: list[Tensor] = self.hidden(graph.x, graph.structure, messages, generator)
        if layers and self.noise and generator is not None:
            layers[-1] = layers[-1] + torch.empty_like(layers[-1]).normal_(std=self.noise, generator=generator)
        last: Features = layers[-1] if layers else graph.x
        return [head(last, graph.structure, messages, generator)[-1] for head in self.heads]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReconstructionConfig:
    """How the links are told from the embeddings, and which pairs of nodes are asked."""

    loss: Literal["sampled", "dense"] = "sampled"
    """`sampled`: the links of a step, and as many random pairs that are none. `dense`: every pair of nodes, weighed so
    that links and non-links count the same; each step asks them all, so take one step per epoch."""
    decoder: Literal["dot", "mlp"] = "dot"
    """The logit of a pair: its dot product, or a perceptron on its Hadamard product."""
    decoder_width: int = 64
    decoder_dropout: float = 0.2

    def __post_init__(self) -> None:
        if self.loss == "dense" and self.decoder == "mlp":
            raise ValueError("decoder: must be 'dot' where the loss is 'dense', got 'mlp'")
        if self.decoder_width < 1:
            raise ValueError(f"decoder_width: must be at least 1, got {self.decoder_width}")
        if not 0 <= self.decoder_dropout < 1:
            raise ValueError(f"decoder_dropout: must lie in [0, 1), got {self.decoder_dropout}")


class Reconstruction(nn.Module):
    """The cross entropy of the links, given embeddings."""

    def __init__(self, config: ReconstructionConfig, width: int) -> None:
        super().__init__()
        self.config = config
        self.mlp: HadamardMLP | None = None
        if config.decoder == "mlp":
            self.mlp = HadamardMLP(width, config.decoder_width, config.decoder_dropout)

    def loss(self, z: Tensor, batch: Batch, generator: torch.Generator) -> Tensor:
        """The misfit of ``z [nodes, width]`` to a batch's links, in training mode."""
        graph, links = batch
        if self.config.loss == "dense":
            weight, scale = kipf_balance(graph.num_nodes, graph.num_edges)
            return adjacency_loss(z, graph.structure, positive_weight=weight, scale=scale)
        count = max(links.numel(), 1)
        positives = torch.stack([graph.structure.row[links], graph.structure.col[links]])
        negatives = draw_negatives(graph, count, generator)
        if self.mlp is None:
            return pair_loss(z, positives, negatives)
        weight_of = z.new_full((links.numel() + count,), 1 / count)
        weight_of[links.numel() :].neg_()
        return self.mlp.loss(z, torch.cat([positives, negatives], dim=1), weight_of, generator)

    def logits(self, z: Tensor, pairs: Tensor) -> Tensor:
        """``[pairs]`` log-odds of links, in evaluation mode."""
        return dot_products(z, pairs) if self.mlp is None else self.mlp.logits(z, pairs)
