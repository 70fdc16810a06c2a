"""A report as a run would write it, with made-up figures. To look at it: ``python sample_report.py FILE [POINTS]``."""

import sys
from pathlib import Path

import numpy as np

from bandana.reporting.charts import BarChart, Curve, LineChart
from bandana.reporting.html import (
    Fact,
    Groups,
    Map,
    NextStep,
    Report,
    Row,
    Score,
    Section,
    Shades,
    Table,
    Verdict,
    write_report,
)

TOPICS = ("biology", "chemistry", "economics", "law", "mathematics", "medicine", "physics")


def sample_map(count: int, ids: list[str] | None = None) -> Map:
    """Clouds of points, one per topic, each point with the next ones of its cloud as neighbours."""
    draws = np.random.default_rng(0)
    topic = draws.integers(len(TOPICS), size=count)
    centres = draws.normal(size=(len(TOPICS), 2)) * 3
    points = centres[topic] + draws.normal(size=(count, 2)) * draws.uniform(0.4, 1.2, size=(len(TOPICS), 1))[topic]
    degree = np.ceil(draws.pareto(1.4, size=count) * 2)
    community = 2 * topic + (points[:, 0] > centres[topic, 0])
    nearest = (np.arange(count)[:, None] + np.arange(1, 7)) % max(count, 1)
    linked = np.where(
        np.arange(6) < degree[:, None], (np.arange(count)[:, None] * 7 + np.arange(6)) % max(count, 1), -1
    )
    return Map(
        points=points,
        ids=ids or [f"paper-{place:05d}" for place in range(count)],
        colourings=(
            Groups(name="label", values=np.where(draws.random(count) < 0.1, -1, topic), names=TOPICS),
            Shades(name="degree", values=degree, logarithmic=True),
            Groups(name="community", values=community, names=[f"community {place + 1}" for place in range(14)]),
        ),
        neighbours={"nearest vectors": nearest, "linked to": linked},
        note=f"All {count:,} nodes, laid out by t-SNE: near means similar; distances between clouds mean little.",
    )


def sample_report(count: int = 400, ids: list[str] | None = None) -> Report:
    epochs = np.arange(10, 310, 10)
    loss = 0.35 + 0.9 * np.exp(-epochs / 70)
    return Report(
        title="citations.csv: 12,004 papers, 48,211 links",
        summary="An undirected graph with 1,433 features per node, embedded into 128 numbers per node by bandana.",
        facts=(
            Fact("nodes", "12,004", "3 isolated"),
            Fact("links", "48,211"),
            Fact("link AUC", "0.947", "best floor 0.861"),
            Fact("time", "1 min 52 s", "on 2 cores"),
        ),
        verdicts=(
            Verdict("good", "Held-out links are found: 94.7 % of them score above a random pair, floors reach 86.1 %."),
            Verdict(
                "fair", "Among hard negatives, pairs with common neighbours, the lead over floors shrinks to 2 points."
            ),
            Verdict("poor", "A tenth of the nodes have no label; classes are judged without them."),
            Verdict("note", "4 duplicated edges and 2 self-loops were dropped."),
        ),
        map=sample_map(count, ids),
        sections=(_graph_section(), _quality_section(), _training_section(epochs, loss)),
        next_steps=(
            NextStep(
                "See which papers are most like one that you know.", "bandana similar out/ --id paper-00042 -k 10"
            ),
            NextStep("List the most likely missing links.", "bandana links out/ --top 100"),
            NextStep("More epochs may help: the best epoch was among the last ten per cent."),
        ),
        made_with=(
            Fact("command", "bandana embed citations.csv --features words.parquet -o out/"),
            Fact("seed", "0"),
            Fact("torch", "2.13.0"),
        ),
    )


def _graph_section() -> Section:
    return Section(
        title="The graph",
        lead="Most nodes hang together, and linked papers share their topic far more often than chance.",
        facts=(
            Fact("components", "12", "the largest holds 99.4 % of the nodes"),
            Fact("degree", "4 in the median", "8.0 on average, 512 at most"),
            Fact("homophily", "0.81", "share of links within a topic; 0.18 by chance"),
        ),
        charts=(
            BarChart(
                title="Nodes by number of links",
                x_label="links of a node",
                names=("0", "1", "2–3", "4–7", "8–15", "16–31", "32–63", "64+"),
                heights=(3, 1810, 3120, 3540, 2105, 990, 344, 92),
            ),
        ),
    )


def _quality_section() -> Section:
    def row(name: str, auc: float, hits: float, kind: str, verdict: Verdict, hint: str = "") -> Row:
        return Row(name, (Score(f"{auc:.3f}", auc * 2 - 1), Score(f"{hits:.3f}", hits), verdict), kind, hint)

    return Section(
        title="How good the vectors are",
        lead="A tenth of the links was kept from training and is compared with pairs that are not linked.",
        verdicts=(Verdict("good", "Better than every floor by more than the noise between seeds."),),
        tables=(
            Table(
                caption="Links that training never saw",
                corner="scored by",
                columns=("AUC", "Hits@50", "in words"),
                rows=(
                    row("this embedding", 0.947, 0.712, "result", Verdict("good", "clearly above the floors")),
                    row("untrained encoder", 0.861, 0.402, "floor", Verdict("note", "the network before training")),
                    row(
                        "Adamic–Adar", 0.804, 0.511, "floor", Verdict("note", "counts shared neighbours"), "no vectors"
                    ),
                ),
                note="Negatives: as many random pairs, none of them a link of the graph.",
            ),
        ),
    )


def _training_section(epochs: np.ndarray, loss: np.ndarray) -> Section:
    auc = 0.95 - 0.25 * np.exp(-epochs / 60)
    auc[4] = np.nan
    return Section(
        title="Training",
        charts=(
            LineChart(title="Loss", x_label="epoch", curves=(Curve(name="loss", x=epochs, y=loss),)),
            LineChart(
                title="AUC on validation links",
                x_label="epoch",
                curves=(Curve(name="embedding", x=epochs, y=auc), Curve(name="decoder", x=epochs, y=auc * 0.97)),
                marked=270,
                mark_text="weights kept",
            ),
        ),
    )


if __name__ == "__main__":
    write_report(Path(sys.argv[1]), sample_report(int(sys.argv[2]) if len(sys.argv) > 2 else 2000))
