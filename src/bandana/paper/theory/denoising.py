"""Proposition 1 of the paper: the loss is a reconstruction error plus σ² times the squared gradient, up to o(σ²).

A topological encoding is a column of A - 11ᵀ. On a graph of eight nodes the noise takes every corner of a cube of half
side σ: mean zero, covariance σ² I, and expectations that are sums of 256 terms, without any sampling. The remainder is
o(σ²) exactly if it falls faster than σ² as σ shrinks, which is read off a doubly logarithmic slope.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.func import hessian, jacrev, vmap

from bandana.engine.bandwidth import boltzmann_gibbs
from bandana.graph import Graph
from bandana.paper.artifact import Artifact, Claim, Piece, Result, Scope
from bandana.paper.work import work

LINKS = ((0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (4, 7), (5, 7))
"""A triangle and a square with a diagonal, joined by a path."""
NODES = 8
SIGMAS = (0.2, 0.1, 0.05, 0.025)
HIDDEN = 16
BEYOND_SQUARE = 2.5
"""A slope above this is faster than σ²; the remainders found fall as σ², σ⁴ or σ⁶."""
EXACT = 1e-12
STAR, STAR_DRAWS = 5, 20_000

Reconstructor: TypeAlias = Callable[[Tensor], Tensor]
"""From ``[nodes]`` to ``[nodes]``, differentiable."""
Target = Literal["clean", "noisy"]


class Terms(NamedTuple):
    """Means over the nodes of what appears at order σ² beside the squared `reconstruction` error."""

    reconstruction: float
    gradient: float
    """Squared Frobenius norm of the Jacobian: the one term that the proposition keeps."""
    trace: float
    """Of the Jacobian. With noise in the target as well, minus twice this, plus the number of nodes."""
    curvature: float
    """Reconstruction error times Laplacian, from the second order of Taylor's series."""


def encodings() -> Tensor:
    """``[nodes, nodes]`` topological encoding of each node of the small graph, in double precision."""
    first, second = torch.tensor(LINKS).t()
    adjacency = torch.zeros(NODES, NODES, dtype=torch.float64)
    adjacency[first, second] = adjacency[second, first] = 1
    return adjacency - 1


def corners(size: int) -> Tensor:
    """``[2^size, size]`` every vector of ones and minus ones."""
    one = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    return torch.cartesian_prod(*[one] * size)


def loss(r: Reconstructor, encoding: Tensor, sigma: float, target: Target) -> float:
    """The exact mean over nodes and noise of the squared error of ``r(T + ε)`` against T, or against T + ε."""
    noisy = encoding.unsqueeze(1) + sigma * corners(encoding.shape[1])
    aim = noisy if target == "noisy" else encoding.unsqueeze(1)
    return float((vmap(vmap(r))(noisy) - aim).square().sum(-1).mean())


def expansion(r: Reconstructor, encoding: Tensor) -> Terms:
    """All terms up to order σ², by automatic differentiation at the encodings."""
    error = vmap(r)(encoding) - encoding
    jacobian, second = vmap(jacrev(r))(encoding), vmap(hessian(r))(encoding)
    laplacian = second.diagonal(dim1=-2, dim2=-1).sum(-1)
    return Terms(
        reconstruction=float(error.square().sum(-1).mean()),
        gradient=float(jacobian.square().sum((-2, -1)).mean()),
        trace=float(jacobian.diagonal(dim1=-2, dim2=-1).sum(-1).mean()),
        curvature=float((error * laplacian).sum(-1).mean()),
    )


def slope(sigmas: Sequence[float], remainders: Sequence[float]) -> float:
    """The power of σ that remainders fall with, from a straight line through their logarithms."""
    x, y = (torch.tensor(values, dtype=torch.float64).abs().log() for values in (sigmas, remainders))
    x, y = x - x.mean(), y - y.mean()
    return float((x * y).sum() / x.square().sum())


def reconstructors(seed: int) -> dict[str, Callable[[float], Reconstructor]]:
    """An affine map, a curved one, and one that nears the identity with σ² as the best one does; by σ."""
    random = torch.Generator().manual_seed(seed)

    def draw(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, generator=random, dtype=torch.float64).div_(columns**0.5)

    into, out, affine = draw(HIDDEN, NODES), draw(NODES, HIDDEN), draw(NODES, NODES)

    def curved(t: Tensor) -> Tensor:
        bent: Tensor = out @ torch.tanh(into @ t)
        return bent

    return {
        "affine": lambda sigma: lambda t: affine @ t,
        "curved": lambda sigma: curved,
        "near identity": lambda sigma: lambda t: t + sigma**2 * curved(t),
    }


@work("check-denoising")
def measure(arguments: Mapping[str, Any], device: torch.device, data_root: Path | None) -> dict[str, Any]:
    """What the expansion leaves over, for each reconstructor and target, with and without the terms it drops."""
    encoding, values = encodings(), {}
    for name, at in reconstructors(arguments["seed"]).items():
        for target, noise in (("clean", 0), ("noisy", 1)):
            as_printed, complete = [], []
            for sigma in SIGMAS:
                r = at(sigma)
                terms, whole = expansion(r, encoding), loss(r, encoding, sigma, "noisy" if noise else "clean")
                kept = terms.reconstruction + sigma**2 * terms.gradient
                dropped = terms.curvature + noise * (NODES - 2 * terms.trace)
                as_printed.append(whole - kept)
                complete.append(whole - kept - sigma**2 * dropped)
            values[f"{name}, {target}"] = {"as printed": as_printed, "complete": complete}
    return {"remainders": values, "correlation": neighbour_correlation(STAR, arguments["seed"])}


def neighbour_correlation(degree: int, seed: int) -> float:
    """Correlation of the bandwidths of two neighbours of one node, over many nodes with the same neighbours."""
    hubs = torch.arange(degree, degree + STAR_DRAWS)
    links = torch.cartesian_prod(torch.arange(degree), hubs).t()
    stars = Graph.from_edges(links, num_nodes=degree + STAR_DRAWS, directed=True)
    shares, _ = boltzmann_gibbs(stars.structure, stars.edge_keys, 1.0, seed=seed, step=0, layer=0)
    between = torch.corrcoef(shares.view(STAR_DRAWS, degree).double().t())
    return float((between.sum() - degree) / (degree * (degree - 1)))


def pieces(scope: Scope) -> list[Piece]:
    """One, and the same when quick: it takes seconds."""
    return [Piece("check-denoising", {"seed": 0})]


def show(results: Sequence[tuple[Piece, Result]]) -> list[Claim]:
    """Where the expansion holds, and where it leaves out terms of the order it keeps."""
    values = results[0][1].values
    if values is None:
        return [
            Claim(statement=STATEMENTS[0], measured={}, holds=None, explanation=results[0][1].failure or "Not run.")
        ]
    left, largest = values["remainders"], max(map(abs, values["remainders"]["affine, clean"]["as printed"]))
    correlation, expected = values["correlation"], -1 / (STAR - 1)
    return [
        Claim(
            statement=STATEMENTS[0],
            measured={"largest remainder": largest},
            holds=largest <= EXACT,
            explanation="The loss against the clean encoding, minus both terms: nothing but rounding is left.",
        ),
        _by_slope(
            STATEMENTS[1],
            left["near identity, clean"],
            "Near the best reconstructor, where the error itself is of "
            "order σ², all that the expansion leaves out is smaller than what it keeps.",
        ),
        _by_slope(
            STATEMENTS[2],
            left["curved, clean"],
            "The first order of Taylor's series is not enough: its second "
            "order meets the reconstruction error and gives σ² times error times Laplacian, the same order as the "
            "term that is kept. With that term added the remainder falls as σ⁴.",
        ),
        _by_slope(
            STATEMENTS[3],
            left["curved, noisy"],
            "With noise in the target too, σ² (n - 2 tr ∇r) belongs to the "
            "expansion. The proof turns the mean of εᵀ∇r ε into the mean of ε times the mean of ∇r, which is zero "
            "where the former is σ² tr ∇r. With these terms added the remainder falls as σ⁴.",
        ),
        Claim(
            statement=STATEMENTS[4],
            measured={"correlation": correlation, "of shares that sum to one": expected},
            holds=abs(correlation) < 0.01,
            explanation=f"A node with {STAR} neighbours, {STAR_DRAWS} draws. What one neighbour gets the others lose, "
            "so that any two correlate by -1/(degree - 1): no covariance of the form cI unless degrees are large.",
        ),
    ]


def _by_slope(statement: str, remainders: Mapping[str, Sequence[float]], explanation: str) -> Claim:
    power, complete = (slope(SIGMAS, remainders[name]) for name in ("as printed", "complete"))
    return Claim(
        statement=statement,
        measured={"power of σ": power, "power with the dropped terms added": complete},
        holds=power > BEYOND_SQUARE,
        explanation=explanation,
    )


STATEMENTS = (
    "For an affine reconstructor and the clean encoding as target, the expansion is exact.",
    "The expansion leaves o(σ²) near the identity, clean target.",
    "The expansion leaves o(σ²) for any smooth reconstructor, clean target.",
    "The expansion leaves o(σ²) for any smooth reconstructor with the noisy encoding as target, as in the proof.",
    "Bandwidths of different neighbours of a node are uncorrelated, as the assumption of isotropic noise needs.",
)

ARTIFACT = Artifact(
    name="theory-denoising",
    kind="check",
    title="The loss as a regularised denoising autoencoder (Proposition 1)",
    printed="Proposition 1",
    pieces=pieces,
    show=show,
)
