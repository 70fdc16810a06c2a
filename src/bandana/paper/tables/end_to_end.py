"""End-to-end against dot-product probing (Table 9): links ranked by a method's own decoder, and by bare embeddings.

Both rankings are of one training, whose weights were chosen by dot products on validation links. The authors train
for each ranking separately, and fine-tune a decoder for T-BGRL, which has none: its row stays empty here.
"""

from collections.abc import Sequence

from bandana.paper.artifact import Artifact, Piece, Scope, Sheet
from bandana.paper.grid import Reading, Results, make_sheet, of_training, percent
from bandana.paper.pieces import trainings
from bandana.paper.published import printed
from bandana.paper.tables.link_prediction import DATASETS, LOGITS, SIGMOID

METHODS = ("t_bgrl", "s2gae", "maskgae_edge", "maskgae_path", "bandana")
DECODER = "logits of the method's own decoder ranked, weights chosen by dot products"


def pieces(scope: Scope) -> Sequence[Piece]:
    """The trainings of the link prediction table."""
    return trainings(scope, "link", METHODS, DATASETS)


def show(results: Results) -> Sequence[Sheet]:
    """The decoder, dot products as the paper ranks them, and dot products ranked without ties."""
    tables = (
        ("AUC (%) end to end", "decoder_auc", DECODER, "end-to-end"),
        ("AUC (%) by dot products after a float32 sigmoid", "auc_sigmoid32", SIGMOID, "dot-product"),
        ("AUC (%) by dot products on logits", "auc", LOGITS, "dot-product"),
    )
    return [
        make_sheet(title, results, Reading(of_training(), percent("metrics", metric), words, "seeds"), printed(table))
        for title, metric, words, table in tables
    ]


ARTIFACT = Artifact(
    name="end-to-end",
    kind="table",
    title="A decoder of one's own, or bare embeddings",
    pieces=pieces,
    show=show,
)
