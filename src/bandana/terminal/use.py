"""What a person sees when they use vectors: neighbours, missing links, labels, comparisons, reasons.

Ids, labels and paths are somebody else's words: they are printed as they are, whatever brackets stand in them.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from rich.table import Column, Table
from rich.text import Text

from bandana.errors import UserError
from bandana.evaluation.wording import how_many
from bandana.files import check_writable
from bandana.own.outputs import (
    LABELS,
    READ_AGAIN,
    TABLES,
    Output,
    check_inputs_stay,
    open_output,
    open_vectors,
    write_csv,
)
from bandana.terminal.screen import console, said, status
from bandana.use.classify import classify
from bandana.use.ids import row_of
from bandana.use.labels import read_labels
from bandana.use.links import missing_links
from bandana.use.similar import nearest
from bandana.use.versions import QUANTILE, Comparison, Embedding, compare, same_graph
from bandana.use.why import Explanation, explain_link

PATHS_SHOWN = 5


def show_similar(folder: Path, node: str, count: int) -> None:
    """List the nodes most similar to one."""
    ids, vectors = open_vectors(folder)
    row = row_of(ids, node)
    found = nearest(vectors, torch.tensor([row]), count)
    _say(f"Most similar to {ids[row]}, by the cosine of the vectors:")
    scored = zip(found.rows[0].tolist(), found.scores[0].tolist(), strict=True)
    _show_table(("node", "cosine"), [(ids[other], f"{score:.3f}") for other, score in scored])


def show_links(folder: Path, top: int, within: int | None, out: Path | None) -> None:
    """List the most likely missing links, or write them to a file."""
    if out is not None:
        check_inputs_stay(out, _read_from(folder))
    output = open_output(folder)
    if out is not None:
        _check_file(out)
    found = missing_links(output.graph, output.embedding, top, within=within)
    rows = [
        (output.ids[a], output.ids[b], score)
        for a, b, score in zip(*found.pairs.tolist(), found.scores.tolist(), strict=True)
    ]
    if output.graph.directed:
        _say("Scores have no direction: a pair is listed once, and left out if it is linked either way.")
    if out is not None:
        write_csv(out, ("source", "target", "score"), rows)
        _say(f"{how_many(len(rows), 'link')}: {out}")
        return
    _say("Most likely missing links. A score is the dot product of two vectors; only the order counts.")
    _show_table(("source", "target", "score"), [(source, target, f"{score:.3f}") for source, target, score in rows])


def classify_and_show(folder: Path, labels: Path, out: Path | None) -> None:
    """Predict the labels of all nodes from those of a few."""
    target = out or folder / LABELS
    check_inputs_stay(target, [labels, *_read_from(folder)])
    ids, vectors = open_vectors(folder)
    _check_file(target)
    given = read_labels(labels, ids)
    for note in given.notes:
        said(status, note, style="dim")
    result = classify(vectors, given.numbers, names=given.names)
    for note in result.notes:
        said(status, note)
    if result.held_out is not None:
        score = result.held_out
        _say(
            f"On {score.nodes} labelled nodes held out in turn: {score.accuracy:.1%} right at a mean confidence of "
            f"{score.confidence:.1%}; always the most frequent label: {score.majority:.1%}."
        )
    best = result.probability.max(1).values.tolist()
    rows = [
        (node, given.names[number], f"{chance:.4f}")
        for node, number, chance in zip(ids, result.predicted.tolist(), best, strict=True)
    ]
    write_csv(target, TABLES[LABELS], rows)
    _say(f"Labels of all {len(rows)} nodes: {target}")


def _check_file(target: Path) -> None:
    """Make sure, before any work is done, that a file can be written.

    Raises:
        UserError: It cannot.
    """
    check_writable(target)
    if target.is_dir():
        raise UserError(f"{target}: is a folder, and a file is to be written; name one with -o.")


def _read_from(folder: Path) -> list[Path]:
    return [folder / name for name in READ_AGAIN]


def show_comparison(before: Path, after: Path, most: int, reseeded: Sequence[Path] = ()) -> None:
    """Show what moved between two versions of a graph, and whether by more than other seeds move it."""
    one, two = open_output(before), open_output(after)
    seeds = [_other_seed(one, folder) for folder in reseeded]
    same_model = one.model_digest() == two.model_digest()
    result = compare(_embedding(one), _embedding(two), reseeded=seeds, same_directions=same_model)
    _say(
        f"{len(result.ids):,} nodes in both, {len(result.only_before):,} only before, "
        f"{len(result.only_after):,} only after. "
        f"Of a node's nearest, {float(result.turnover.mean()):.0%} changed on average."
    )
    how = "both by one model" if same_model else "after the second was turned onto the first"
    _say_seed_noise(result, before, same_model)
    _say(f"Moved farthest, {how}; 1 is the typical length of a vector:")
    farthest = result.shift.argsort(descending=True)[:most].tolist()
    _show_table(("node", "shift"), [(result.ids[place], f"{float(result.shift[place]):.3f}") for place in farthest])


def _embedding(output: Output) -> Embedding:
    return Embedding(output.ids, output.embedding)


def _other_seed(one: Output, folder: Path) -> Embedding:
    other = open_output(folder)
    if not same_graph(one.graph, other.graph):
        raise UserError(
            f"--reseeded: {folder} has other nodes or links than {one.folder}, and seeds are compared on one graph; "
            f"embed the files of {one.folder} with another --seed."
        )
    if other.model_digest() == one.model_digest():
        raise UserError(
            f"--reseeded: {folder} holds the very model of {one.folder}, which shows no noise; embed the same files "
            f"with another --seed."
        )
    return _embedding(other)


def _say_seed_noise(result: Comparison, before: Path, same_model: bool) -> None:
    if result.noise is not None and result.moved is not None:
        _say(
            f"Other seeds on the first graph: {QUANTILE:.0%} of their shifts are up to {result.noise.threshold:.3f}, "
            f"and {result.noise.turnover:.0%} of a node's nearest change. Moved beyond that: {len(result.moved):,} of "
            f"{len(result.ids):,} nodes (by chance about {(1 - QUANTILE) * len(result.ids):,.0f})."
        )
    elif same_model:
        _say("No seed lies between them, so every shift comes from the graph.")
    else:
        other = f"{before}-reseeded"
        _say(
            f"Shifts are not set against seed noise: repeat the bandana embed that made {before} with another --seed "
            f"and -o {other}, and add --reseeded {other} here."
        )


def show_why(folder: Path, first: str, second: str) -> None:
    """Show what lies behind the score of a pair."""
    output = open_output(folder)
    a, b = row_of(output.ids, first), row_of(output.ids, second)
    if a == b:
        raise UserError(f"--link: {first!r} is named twice, and two different ids are needed; name another node.")
    model = output.model()
    reason = explain_link(model.method, model.prepare(output.graph), a, b)
    other_way = f"linked the other way, from {second} to {first}"
    linked = "linked" if reason.linked else other_way if reason.linked_back else "not linked"
    shared = how_many(reason.num_shared, "shared neighbour")
    _say(f"{first} and {second} are {linked}; score {reason.score:.3f}, {shared}.")
    if reason.score_without_link is not None:
        _say(f"Score without their link: {reason.score_without_link:.3f}.")
    _show_shared(reason, output)
    _show_paths(reason, output)
    if reason.distance is None:
        _say(f"No path of up to three steps leads from {first} to {second}.")


def _show_shared(reason: Explanation, output: Output) -> None:
    if reason.score_without_shared is None:
        return
    rows = [
        (output.ids[shared.node], str(shared.degree), f"{reason.score - shared.effect:.3f}") for shared in reason.shared
    ]
    _show_table(("shared neighbour", "links", "score without its two links"), rows)
    whose = "of all of them" if len(rows) == reason.num_shared else f"of these {len(rows)}, the least busy,"
    _say(f"Score without the links {whose} to the two: {reason.score_without_shared:.3f}.")


def _show_paths(reason: Explanation, output: Output) -> None:
    if not reason.num_paths:
        return
    shown = reason.paths[:PATHS_SHOWN]
    which = "" if len(shown) == reason.num_paths else f", {len(shown)} of them through the least busy nodes"
    _say(f"Paths of three steps ({reason.num_paths:,}){which}:")
    for path in shown:
        _say(" – ".join(str(output.ids[node]) for node in path))


def _say(sentence: str) -> None:
    said(console, sentence)


def _show_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    table = Table(*(Column(name, overflow="fold") for name in header))
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    console.print(table)
