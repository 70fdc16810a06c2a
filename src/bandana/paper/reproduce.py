"""Reproduction: what is wanted, what is known of it already, and the rest in a sensible order."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from bandana.data.datasets import find_dataset, load, presence
from bandana.devices import resolve_device, shared_gpu
from bandana.errors import UserError
from bandana.paper.artifact import Artifact, Piece, Result, Scope
from bandana.paper.cache import MISSING, Cache, Entry, content_of
from bandana.paper.costs import Costs, calibrate
from bandana.paper.pieces import config_name, dataset_of, method_of
from bandana.paper.rows import NO_ROWS, Rows, found_in
from bandana.paper.sentences import NO_DATA, NOT_YET, TO_RUN
from bandana.paper.work import perform
from bandana.reporting.record import environment
from bandana.workers import carry_out

KILLED, AS_KILLED = "ended with code -9", "the process was killed, perhaps because the machine had no memory left"
CONFIGS = "configs"
"""Folder beside the tables for the configurations that their cells link to."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a reproduction knows before it begins.

    Attributes:
        artifacts: What is wanted.
        scope: How much of it.
        cache: What was computed before.
        out: Folder that everything is written to.
        rows: Results that came from elsewhere.
        retry_failed: Whether failures count as not done.
    """

    artifacts: Sequence[Artifact]
    scope: Scope
    cache: Cache
    out: Path
    rows: Rows = NO_ROWS
    retry_failed: bool = False


class Item(NamedTuple):
    """A piece that is wanted, with what is known of it."""

    piece: Piece
    key: str
    result: Result
    seconds: float | None
    """What it took, if it was done here."""


Survey = Mapping[str, Sequence[Item]]
"""The pieces of every artifact by its name."""


class Done(NamedTuple):
    """A piece that was just done."""

    piece: Piece
    failure: str
    seconds: float


def survey(plan: Plan) -> dict[str, list[Item]]:
    """Look up every piece that is wanted."""
    known: dict[str, Item] = {}
    found: dict[str, list[Item]] = {}
    for artifact in plan.artifacts:
        found[artifact.name] = []
        for piece in artifact.pieces(plan.scope):
            key = plan.cache.key(piece)
            item = known.get(key) or _look_up(plan, artifact.name, piece, key)
            if item.result.values is not None:  # what is missing names the command of its own artifact
                known[key] = item
            found[artifact.name].append(item)
    return found


def _look_up(plan: Plan, artifact: str, piece: Piece, key: str) -> Item:
    """A result from elsewhere, or one of ours, or a failure from elsewhere, or why there is none."""
    origin = f"{CONFIGS}/{config_name(piece)}"
    elsewhere, entry = found_in(plan.rows, piece), plan.cache.get(key)
    if elsewhere is not None and (elsewhere.values is not None or entry is None):
        return Item(piece, key, elsewhere._replace(origin=origin), None)
    if entry is not None:
        return Item(piece, key, Result(entry.values, entry.failure, origin), entry.seconds)
    dataset = dataset_of(piece)
    if dataset is not None and content_of(dataset, plan.cache.data_root) == MISSING:
        command = f"{command_of(artifact, replace(plan.scope, datasets=(dataset,)))} --data-root FOLDER"
        return Item(piece, key, Result(None, f"{NO_DATA}; with its files: {command}", origin), None)
    command = command_of(artifact, plan.scope)
    return Item(piece, key, Result(None, f"{NOT_YET}{TO_RUN}{command}", origin), None)


def command_of(artifact: str, scope: Scope) -> str:
    """The command that makes an artifact."""
    amount = "--quick" if scope.quick else f"--seeds {scope.seeds}"
    return " ".join(["bandana reproduce", artifact, amount, *_only(scope)])


def refuse_nothing(artifacts: Sequence[Artifact], scope: Scope) -> None:
    """Stop where the data sets and methods that are asked for leave nothing to do of any artifact.

    Raises:
        UserError: They do.
    """
    if any(artifact.pieces(scope) for artifact in artifacts):
        return
    whole = replace(scope, datasets=(), methods=())
    pieces = [piece for artifact in artifacts for piece in artifact.pieces(whole)]
    if not pieces:  # what is read from files alone needs no work
        return
    kinds = {"data sets": map(dataset_of, pieces), "methods": map(method_of, pieces)}
    there = {kind: ", ".join(dict.fromkeys(filter(None, names))) for kind, names in kinds.items()}
    raise UserError(
        f"bandana reproduce {' '.join(artifact.name for artifact in artifacts)}: {' '.join(_only(scope))} leaves "
        f"nothing of it; {'with --quick ' if scope.quick else ''}there are "
        f"{' and '.join(f'the {kind} {names}' for kind, names in there.items() if names)}."
    )


def _only(scope: Scope) -> list[str]:
    """What narrows the scope, as on the command line."""
    options = {"--datasets": scope.datasets, "--methods": scope.methods}
    return [f"{option} {','.join(names)}" for option, names in options.items() if names]


def costs_of(items: Survey, device: str = "cpu") -> Costs:
    """How long pieces take, learnt from those that are done."""
    done = {item.key: item for members in items.values() for item in members if item.seconds is not None}
    timed = ((item.piece, item.seconds) for item in done.values() if item.seconds and item.result.values)
    return calibrate(timed, device)


def open_pieces(items: Survey, *, retry_failed: bool = False) -> list[Piece]:
    """The work that can and must be done, each piece once, in the order in which it is best begun.

    The first seed of everything comes before the second of anything, and the cheap before the dear.
    """
    costs = costs_of(items)
    left = {
        item.key: item.piece
        for members in items.values()
        for item in members
        if is_open(item.result, retry_failed=retry_failed)
    }
    return sorted(left.values(), key=lambda piece: (piece.arguments.get("seed", 0), costs.seconds(piece)))


def is_open(result: Result, *, retry_failed: bool = False) -> bool:
    """Whether a piece with such a result is still to be done."""
    if result.values is not None or result.failure.startswith(NO_DATA):
        return False
    return retry_failed or result.failure.startswith(NOT_YET)


def run_pieces(
    plan: Plan, pieces: Sequence[Piece], *, device: str, jobs: int = 1, budget: float = float("inf")
) -> Iterator[Done]:
    """Do the pieces in processes of their own and remember each as it ends, failures too.

    Args:
        plan: Whose cache remembers them.
        pieces: In the order in which they are begun.
        device: ``auto``, ``cpu`` or ``cuda``.
        jobs: Processes at a time; with several of them, each computes with one thread.
        budget: Seconds after which nothing more is begun.
    """
    facts, threads = environment(), 1 if jobs > 1 else None
    arguments = [(piece, device, plan.cache.data_root, threads) for piece in pieces]
    with shared_gpu(resolve_device(device), jobs):
        for outcome in carry_out(perform_timed, arguments, jobs=jobs, budget=budget):
            piece = outcome.arguments[0]
            values, seconds = outcome.result or (None, 0.0)
            failure = AS_KILLED if KILLED in outcome.failure else outcome.failure
            plan.cache.put(piece, Entry(values, failure, seconds), facts)
            yield Done(piece, failure, seconds)


def perform_timed(
    piece: Piece, device: str, data_root: Path | None, threads: int | None
) -> tuple[Mapping[str, object], float]:
    """What a process is asked for: the values of a piece, and the seconds it took."""
    started = time.perf_counter()
    values = perform(piece, device, data_root, threads)
    return values, time.perf_counter() - started


def fetch_missing(plan: Plan) -> list[str]:
    """Try once to download every data set that is wanted and not here; gives the names of those that cannot be had."""
    wanted = {dataset_of(piece) for artifact in plan.artifacts for piece in artifact.pieces(plan.scope)}
    root = plan.cache.data_root
    absent = []
    for name in sorted(filter(None, wanted)):
        if presence(find_dataset(name), root) == "not here":
            try:
                load(name, root)
            except UserError:
                absent.append(name)
    return absent
