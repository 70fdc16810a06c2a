"""Power-law graphs with planted communities, of any size: edges and features streamed into Parquet files.

Node weights follow a power law, as in Chung and Lu ("Connected components in random graphs with given expected degree
sequences", 2002): an edge picks its ends in proportion to them, the second one mostly among the nodes of the first
one's community, and there mostly in its circle. Circles keep their size when a graph grows, as acquaintances do, so
that a larger graph cuts into more parts as well as a smaller one. Both are interleaved over the ids: no order gives
them away. Features are the community's centre and noise. Memory is that of the nodes; edges are drawn a batch at a
time.

    python benchmarks/power_law.py 10_000_000 folder/
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

BATCH = 1 << 20
Indices = npt.NDArray[np.int64]
Heights = npt.NDArray[np.float64]


class PowerLaw(NamedTuple):
    """A graph to draw.

    Attributes:
        rows: Undirected edges to draw; loops and repetitions among them are left in.
        mean_degree: Of the drawn edges.
        communities: How many, of nearly equal sizes.
        circle: About how many nodes make a circle; a smaller community is one.
        mixing: Share of the edges that ignore communities.
        roaming: Share of the edges that stay in a community and ignore its circles.
        exponent: Of the tail of the degrees' distribution.
        features: Numbers per node.
        noise: Deviation of a feature from its community's centre, whose own deviation is 1.
        seed: Of everything.
    """

    rows: int
    mean_degree: float = 20.0
    communities: int = 100
    circle: int = 500
    mixing: float = 0.3
    roaming: float = 0.1
    exponent: float = 2.5
    features: int = 32
    noise: float = 2.0
    seed: int = 0

    @property
    def num_nodes(self) -> int:
        return max(int(2 * self.rows / self.mean_degree), self.communities)

    def community(self, nodes: Indices) -> Indices:
        """The planted community of each node."""
        return nodes % self.communities

    @property
    def circles(self) -> int:
        """In each community."""
        return max(round(self.num_nodes / self.communities / self.circle), 1)

    def circle_of(self, nodes: Indices) -> Indices:
        """The circle of each node; those of a community follow each other."""
        return self.community(nodes) * self.circles + nodes // self.communities % self.circles


def edge_batches(graph: PowerLaw) -> Iterator[tuple[Indices, Indices]]:
    """The ends of the edges, a batch at a time."""
    random, nodes = np.random.default_rng([graph.seed, 0]), np.arange(graph.num_nodes)
    ranks = random.permutation(graph.num_nodes) + 1.0
    weights = (ranks / graph.num_nodes) ** (-1 / (graph.exponent - 1))
    by_circle = np.argsort(graph.circle_of(nodes), kind="stable")
    # One ladder of summed weights serves all draws: a circle is a stretch of it, and so is a community.
    ladder = np.concatenate([[0.0], weights[by_circle].cumsum()])
    members = np.bincount(graph.circle_of(nodes), minlength=graph.communities * graph.circles)
    circle = ladder[np.concatenate([[0], members.cumsum()])]
    community = circle[:: graph.circles]
    for start in range(0, graph.rows, BATCH):
        count = min(BATCH, graph.rows - start)
        source = _step(ladder, random.random(count) * ladder[-1], by_circle)
        where, draw = random.random(count), random.random(count)
        own = _within(circle, graph.circle_of(source), draw)
        roaming = where < graph.mixing + graph.roaming
        own[roaming] = _within(community, graph.community(source[roaming]), draw[roaming])
        own[where < graph.mixing] = draw[where < graph.mixing] * ladder[-1]
        yield source, _step(ladder, own, by_circle)


def feature_batches(graph: PowerLaw) -> Iterator[tuple[Indices, npt.NDArray[np.float32]]]:
    """Nodes and their features, a batch at a time."""
    random = np.random.default_rng([graph.seed, 1])
    centres = random.standard_normal((graph.communities, graph.features), dtype=np.float32)
    for start in range(0, graph.num_nodes, BATCH // 4):
        nodes = np.arange(start, min(start + BATCH // 4, graph.num_nodes))
        noise = random.standard_normal((len(nodes), graph.features), dtype=np.float32)
        yield nodes, centres[graph.community(nodes)] + np.float32(graph.noise) * noise


def write(graph: PowerLaw, folder: Path) -> tuple[Path, Path, Path]:
    """Write ``edges.parquet``, ``features.parquet`` and ``labels.parquet``; the labels are the communities."""
    folder.mkdir(parents=True, exist_ok=True)
    edges, features, labels = (folder / f"{name}.parquet" for name in ("edges", "features", "labels"))
    with pq.ParquetWriter(edges, pa.schema([("source", pa.int64()), ("target", pa.int64())])) as file:
        for source, target in edge_batches(graph):
            file.write_batch(pa.record_batch({"source": source, "target": target}))
    lists = pa.list_(pa.float32(), graph.features)
    with pq.ParquetWriter(features, pa.schema([("id", pa.int64()), ("x", lists)])) as file:
        for nodes, block in feature_batches(graph):
            column = pa.FixedSizeListArray.from_arrays(pa.array(block.ravel()), graph.features)
            file.write_batch(pa.record_batch({"id": nodes, "x": column}))
    nodes = np.arange(graph.num_nodes)
    pq.write_table(pa.table({"id": nodes, "label": graph.community(nodes)}), labels)
    return edges, features, labels


def _within(bounds: Heights, group: Indices, draw: Heights) -> Heights:
    """Heights at random on the stretches of some groups."""
    return bounds[group] + draw * (bounds[group + 1] - bounds[group])


def _step(ladder: Heights, height: Heights, nodes: Indices) -> Indices:
    """The nodes on whose step of the ladder the heights are."""
    step = np.searchsorted(ladder, height, "right") - 1
    return nodes[step.clip(0, len(nodes) - 1)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("rows", type=int, help="undirected edges to draw")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--features", type=int, default=PowerLaw._field_defaults["features"])
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for path in write(PowerLaw(given.rows, features=given.features, seed=given.seed), given.folder):
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
