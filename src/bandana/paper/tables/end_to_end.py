"""End-to-end against dot-product probing (Table 9): links ranked by a method's own decoder, and by bare embeddings.

Both rankings are of one training, whose weights were chosen by dot products on validation links. The authors train
for each ranking separately, and fine-tune a decoder for T-BGRL, which has none: its row stays empty here.
"""

from collections.abc import Mapping, Sequence

from bandana.paper.artifact import Artifact, Piece, Scope, Sheet
from bandana.paper.grid import Place, Reading, Results, make_sheet, of_training, percent
from bandana.paper.pieces import trainings
from bandana.paper.published import Printed, printed, published
from bandana.paper.tables.link_prediction import DATASETS, LOGITS, SIGMOID

METHODS = ("t_bgrl", "s2gae", "maskgae_edge", "maskgae_path", "bandana")
DECODER = "logits of the method's own decoder ranked, weights chosen by dot products"
NO_DECODER = "the method has no decoder of its own, so that it gives no such figure"
FROM_TABLE_2 = "The published deviation is that of the same mean in Table 2."


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
        make_sheet(title, results, _reading(metric, words), _cells(table)) for title, metric, words, table in tables
    ]


def _reading(metric: str, words: str) -> Reading:
    reading = Reading(of_training(), percent("metrics", metric), words, "seeds")
    return reading._replace(without=NO_DECODER) if metric == "decoder_auc" else reading


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
    pieces=pieces,
    show=show,
)
