"""What a person sees when they use vectors: neighbours, missing links, labels, comparisons, reasons."""

import csv
from pathlib import Path

import torch
from rich.table import Table

from bandana.errors import UserError
from bandana.own.outputs import LABELS, open_output, write_csv
from bandana.terminal.screen import console, status
from bandana.use.classify import classify
from bandana.use.ids import row_of
from bandana.use.links import missing_links
from bandana.use.similar import nearest
from bandana.use.versions import Embedding, compare
from bandana.use.why import explain_link


def show_similar(folder: Path, node: str, count: int) -> None:
    """List the nodes most similar to one."""
    output = open_output(folder)
    row = row_of(output.ids, node)
    found = nearest(output.embedding, torch.tensor([row]), count)
    console.print(f"Most similar to {output.ids[row]}, by the cosine of the vectors:", markup=False)
    table = Table("node", "cosine")
    for other, score in zip(found.rows[0].tolist(), found.scores[0].tolist(), strict=True):
        table.add_row(str(output.ids[other]), f"{score:.3f}")
    console.print(table)


def show_links(folder: Path, top: int, within: int | None, out: Path | None) -> None:
    """List the most likely missing links, or write them to a file."""
    output = open_output(folder)
    found = missing_links(output.graph, output.embedding, top, within=within)
    rows = [
        (output.ids[a], output.ids[b], score)
        for a, b, score in zip(*found.pairs.tolist(), found.scores.tolist(), strict=True)
    ]
    if out is not None:
        write_csv(out, ("source", "target", "score"), rows)
        console.print(f"{len(rows)} links: {out}", markup=False)
        return
    console.print("Most likely missing links. A score is the dot product of two vectors; only the order counts.")
    table = Table("source", "target", "score")
    for source, target, score in rows:
        table.add_row(str(source), str(target), f"{score:.3f}")
    console.print(table)


def classify_and_show(folder: Path, labels: Path, out: Path | None) -> None:
    """Predict the labels of all nodes from those of a few."""
    output = open_output(folder)
    given = _read_labels(labels)
    names = tuple(sorted(set(given.values())))
    numbers = torch.full((len(output.ids),), -1)
    for node, name in given.items():
        numbers[row_of(output.ids, node)] = names.index(name)
    result = classify(output.embedding, numbers, names=names)
    for note in result.notes:
        status.print(note)
    if result.held_out is not None:
        score = result.held_out
        console.print(
            f"On {score.nodes} labelled nodes held out in turn: {score.accuracy:.1%} right at a mean confidence of "
            f"{score.confidence:.1%}; always the most frequent label: {score.majority:.1%}."
        )
    target = out or folder / LABELS
    best = result.probability.max(1).values.tolist()
    rows = [
        (node, names[number], f"{chance:.4f}")
        for node, number, chance in zip(output.ids, result.predicted.tolist(), best, strict=True)
    ]
    write_csv(target, ("id", "label", "probability"), rows)
    console.print(f"Labels of all {len(rows)} nodes: {target}", markup=False)


def show_comparison(before: Path, after: Path, most: int) -> None:
    """Show what moved between two versions of a graph."""
    one, two = open_output(before), open_output(after)
    same_model = one.model_digest() == two.model_digest()
    result = compare(Embedding(one.ids, one.embedding), Embedding(two.ids, two.embedding), same_directions=same_model)
    console.print(
        f"{len(result.ids):,} nodes in both, {len(result.only_before):,} only before, "
        f"{len(result.only_after):,} only after. "
        f"Of a node's nearest, {float(result.turnover.mean()):.0%} changed on average."
    )
    how = "both by one model" if same_model else "after the second was turned onto the first"
    console.print(f"Moved farthest, {how}; 1 is the typical length of a vector:")
    table = Table("node", "shift")
    for place in result.shift.argsort(descending=True)[:most].tolist():
        table.add_row(str(result.ids[place]), f"{float(result.shift[place]):.3f}")
    console.print(table)


def show_why(folder: Path, first: str, second: str) -> None:
    """Show what lies behind the score of a pair."""
    output = open_output(folder)
    model = output.model()
    graph = model.prepare(output.graph)
    a, b = row_of(output.ids, first), row_of(output.ids, second)
    reason = explain_link(model.method, graph, a, b)
    linked = "linked" if reason.linked else "not linked"
    console.print(
        f"{first} and {second} are {linked}; score {reason.score:.3f}, {reason.num_shared} shared neighbours."
    )
    table = Table("shared neighbour", "links", "score without its two links")
    for shared in reason.shared:
        table.add_row(str(output.ids[shared.node]), str(shared.degree), f"{reason.score - shared.effect:.3f}")
    if reason.shared:
        console.print(table)
    for path in reason.paths[:5]:
        console.print(" – ".join(str(output.ids[node]) for node in path))


def _read_labels(path: Path) -> dict[str, str]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise UserError(f"{path}: cannot be read ({problem}). Give a CSV file with the columns id and label.") from None
    if len(rows) < 2 or any(len(row) != 2 for row in rows):
        raise UserError(f"{path}: needs a header and rows of two columns, id and label.")
    return dict(rows[1:])
