"""What docs/findings.md says of depth, temperature and few labels is what the committed rows say."""

import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from scipy.stats import ttest_rel

from bandana.paper.artifact import Piece, Scope
from bandana.paper.figures import depth, depth_last_layer, temperature
from bandana.paper.rows import Rows, found_in, read_rows
from bandana.paper.tables import mask_ablation, semi_supervised
from bandana.paper.variants import variant_of
from bandana.reporting.compare import LEVEL, holm

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
PROSE = " ".join(PAGE.split())
SEARCHES = " ".join((ROOT / "docs" / "searches.md").read_text(encoding="utf-8").split())
SEEDS, ABLATIONS = (f"{name}-seeds-h200-torch2.11.0.csv" for name in ("bandana", "ablations"))
FILES = (
    *(f"{name}-seeds-h200-torch2.11.0.csv" for name in ("bandana", "methods", "ablations", "figures")),
    "few-labels-seeds-epyc-torch2.13.0.csv",
)
CITATIONS = [("Cora", "cora"), ("CiteSeer", "citeseer"), ("PubMed", "pubmed")]
LARGER = [("Photo", "photo"), ("Computers", "computers"), ("CS", "cs"), ("Physics", "physics")]
METHODS = {
    "bandana": "Bandana",
    "maskgae_edge": "MaskGAE, edges",
    "maskgae_path": "MaskGAE, paths",
    "untrained_encoder": "untrained encoder",
}


@cache
def known() -> Rows:
    return read_rows([ROOT / "results" / file for file in FILES])


def scored(pieces: Sequence[Piece]) -> Iterator[tuple[dict[str, Any], int, float]]:
    """Settings, seed and micro-F1 in % of every piece that has a row."""
    for piece in pieces:
        found = found_in(known(), piece)
        if found is not None and found.values is not None:
            yield piece.arguments["experiment"], piece.arguments["seed"], 100 * found.values["metrics"]["micro_f1"]


@pytest.mark.parametrize(("title", "dataset"), CITATIONS)
def test_depths(title: str, dataset: str) -> None:
    ten, three = (
        of_depths(artifact.pieces(Scope(seeds=seeds, datasets=(dataset,))))
        for artifact, seeds in ((depth, 10), (depth_last_layer, 3))
    )
    for method, label in METHODS.items():
        cells = [f"{fmean(scores):.1f} ± {stdev(scores):.1f}" for scores in ten[method]]
        assert f"| {title}: {label} | {' | '.join(cells)} |\n" in PAGE
        assert {len(scores) for scores in three[method]} == {3}
        cells = [f"{fmean(scores):.1f}" for scores in three[method]]
        assert f"| {title}: {label} | {' | '.join(cells)} |\n" in PAGE.partition("Read from the last layer alone")[2]


@pytest.mark.parametrize(("title", "dataset"), LARGER[:2])
def test_depths_of_the_larger_sets(title: str, dataset: str) -> None:
    found = of_depths(depth.pieces(Scope(seeds=2, datasets=(dataset,))))
    for method, label in METHODS.items():
        assert {len(scores) for scores in found[method]} == {2}
        assert f"| {title}: {label} | {' | '.join(f'{fmean(scores):.1f}' for scores in found[method])} |\n" in PAGE


def of_depths(pieces: Sequence[Piece]) -> dict[str, list[list[float]]]:
    """Scores of each method, depth by depth."""
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for table, _, score in scored(pieces):
        found[table["method"]][depth._depth(table)].append(score)
    return {method: [scores for _, scores in sorted(depths.items())] for method, depths in found.items()}


@pytest.mark.parametrize(("title", "dataset"), LARGER)
def test_temperatures_of_the_larger_sets(title: str, dataset: str) -> None:
    scores: dict[float, dict[int, float]] = defaultdict(dict)
    for table, seed, score in scored(temperature.pieces(Scope(seeds=2, datasets=(dataset,)))):
        scores[table["model"]["mask"]["temperature"]][seed] = score
    seeds = set.intersection(*(set(by_seed) for by_seed in scores.values()))
    assert len(seeds) == (2 if dataset in ("photo", "cs") else 1)
    means = {value: fmean(by_seed[seed] for seed in seeds) for value, by_seed in scores.items()}
    low, high = temperature.MIDDLE
    middle = [mean for value, mean in means.items() if low <= value <= high]
    ends = [f"{means[end] - fmean(middle):+.2f}" for end in (1e-6, 0.1, 2.0, 5.0)]
    apart = f"{min(middle) - fmean(middle):+.2f} to {max(middle) - fmean(middle):+.2f}"
    assert f"| {title} | {' | '.join(ends)} | {apart} |\n" in PAGE


def test_few_labels() -> None:
    scores: dict[tuple[str, float, str], dict[int, float]] = defaultdict(dict)
    for table, seed, score in scored(semi_supervised.pieces(Scope(seeds=3))):
        scores[table["dataset"], table["split"]["nodes"][0], table["method"]][seed] = score
    for share in (0.1, 0.05, 0.01):
        line = next(line for line in PAGE.splitlines() if line.startswith(f"| {100 * share:g} % |"))
        cells = line.split(" | ")[1:]
        for dataset, (ours, other, ahead) in (("cs", cells[:3]), ("physics", cells[3:])):
            bandana, maskgae = (scores[dataset, share, method] for method in ("bandana", "maskgae_edge"))
            assert bandana.keys() == maskgae.keys() == {0, 1, 2}
            assert [ours, other] == [
                f"{fmean(by_seed.values()):.2f} ± {stdev(by_seed.values()):.2f}" for by_seed in (bandana, maskgae)
            ]
            assert ahead.startswith(f"{fmean(bandana[seed] - maskgae[seed] for seed in bandana):+.2f}, ")


def numbers(name: str) -> list[dict[str, str]]:
    """Rows of a figure or table of the committed page."""
    with (ROOT / "results" / "reproduce" / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def mean_of(rows: Sequence[dict[str, str]], *columns: str) -> float:
    return fmean(float(row[column]) for row in rows for column in columns)


def test_mates_of_the_karate_club() -> None:
    rows = numbers("karate-1")
    mates = [column for column in rows[0] if column.startswith("mates: ")]
    masks = {"bernoulli": "discrete", "uniform": "uniform", "boltzmann_gibbs": "bandwidths"}
    said = [
        f"{100 * mean_of([row for row in rows if row['mask'] == mask], *mates):.1f} % {word}"
        for mask, word in masks.items()
    ]
    assert ", ".join(said) in PROSE


@pytest.mark.parametrize(("title", "shape"), [("Swiss Roll", "swiss_roll"), ("Two-moon", "two_moon")])
def test_what_embeddings_keep_of_a_manifold(title: str, shape: str) -> None:
    labels = {
        "bandana": f"{title}: Bandana",
        "maskgae_edge": METHODS["maskgae_edge"],
        "untrained_encoder": "untrained encoder",
    }
    lines = []
    for method, label in labels.items():
        own = [row for row in numbers("manifold-1") if (row["dataset"], row["method"]) == (shape, method)]
        assert len(own) == 3
        kept, same = (100 * mean_of(own, column) for column in ("neighbours_kept", "same_label"))
        lines.append(f"| {label} | {kept:.1f} % | {mean_of(own, 'distance_correlation'):.2f} | {same:.1f} % |\n")
    assert "".join(lines) in PAGE


def test_what_twice_the_width_gained_on_the_links_of_citeseer() -> None:
    found: dict[str, dict[str, float]] = defaultdict(dict)
    with (ROOT / "results" / "tuned-link-decided-epyc-2cores-torch2.13.0.csv").open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            found[row["recipe"]][row["seed"]] = 100 * float(row["score"])
    incumbent, wide = found["tuned"], found["tuned,model.encoder.width=256"]
    gains = [wide[seed] - incumbent[seed] for seed in incumbent]
    error = stdev(gains) / len(gains) ** 0.5
    assert f"(paired, {fmean(gains):+.2f} with a standard error of {error:.2f})" in SEARCHES
    means = [f"{fmean(by_seed.values()):.2f}" for by_seed in (incumbent, wide)]
    assert "the incumbent {}, the same with 256 units instead of 128 {}".format(*means) in SEARCHES


READINGS = 6
"""Of every draw of a scouting."""
TITLES = {
    "graphmae": "GraphMAE",
    "cca_ssg": "CCA-SSG",
    "gae": "GAE",
    "graphmae2": "GraphMAE2",
    "maskgae_edge": "MaskGAE, edges",
    "maskgae_path": "MaskGAE, paths",
    "arga": "ARGA",
    "arvga": "ARVGA",
    "vgae": "VGAE",
    "bandana": "**Bandana**",
}


def test_average_ranks() -> None:
    def ranks(name: str) -> dict[str, tuple[str, str]]:
        rows = [row for row in numbers(name) if row["column"] == "all cells" and row["ours_mean"]]
        best = sorted(rows, key=lambda row: float(row["ours_mean"]))
        return {row["row"]: (f"{float(row['ours_mean']):.2f}", f"{float(row['published_mean']):.2f}") for row in best}

    nodes, logits, sigmoid = map(ranks, ("node-classification-4", "link-prediction-5", "link-prediction-6"))
    assert (len(nodes), len(logits)) == (15, 16)
    assert list(nodes).index("bandana") == 2
    assert list(logits).index("bandana") == 4
    for node, link in list(zip(nodes, logits, strict=False))[:6]:
        assert f"| {TITLES[node]} | {' | '.join(nodes[node])} |\n" in PAGE
        assert f"| {' | '.join((TITLES[link], logits[link][0], sigmoid[link][0], logits[link][1]))} |\n" in PAGE
    assert nodes["bandana"][0] == nodes["maskgae_edge"][0], "places two and three are shared"


def test_seeds_behind_the_ranks() -> None:
    """Every method has three, Bandana ten, and MaskGAE ten for nodes of the citation graphs."""
    seeds = {
        (name, row["row"], row["column"]): int(row["seeds"])
        for name in ("node-classification-1", "link-prediction-1")
        for row in numbers(name)
        if row["ours_mean"] and row["row"] in {*METHODS, *TITLES} - {"untrained_encoder"}
    }
    citations = {dataset for _, dataset in CITATIONS}
    for (name, method, column), count in seeds.items():
        of_maskgae = method.startswith("maskgae") and name.startswith("node") and column in citations
        assert count == (10 if method == "bandana" or of_maskgae else 3), (name, method, column)
    assert "the others have three, except that MaskGAE has ten for nodes of the citation graphs" in PROSE


KERNELS = {"same": ABLATIONS, "earlier": SEEDS}


def of_masks(file: str, dataset: str) -> dict[str, dict[int, float]]:
    """Micro-F1 in % by mask and seed."""
    rows, found = read_rows([ROOT / "results" / file]), defaultdict(dict)
    name = variant_of(mask_ablation.VARIANTS)
    for piece in mask_ablation.pieces(Scope(seeds=10, datasets=(dataset,))):
        result, table = found_in(rows, piece), piece.arguments["experiment"]
        if result is not None and result.values is not None:
            found[str(name(table))][piece.arguments["seed"]] = 100 * result.values["metrics"]["micro_f1"]
    return found


def paired(one: dict[int, float], other: dict[int, float]) -> tuple[float, float]:
    """The mean difference over ten seeds, and p of a paired t test."""
    assert one.keys() == other.keys() == set(range(10))
    return fmean(one[s] - other[s] for s in one), float(
        ttest_rel([one[s] for s in one], [other[s] for s in one]).pvalue
    )


@pytest.mark.parametrize("kernels", KERNELS)
def test_masks_against_bandana(kernels: str) -> None:
    masks = [name for name in mask_ablation.VARIANTS if name != "Bandana"]
    found = {
        (mask, dataset): paired(of_masks(ABLATIONS, dataset)[mask], of_masks(KERNELS[kernels], dataset)["Bandana"])
        for mask in masks
        for _, dataset in CITATIONS
    }
    remain = sorted(found, key=lambda cell: found[cell][1])[: holm([p for _, p in found.values()])]
    assert set(remain) == {("Bernoulli", "cora"), ("Bernoulli", "citeseer")}
    for mask in masks:
        cells = []
        for _, dataset in CITATIONS:
            difference, p = found[mask, dataset]
            text = f"{difference:+.2f} ({'< 0.0001' if p < 1e-4 else f'{p:.2g}'})"
            cells.append(f"**{text}**" if (mask, dataset) in remain else text)
        assert (
            f"| {mask if kernels == 'same' else ''} | {kernels} | {' | '.join(cells)} |\n".replace("|  |", "| |")
            in PAGE
        )


def test_continuous_masks_against_each_other() -> None:
    masks = [name for name in mask_ablation.VARIANTS if name not in ("Bandana", "Bernoulli")]
    found = {
        (one, other, dataset): paired(of_masks(ABLATIONS, dataset)[one], of_masks(ABLATIONS, dataset)[other])
        for _, dataset in CITATIONS
        for one, other in combinations(masks, 2)
    }
    nominal = {cell: result for cell, result in found.items() if result[1] < LEVEL}
    assert (len(found), len(nominal), holm([p for _, p in found.values()])) == (18, 4, 0)
    assert "Of the eighteen pairs of them four pass 5 % uncorrected, none after Holm's correction" in PROSE
    for difference, p in nominal.values():
        assert f"{difference:+.2f}, p = {p:.{3 if p < 0.01 else 2}g}".replace("0.00742", "0.007") in PROSE


def test_who_is_quickest() -> None:
    sides = {
        side: {
            dataset: min(
                (row for row in numbers("time-and-memory-1") if row["column"] == dataset),
                key=lambda row, side=side: float(row[side] or "inf"),
            )["row"]
            for _, dataset in CITATIONS
        }
        for side in ("published_mean", "ours_mean")
    }
    assert sides == {
        "published_mean": {"cora": "maskgae", "citeseer": "maskgae", "pubmed": "vgae"},
        "ours_mean": {"cora": "vgae", "citeseer": "vgae", "pubmed": "maskgae"},
    }
    assert "Published, MaskGAE is the quickest on Cora and CiteSeer and VGAE on PubMed" in PROSE
    assert "here it is VGAE on Cora and CiteSeer and MaskGAE on PubMed" in PROSE


def test_what_pretraining_takes() -> None:
    for name, digits, said in (
        ("time-and-memory-1", 2, "500 epochs of Bandana take"),
        ("time-and-memory-2", 0, "in MB:"),
    ):
        means = {(row["row"], row["column"]): row["ours_mean"] for row in numbers(name)}
        for method, before in (("bandana", said), ("maskgae", "MaskGAE's")):
            own = [f"{float(means[method, dataset]):.{digits}f}" for _, dataset in CITATIONS]
            assert f"{before} {own[0]}, {own[1]} and {own[2]}" in PROSE.replace(" s on Cora", "").replace(
                "Memory, in MB", "in MB"
            )


def test_decoders_of_their_own() -> None:
    means = {(row["row"], row["column"]): float(row["ours_mean"]) for row in numbers("end-to-end-1")}
    sets = [dataset for _, dataset in (*CITATIONS, *LARGER)]
    ahead = [means[f"maskgae_{kind}", name] - means["bandana", name] for kind in ("edge", "path") for name in sets]
    assert f"on all seven sets, by {min(ahead):.1f} to {max(ahead):.1f} points" in PROSE
    for title, dataset in (LARGER[0], LARGER[2], LARGER[3]):
        assert f"{title} ({means['bandana', dataset]:.2f}, " in PROSE


def test_what_was_scouted() -> None:
    with Path("results/scouted-h200-torch2.11.0.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))

    def scores(dataset: str, stage: str) -> dict[str, list[float]]:
        found: dict[str, list[float]] = defaultdict(list)
        for row in rows:
            if (row["dataset"], row["stage"]) == (dataset, stage):
                found[row["settings"]].append(100 * float(row["score"]))
        return found

    fresh = scores("cora", "fresh")
    (chosen, tested), *others = scores("cora", "test").items()
    assert not others
    assert chosen == max(fresh, key=lambda settings: fmean(fresh[settings]))
    assert f"{fmean(fresh[chosen]):.2f} on these nodes, where the tuned recipe has {fmean(fresh['tuned']):.2f}" in PROSE
    assert f"**{fmean(tested):.2f} ± {stdev(tested):.2f} on test nodes**" in PROSE
    assert len(tested) == 10
    best = max(score for own in scores("pubmed", "drawn").values() for score in own)
    assert f"has {best:.2f} on 18,657 nodes" in PROSE


def test_what_was_scouted_by_validation_nodes() -> None:
    with (ROOT / "results" / "scouted-validation-epyc-torch2.13.0.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    fresh: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row["stage"] == "fresh":
            fresh[row["settings"]].append(100 * float(row["score"]))
    tuned, *others = (fmean(fresh[settings]) for settings in sorted(fresh, key=lambda settings: settings != "tuned"))
    said = f"have {min(others):.2f} to {max(others):.2f} on validation nodes; the incumbent has {tuned:.2f} and stays"
    assert said in SEARCHES
    assert tuned > max(others)
    assert f"{sum(row['stage'] == 'drawn' for row in rows) // READINGS} draws" in SEARCHES
    assert not any(row["stage"] == "test" for row in rows)
