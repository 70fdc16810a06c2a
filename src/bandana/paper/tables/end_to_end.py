"""End-to-end against dot-product probing (Table 9): links ranked by a method's own decoder, and by bare embeddings.

Both rankings are of one training, whose weights were chosen by dot products on validation links. The authors train
for each ranking separately, and fine-tune a decoder for T-BGRL, which has none: ours is fitted to its embeddings after
another training with the same seed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bandana.data.datasets import load
from bandana.data.features import preprocess
from bandana.evaluation.end_to_end import end_to_end
from bandana.evaluation.fitted_decoder import fit_decoder
from bandana.experiment import Experiment, edges_of, embed, run_seed
from bandana.paper.artifact import Artifact, Piece, Scope, Sheet
from bandana.paper.grid import Place, Reading, Results, make_sheet, of_training, percent
from bandana.paper.pieces import FITTED, TRAINING, method_of, trainings
from bandana.paper.published import Printed, printed, published
from bandana.paper.tables.link_prediction import DATASETS, LOGITS, SIGMOID
from bandana.paper.work import work

WITHOUT_DECODER = "t_bgrl"
METHODS = (WITHOUT_DECODER, "s2gae", "maskgae_edge", "maskgae_path", "bandana")
DECODER = "logits of the method's own decoder ranked, weights chosen by dot products; T-BGRL's is fitted afterwards"
FROM_TABLE_2 = "The published deviation is that of the same mean in Table 2."


def pieces(scope: Scope) -> Sequence[Piece]:
    """The trainings of the link prediction table, and those after which a decoder is fitted."""
    trained = trainings(scope, "link", METHODS, DATASETS)
    return [*trained, *(Piece(FITTED, piece.arguments) for piece in trained if method_of(piece) == WITHOUT_DECODER)]


@work(FITTED)
def fit(arguments: Mapping[str, Any], device: torch.device, data_root: Path | None) -> dict[str, Any]:
    """A training, then a decoder for its embeddings, and how that ranks the test links."""
    experiment, seed = Experiment.from_table(arguments["experiment"]), int(arguments["seed"])
    data = load(experiment.dataset, data_root)
    method = run_seed(experiment, data, seed, device, floors=False).method
    edges = edges_of(experiment, data, preprocess(data.graph, experiment.features).to(device), seed)
    z, lr = embed(method, edges.train), experiment.training.lr
    decoder, seen = fit_decoder(z, edges.train, edges.valid, lr=lr, seed=seed), embed(method, edges.test_graph)
    scores = end_to_end(lambda pairs: decoder.logits(seen, pairs), edges.test)
    return {"metrics": {f"decoder_{name}": value for name, value in scores.items()}}


def show(results: Results) -> Sequence[Sheet]:
    """The decoder, dot products as the paper ranks them, and dot products ranked without ties."""
    tables = (
        ("AUC (%) end to end", "decoder_auc", DECODER, "end-to-end"),
        ("AUC (%) by dot products after a float32 sigmoid", "auc_sigmoid32", SIGMOID, "dot-product"),
        ("AUC (%) by dot products on logits", "auc", LOGITS, "dot-product"),
    )
    decoder, squashed, logits = (
        make_sheet(title, results, _reading(metric, words), _cells(table)) for title, metric, words, table in tables
    )
    return [decoder, squashed, replace(logits, rescored=True)]


def _reading(metric: str, words: str) -> Reading:
    """What a sheet reads: decoders of methods that have one, and otherwise those that were fitted."""
    trained = of_training()

    def place(piece: Piece) -> Place | None:
        fitted = metric == "decoder_auc" and method_of(piece) == WITHOUT_DECODER
        return trained(piece) if piece.work == (FITTED if fitted else TRAINING) else None

    return Reading(place, percent("metrics", metric), words, "seeds")


def _cells(table: str) -> Mapping[Place, Printed]:
    """The cells of Table 9, which has no deviations; where a mean is that of Table 2, with the deviation from there."""
    cells, whole = printed(table), published("auc")
    if table != "dot-product":
        return cells
    return {
        place: cell._replace(score=whole[place], note=f"{cell.note} {FROM_TABLE_2}".lstrip())
        if cell.score is not None and cell.score.mean == whole[place].mean
        else cell
        for place, cell in cells.items()
    }


ARTIFACT = Artifact(
    name="end-to-end",
    kind="table",
    title="A decoder of one's own, or bare embeddings",
    printed="Table 9",
    pieces=pieces,
    show=show,
)
