"""How far the reproduction of an artifact has come."""

from collections.abc import Sequence
from typing import NamedTuple

from bandana.paper.artifact import Artifact
from bandana.paper.costs import Costs
from bandana.paper.pieces import dataset_of
from bandana.paper.reproduce import Item, is_open
from bandana.paper.sentences import NO_DATA


class Standing(NamedTuple):
    """One line of the list.

    Attributes:
        name: Of the artifact.
        kind: Table, figure or check.
        title: What it is.
        printed: Where the paper has it; empty if nowhere.
        pieces: The work behind it, in pieces.
        done: How many of them have values.
        seconds_left: What those that can still be done would take.
        state: In words.
    """

    name: str
    kind: str
    title: str
    printed: str
    pieces: int
    done: int
    seconds_left: float
    state: str


def standing_of(artifact: Artifact, items: Sequence[Item], costs: Costs, jobs: int = 1) -> Standing:
    """Count what is known of an artifact's pieces."""
    done = sum(item.result.values is not None for item in items)
    left = sum(costs.seconds(item.piece) for item in items if is_open(item.result))
    what = artifact.name, artifact.kind, artifact.title, artifact.printed
    return Standing(*what, len(items), done, left / jobs, _state(items, done))


def _state(items: Sequence[Item], done: int) -> str:
    missing = sorted({dataset_of(item.piece) or "" for item in items if item.result.failure.startswith(NO_DATA)})
    failed = [item for item in items if item.result.failure and not item.result.failure.startswith("not run")]
    waiting = any(is_open(item.result) for item in items)
    progress = (
        "nothing to run" if not items else ("begun" if done else "not begun") if waiting else "done" if done else ""
    )
    words = [progress, f"{len(failed)} failed" if failed else "", f"no data: {', '.join(missing)}" if missing else ""]
    return "; ".join(filter(None, words))
