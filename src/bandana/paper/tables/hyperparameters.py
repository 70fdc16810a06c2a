"""Hyperparameters (Table 6): the settings of our recipes for node classification beside the printed ones.

There is nothing to run: the recipes are read as they are.
"""

from collections.abc import Sequence

from bandana.paper.artifact import Artifact, Cell, Piece, Scope, Score, Sheet
from bandana.paper.cookbook import load_recipe
from bandana.paper.grid import Results, by_digits
from bandana.paper.published import published


def pieces(scope: Scope) -> Sequence[Piece]:
    """No work at all."""
    return []


def show(results: Results) -> Sequence[Sheet]:
    """One row for every printed option."""
    printed = published("hyperparameters")
    options, datasets = (tuple(dict.fromkeys(place[side] for place in printed)) for side in (0, 1))
    cells = [_cell(option, dataset, score) for (option, dataset), score in printed.items()]
    title = "Settings of Bandana for node classification"
    return [Sheet(title=title, rows=options, columns=datasets, cells=tuple(cells), highest_is_best=None)]


def _cell(option: str, dataset: str, printed: Score) -> Cell:
    recipe = load_recipe("bandana", dataset, "node")
    ours = Score(float(recipe.values[option]), None, 1)
    state, note = by_digits(ours, printed)
    source = recipe.sources[option]
    return Cell(row=option, column=dataset, ours=ours, published=printed, state=state, note=note, protocol=source)


ARTIFACT = Artifact(
    name="hyperparameters",
    kind="table",
    title="The settings of Bandana's recipes",
    printed="Table 6",
    pieces=pieces,
    show=show,
)
