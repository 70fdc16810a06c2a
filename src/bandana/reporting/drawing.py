"""Shared parts of the paper's figures: one calm style, and drawings as SVG text.

matplotlib comes with the extra `plot` and is imported when something is drawn, never before.
"""

import re
from collections.abc import Callable, Sequence
from html import escape
from io import StringIO
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from bandana.errors import UserError

INK, MUTED, RULE, EDGE = "#1b1f24", "#59616b", "#d5dae0", "#7d8791"
COLOURS = ("#1f63c4", "#b4500c", "#1c7a3e", "#8243c2")
MARKS = ("o", "s", "^", "D")
"""Lines differ in mark as well as in colour, so that no reading hangs on hue alone."""
CLASSES = ("#1f63c4", "#e08a1e", "#2f9e8f", "#8243c2", "#b3b9c1", "#c2457a", "#7a6a1f", "#5fb0e6", "#3d4650", "#9c3d1c")
"""For nodes by label: they differ in lightness too."""
DARK_CLASSES = (CLASSES[0], CLASSES[3], CLASSES[5], CLASSES[6], CLASSES[8], CLASSES[9])
"""Those on which white text can be read."""

_STYLE = {
    "font.size": 9,
    "font.family": "sans-serif",
    "svg.fonttype": "none",
    "text.color": INK,
    "axes.edgecolor": EDGE,
    "axes.labelcolor": MUTED,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "legend.frameon": False,
    "savefig.dpi": 200,
}
Points = Any
"""``[nodes, 2]`` NumPy array."""


class Line(NamedTuple):
    """A named series; `spread` is drawn as a band around it, NaN leaves a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float]


def draw(
    name: str, title: str, shape: tuple[int, int], panel: tuple[float, float], paint: Callable[[Any], None]
) -> str:
    """Draw panels in rows and columns.

    Args:
        name: Sets the drawing's element ids apart from those of others on one page.
        title: Read out in place of the drawing.
        shape: Rows and columns of panels.
        panel: Width and height of one, in inches.
        paint: Fills the ``[rows, columns]`` array of axes.

    Returns:
        One SVG element with a white ground, the same text for the same numbers.

    Raises:
        UserError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("Drawing needs matplotlib: install it with pip install 'bandana-graph[plot]'.") from None
    rows, columns = shape
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(columns * panel[0], rows * panel[1]), layout="constrained")
        paint(figure.subplots(rows, columns, squeeze=False))
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return _inline(text.getvalue(), name, title)


def _inline(document: str, name: str, title: str) -> str:
    """The SVG element alone, with ids of its own and a title for those who cannot see it."""
    element = document[document.index("<svg") :]
    element = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", element)
    opening, rest = element.split(">", 1)
    return f'{opening} role="img">\n <title>{escape(title)}</title>{rest}'


def plot_lines(axes: Any, lines: Sequence[Line]) -> None:
    """Lines with their spread, in the colours and marks of their order; a word in their place if there is no point."""
    if not any(np.isfinite(line.y).any() for line in lines):
        blank(axes, "not run")
    for line, colour, mark in zip(lines, COLOURS, MARKS, strict=False):
        y, spread = np.asarray(line.y), np.asarray(line.spread)
        axes.fill_between(line.x, y - spread, y + spread, color=colour, alpha=0.14, linewidth=0)
        axes.plot(line.x, y, color=colour, marker=mark, label=line.name)


def legend_below(axes: Any, columns: int) -> None:
    """One legend for all panels, below them, from the entries of `axes`."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def bare(axes: Any) -> None:
    """A panel without axes, for maps and graphs, with equal units in both directions."""
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_axis_off()
    axes.margins(0.08)


def blank(axes: Any, reason: str) -> None:
    """A panel with nothing to show, and why; its title stays."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, reason, ha="center", va="center", color=MUTED, wrap=True, transform=axes.transAxes)


def layout(edge_index: Tensor, num_nodes: int) -> Points:
    """``[nodes, 2]`` places for a small connected graph, such that distances follow the number of steps between nodes.

    Raises:
        UserError: networkx, which comes with torch, is not installed.
    """
    try:
        import networkx as nx
    except ImportError:
        raise UserError("Drawing graphs needs networkx: install it with pip install networkx.") from None
    network = nx.Graph()
    network.add_nodes_from(range(num_nodes))
    network.add_edges_from(edge_index.t().tolist())
    places = nx.kamada_kawai_layout(network)
    return lying(np.array([places[node] for node in range(num_nodes)]))


def lying(places: Points) -> Points:
    """``[nodes, 2]`` places turned such that they spread most from left to right, as panels do."""
    centred = places - places.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2].T


def plot_nodes(axes: Any, places: Points, colours: Sequence[str] | str, *, size: float = 20) -> None:
    """Nodes as discs, large ones with a white rim; clouds of many become pixels, which keeps the file small."""
    rim, many = 0.7 if size >= 20 else 0, len(places) > 300
    axes.scatter(*places.T, s=size, c=colours, zorder=3, edgecolors="white", linewidths=rim, rasterized=many)


def plot_halves(axes: Any, places: Points, edges: Any, strength: Any, *, widest: float = 3.0) -> None:
    """Directed edges as half lines at the receiving node, wide and dark where much passes.

    Args:
        axes: The panel.
        places: ``[nodes, 2]``.
        edges: ``[2, edges]`` (sender, receiver).
        strength: ``[edges]`` in [0, 1].
        widest: Line width at strength 1.
    """
    from matplotlib.collections import LineCollection

    sender, receiver = places[edges[0]], places[edges[1]]
    segments = np.stack([receiver, (sender + receiver) / 2], axis=1)
    strength = np.clip(np.asarray(strength, dtype=float), 0, 1)
    shade = np.full((len(strength), 4), [0x1B / 255, 0x1F / 255, 0x24 / 255, 1.0])
    shade[:, 3] = 0.15 + 0.85 * strength
    width = np.where(strength > 0, 0.3 + (widest - 0.3) * strength, 0)
    axes.add_collection(
        LineCollection(segments[strength > 0], colors=shade[strength > 0], linewidths=width[strength > 0])
    )
