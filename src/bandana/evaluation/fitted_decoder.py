"""A link decoder fitted to frozen embeddings, for methods that learn none of their own.

It learns from the links that the method learned from, and early stopping looks at held-out links that do not test it.
Width, decay, length and patience are those of T-BGRL's authors, who take the learning rate of the pre-training and the
epoch of the best hits@50 (github.com/snap-research/non-contrastive-link-prediction, 6b3640e). With fewer than 50
held-out non-links every link is such a hit whatever is learned, and AUC chooses the epoch.
"""

import torch
from torch import Tensor

from bandana.data.splits import Pairs
from bandana.engine.streams import generator, initial_weights
from bandana.evaluation.metrics import auc, hits_at_k
from bandana.graph import Graph
from bandana.parts.decoders import HadamardMLP
from bandana.parts.negatives import draw_negatives

WIDTH, WEIGHT_DECAY, EPOCHS, PATIENCE, HITS_AT = 256, 1e-5, 5000, 50, 50


def fit_decoder(z: Tensor, graph: Graph, valid: Pairs, *, lr: float, seed: int) -> HadamardMLP:
    """A decoder that tells links of `graph` from as many other pairs, drawn anew in every epoch.

    Args:
        z: ``[nodes, width]`` embeddings of `graph`, which stay as they are.
        graph: Training links only.
        valid: Held-out links and non-links; the epoch that ranks them best is kept.
        lr: Learning rate of AdamW.
        seed: Of initial weights and negatives.
    """
    z = z.detach()
    with initial_weights(seed):
        decoder = HadamardMLP(z.shape[1], WIDTH, dropout=0.0)
    decoder.to(z.device)
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=lr, weight_decay=WEIGHT_DECAY)
    links = torch.stack([graph.structure.row[graph.links], graph.structure.col[graph.links]])
    count = links.shape[1]
    weight = z.new_ones(2, count).mul_(z.new_tensor([[1.0], [-1.0]])).flatten() / (2 * count)
    best, best_epoch, kept = -1.0, 0, decoder.state_dict()
    for epoch in range(1, EPOCHS + 1):
        draws = generator(z.device, seed, epoch)
        pairs = torch.cat([links, draw_negatives(graph, count, draws)], dim=1)
        optimizer.zero_grad()
        decoder.loss(z, pairs, weight, draws).backward()
        optimizer.step()
        with torch.no_grad():
            positive, negative = decoder.logits(z, valid.positive), decoder.logits(z, valid.negative)
            score = hits_at_k(positive, negative, HITS_AT) if negative.numel() >= HITS_AT else auc(positive, negative)
        if score > best:
            best, best_epoch = score, epoch
            kept = {name: tensor.clone() for name, tensor in decoder.state_dict().items()}
        elif epoch - best_epoch > PATIENCE:
            break
    decoder.load_state_dict(kept)
    return decoder
