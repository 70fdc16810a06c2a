"""Pictures of embeddings."""

from pathlib import Path

import torch
from torch import Tensor

from bandana.errors import UserError
from bandana.files import write_atomically


def draw_map(path: Path, embedding: Tensor, labels: Tensor, title: str) -> None:
    """Draw a t-SNE map of an embedding with a colour for each class.

    Args:
        path: PNG file to write.
        embedding: ``[nodes, width]``.
        labels: ``[nodes]`` classes.
        title: What the picture shows.

    Raises:
        UserError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("Drawing needs matplotlib: install it with pip install 'bandana-graph[plot]'.") from None
    from sklearn.manifold import TSNE

    points = TSNE(perplexity=30, init="pca", random_state=0).fit_transform(embedding.cpu().numpy())
    figure = Figure(figsize=(9, 7.5), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    classes = torch.unique(labels.cpu()).tolist()
    colours = mpl.colormaps["tab10" if len(classes) <= 10 else "tab20"]
    for place, name in enumerate(classes):
        chosen = (labels.cpu() == name).numpy()
        x, y = points[chosen].T
        axes.scatter(x, y, s=10, color=colours(place % colours.N), linewidths=0, label=str(name))
    axes.set_title(title, loc="left")
    axes.set_axis_off()
    axes.legend(title="class", frameon=False, markerscale=2.5, loc="center left", bbox_to_anchor=(1, 0.5))
    write_atomically(path, lambda temporary: figure.savefig(temporary, format="png"))
