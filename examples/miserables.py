"""Who belongs together in Les Misérables? `GraphEmbedder` in a scikit-learn pipeline, on a graph that NetworkX brings.

    python examples/miserables.py
    python examples/miserables.py --groups 8 --epochs 100

Vectors are learned from the links, each weighted by the chapters that two people share, and cut into groups by k-means.
How good the groups are is said by their modularity, beside that of Louvain, which optimises modularity itself and so
should be the better of the two.
"""

import argparse

import networkx as nx
from sklearn.cluster import KMeans
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer

from bandana import GraphEmbedder


def grouped(graph: nx.Graph, count: int, epochs: int | None, seed: int) -> list[set[str]]:
    """The nodes in `count` groups, the largest first."""
    pipeline = Pipeline(
        [
            ("vectors", GraphEmbedder(epochs=epochs, device="cpu", random_state=seed)),
            ("length one", Normalizer()),  # then Euclidean distance goes by the angle
            ("groups", KMeans(count, n_init=10, random_state=seed)),
        ]
    )
    number_of = pipeline.fit_predict(graph)
    names = pipeline["vectors"].node_ids_
    groups = [
        {name for name, number in zip(names, number_of, strict=True) if number == wanted} for wanted in range(count)
    ]
    return sorted(groups, key=len, reverse=True)


def main(arguments: list[str] | None = None) -> None:
    """Print the groups and how good they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=6)
    parser.add_argument("--epochs", type=int, help="chosen from the graph when not given")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    graph = nx.les_miserables_graph()
    groups = grouped(graph, options.groups, options.epochs, options.seed)
    for group in groups:
        best_linked = sorted(group, key=lambda name: (-graph.degree[name], name))
        print(f"{len(group):3}  {', '.join(best_linked[:6])}{' …' if len(group) > 6 else ''}")
    louvain = nx.community.louvain_communities(graph, seed=options.seed)
    ours, theirs = (nx.community.modularity(graph, found) for found in (groups, louvain))
    print(f"modularity {ours:.2f} of {len(groups)} groups; Louvain reaches {theirs:.2f} with {len(louvain)}")


if __name__ == "__main__":
    main()
