"""Theorem 1 of the paper: a discrete mask lowers the energy of ego-graphs. What holds, and for which meaning of p.

The ego Dirichlet energy of node i is the sum of squared differences to its neighbours over the number of nodes of its
ego-graph. The theorem draws masks from Bernoulli(1 - p), where p is the share that is hidden, and says that equality
needs p = 1. Its proof (appendix A.1) counts p (n - 1) + 1 nodes that are left, where p is the share that is *kept*.
Only that reading makes the last sentence true, so both are computed here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bandana.data.datasets import load
from bandana.engine.propagate import row_sums
from bandana.engine.structure import Structure
from bandana.graph import Graph, dense
from bandana.paper.artifact import Artifact, Claim, Piece, Result, Scope
from bandana.paper.work import work

KEPT = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
DRAWS, QUICK_DRAWS = 200, 10
ROUNDING = 1e-12
_CHUNK = 1 << 16


def ego_energies(structure: Structure, differences: Tensor, kept: Tensor | None = None) -> Tensor:
    """``[nodes]`` energy of each ego-graph when only some of the links to its centre are kept.

    What is left is the star of the kept links. Links between neighbours do not enter: they could only add nodes to the
    component, and so lower the energy further.

    Args:
        structure: Edges by receiving node.
        differences: ``[edges]`` squared distances between the ends.
        kept: ``[edges]`` truth values; None keeps all.
    """
    weight = torch.ones_like(differences) if kept is None else kept.to(differences.dtype)
    return row_sums(structure, weight * differences) / (row_sums(structure, weight) + 1)


def squared_differences(graph: Graph) -> Tensor:
    """``[edges]`` squared distance between the features of both ends, in double precision."""
    x = dense(graph.x).double()
    ends = zip(graph.structure.row.split(_CHUNK), graph.structure.col.split(_CHUNK), strict=True)
    return torch.cat([(x[row] - x[col]).square().sum(1) for row, col in ends])


def expected_share(degree: int, kept: float) -> float:
    """E[k / (k + 1)] for k ~ Binomial(degree, kept): the energy of a star per squared difference, neighbours alike."""
    if kept == 0:
        return 0.0
    return 1 - (1 - (1 - kept) ** (degree + 1)) / ((degree + 1) * kept)


def proof_share(degree: int, kept: float) -> float:
    """What the proof takes for it: as if exactly the expected number of neighbours were left."""
    return kept * degree / (kept * degree + 1)


@work("check-dirichlet")
def measure(arguments: Mapping[str, Any], device: torch.device, data_root: Path | None) -> dict[str, Any]:
    """Mask the links of a real graph, once with neighbours alike and once with the features there are."""
    graph = load(arguments["dataset"], data_root).graph
    random = torch.Generator().manual_seed(arguments["seed"])
    real = squared_differences(graph)
    alike = torch.ones_like(real)
    values = {"alike": _draws(graph.structure, alike, arguments["draws"], random)}
    values["real"] = _draws(graph.structure, real, arguments["draws"], random)
    cases = [(degree, kept) for degree in graph.structure.row_sizes.unique().tolist() if degree for kept in KEPT]
    below_proof = [proof_share(*case) - expected_share(*case) for case in cases]
    return {
        **values,
        "least_gap_to_unmasked": min(d / (d + 1) - expected_share(d, kept) for d, kept in cases if kept < 1),
        "largest_above_proof": -min(below_proof),
        "largest_below_proof": max(below_proof),
        "energy_with_all_hidden": float(ego_energies(graph.structure, alike, torch.zeros_like(alike)).max()),
    }


def _draws(structure: Structure, differences: Tensor, count: int, random: torch.Generator) -> list[dict[str, float]]:
    """For each kept share: how masked energies compare with the unmasked one, node by node."""
    whole = ego_energies(structure, differences)
    some = whole > 0
    found = []
    for kept in KEPT:
        total, above, equal, largest = torch.zeros_like(whole), 0, 0, 0.0
        for _ in range(count):
            stays = torch.rand(structure.num_entries, generator=random) < kept
            masked = ego_energies(structure, differences, stays)
            ratio = masked[some] / whole[some]
            above += int((ratio > 1 + ROUNDING).sum())
            equal += int(((ratio - 1).abs() <= ROUNDING).sum())
            largest, total = max(largest, float(ratio.max())), total + masked
        seen = count * int(some.sum())
        mean = float(total[some].sum() / (count * whole[some].sum()))
        found.append({"kept": kept, "above": above / seen, "equal": equal / seen, "largest": largest, "mean": mean})
    return found


def pieces(scope: Scope) -> list[Piece]:
    """One graph with features of its own."""
    dataset, draws = ("digits", QUICK_DRAWS) if scope.quick else ("cora", DRAWS)
    return [Piece("check-dirichlet", {"dataset": dataset, "draws": draws, "seed": 0})]


def show(results: Sequence[tuple[Piece, Result]]) -> list[Claim]:
    """What the theorem says, reading by reading."""
    values = results[0][1].values
    if values is None:
        return [
            Claim(statement=STATEMENTS[0], measured={}, holds=None, explanation=results[0][1].failure or "Not run.")
        ]
    alike, real = values["alike"], values["real"]
    partial, whole = [row for row in alike if row["kept"] < 1], alike[-1]
    largest = max(row["largest"] for row in alike)
    equal = {f"equal at kept share {row['kept']:g}": row["equal"] for row in alike}
    above = {f"above at kept share {row['kept']:g}": row["above"] for row in real}
    means = {f"masked over unmasked at kept share {row['kept']:g}": row["mean"] for row in real}
    return [
        Claim(
            statement=STATEMENTS[0],
            measured={"largest masked over unmasked": largest},
            holds=largest <= 1 + ROUNDING,
            explanation="Each draw keeps links to the centre at random; every ego-graph was held against its whole.",
        ),
        Claim(
            statement=STATEMENTS[1],
            measured={"energy with all hidden": values["energy_with_all_hidden"], **equal},
            holds=values["energy_with_all_hidden"] > 0 and all(row["equal"] == 0 for row in partial),
            explanation="With everything hidden the centre is alone and its energy is 0, not that of the whole. And a "
            "single draw that happens to keep every link of a node is equal at any share, mostly at small degrees.",
        ),
        Claim(
            statement=STATEMENTS[2],
            measured={"least gap below a share of 1": values["least_gap_to_unmasked"], "equal at 1": whole["equal"]},
            holds=values["least_gap_to_unmasked"] > 0 and whole["equal"] == 1,
            explanation="From the closed form of E[k / (k + 1)], k binomial, for every degree of the graph. A node "
            "whose neighbours do not differ from it at all has energy 0 either way, which the theorem leaves out.",
        ),
        Claim(
            statement=STATEMENTS[3],
            measured={
                "expectation above the proof by": values["largest_above_proof"],
                "below by": values["largest_below_proof"],
            },
            holds=values["largest_below_proof"] <= ROUNDING,
            explanation="k / (k + 1) is concave, so the mean lies below the value at the mean: the drop is larger than "
            "the proof says, and its conclusion stands.",
        ),
        Claim(
            statement=STATEMENTS[4],
            measured=above,
            holds=all(row["above"] == 0 for row in real),
            explanation="Share of ego-graphs whose energy rose in a draw, features as they are. Hiding a neighbour "
            "that is like the centre leaves those that are not.",
            beyond=True,
        ),
        Claim(
            statement=STATEMENTS[5],
            measured=means,
            holds=all(row["mean"] <= 1 + ROUNDING for row in real),
            explanation="Each link is kept with the same chance, so the expectation is the mean squared difference "
            "times E[k / (k + 1)], whatever the features: the assumption is not needed on average.",
            beyond=True,
        ),
    ]


STATEMENTS = (
    "Where all neighbours of a node are alike, hiding links never raises its ego Dirichlet energy.",
    "Equality only for p = 1, with p the share hidden, as the theorem's Bernoulli(1 - p) says.",
    "Equality in expectation only for p = 1, with p the share kept, as the proof counts.",
    "The expected energy is that of a star with exactly the expected number of neighbours, as the proof takes it.",
    "In single draws the energy does not rise where neighbours differ either, without the theorem's assumption.",
    "On average over draws the energy does not rise where neighbours differ either, without the theorem's assumption.",
)

ARTIFACT = Artifact(
    name="theory-dirichlet",
    kind="check",
    title="Ego Dirichlet energy under discrete masks (Theorem 1)",
    printed="Theorem 1",
    pieces=pieces,
    show=show,
)
