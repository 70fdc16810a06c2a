"""A few labels for many nodes: own features, own links, and `classify`, on the digits that scikit-learn brings.

    python examples/digits.py
    python examples/digits.py --labels 30 --epochs 40

1,797 images of 8 × 8 pixels are linked to those that look most alike. Vectors are learned from links and pixels; a
hundred labels are then enough to read the others. The same classifier reads the bare pixels beside it: what learning
added is the difference.
"""

import argparse

import pyarrow as pa
import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph

from bandana import GraphEmbedder
from bandana.use.classify import classify

NEIGHBOURS = 5


def tables() -> tuple[pa.Table, pa.Table, torch.Tensor]:
    """Links and pixels as tables under ids of our own, as a database would give them, and the true digits."""
    pixels, digits = load_digits(return_X_y=True)
    ids = [f"image-{row:04d}" for row in range(len(pixels))]
    alike = kneighbors_graph(pixels, NEIGHBOURS).tocoo()
    links = {"source": [ids[row] for row in alike.row], "target": [ids[row] for row in alike.col]}
    columns = {f"pixel-{place}": pixels[:, place] for place in range(pixels.shape[1])}
    return pa.table(links), pa.table({"id": ids, **columns}), torch.from_numpy(digits).long()


def right(vectors: torch.Tensor, digits: torch.Tensor, known: torch.Tensor) -> float:
    """Share of the unknown digits that are read rightly from the known ones."""
    labels = torch.full_like(digits, -1)
    labels[known] = digits[known]
    answer = classify(vectors, labels, names=tuple(map(str, range(10)))).predicted
    unknown = labels < 0
    return float((answer[unknown] == digits[unknown]).double().mean())


def main(arguments: list[str] | None = None) -> None:
    """Print what can be read from a few labels, with and without learning."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    links, pixels, digits = tables()
    embedder = GraphEmbedder(epochs=options.epochs, device="cpu", random_state=options.seed)
    embedder.fit(links, features=pixels)
    row_of = {name: row for row, name in enumerate(embedder.node_ids_)}
    order = torch.tensor([row_of[name.as_py()] for name in pixels["id"]])
    vectors = torch.from_numpy(embedder.embedding_)[order]
    bare = torch.from_numpy(load_digits().data).float()
    known = torch.randperm(len(digits), generator=torch.Generator().manual_seed(options.seed))[: options.labels]
    learned, floor = (right(z, digits, known) for z in (vectors, bare))
    print(
        f"{len(digits) - len(known)} digits read from {len(known)} labels: {learned:.1%} right, from pixels {floor:.1%}"
    )


if __name__ == "__main__":
    main()
