"""What a person sees while their own graph becomes vectors, or while new nodes and links come to it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from bandana.config import parse_assignment
from bandana.data.columns import Header
from bandana.data.own_additions import read_addition
from bandana.data.own_features import Missing
from bandana.data.tables import OwnGraph, read_graph
from bandana.devices import resolve_device
from bandana.errors import UserError, did_you_mean
from bandana.estimator import Learned
from bandana.evaluation.verdicts import Tone, Verdict
from bandana.files import alone
from bandana.own import unfinished
from bandana.own.automatic import Choice, choose
from bandana.own.embed import judged, learn_own, write_embedded
from bandana.own.follow import check_not_parent, follow, open_parent, write_followed
from bandana.own.outputs import CHANGES, EMBEDDINGS, REPORT, check_formats, check_inputs_stay, check_place
from bandana.registry import get_method
from bandana.reporting.html import TONE_WORDS
from bandana.terminal.screen import console, progress_bars, said, say_if_stopped_early, status

_STYLES: dict[Tone, str] = {"good": "green", "fair": "yellow", "poor": "red", "note": "blue"}


class Input(NamedTuple):
    """The files of a graph, and how to read them."""

    edges: Path
    features: Path | None
    labels: Path | None
    columns: dict[str, str | None]
    directed: bool
    missing: str
    header: str


class Wishes(NamedTuple):
    """What is asked of a training; None, nothing and 0 leave it to the graph."""

    method: str | None
    dimensions: int | None
    epochs: int | None
    assignments: Sequence[str]
    trials: int


def embed_and_show(given: Input, wishes: Wishes, seed: int, device: str, out: Path, formats: Sequence[str]) -> None:
    """Read, choose, learn, judge, write, and say where everything is."""
    check_inputs_stay(out, (given.edges, given.features, given.labels))
    check_place(out)
    check_formats(formats, None, out)
    if wishes.trials and wishes.method:
        _check_tunable(wishes.method)
    unfinished.put_back(out)
    missing = _treatment(given.missing)
    own = read_graph(
        given.edges,
        features=given.features,
        labels=given.labels,
        directed=given.directed,
        missing=missing,
        header=_header(given.header),
        **given.columns,
    )
    for note in own.notes:
        said(status, note, style="dim")
    check_formats(formats, own.graph.node_ids, out)
    changes = dict(map(parse_assignment, wishes.assignments))
    choice = choose(
        own.graph,
        method=wishes.method,
        device=device,
        dimensions=wishes.dimensions,
        epochs=wishes.epochs,
        changes=changes,
        timed=own.timed,
    )
    cost = choice.estimate
    each = f" for each of {wishes.trials} trials and once more" if wishes.trials else ""
    seconds = f"{_duration(cost.seconds)} of training{each}"
    _say(*choice.reasons, f"Estimate: about {seconds}, and {cost.bytes / 1e9:.1f} GB.")
    search: list[dict[str, float]] = []
    with alone(out):
        if wishes.trials:
            asked = {*changes, *(["training.epochs"] if wishes.epochs else [])}
            choice = _tuned(own, choice, wishes.trials, asked, seed, device, search)
        learned = _learned(own, choice, seed, device, given.edges.name, out)
        _stage("Judging the vectors")
        done = judged(own, choice, learned, seed=seed)
        _stage("Writing")
        write_embedded(out, done, given.edges.name, formats=formats, search=search)
    _conclude(done.verdicts, out)


def _learned(own: OwnGraph, choice: Choice, seed: int, device: str, name: str, out: Path) -> Learned:
    """Train under a live bar, going on from where the same training was cut off before."""
    kind = resolve_device(device).type
    digest = unfinished.training_digest(own.graph, choice, seed=seed, device=kind, times=own.times)
    checkpoint = unfinished.checkpoint_path(out, digest)
    unfinished.keep_only(checkpoint)
    if done := unfinished.epochs_done(checkpoint):
        _say(f"Going on after epoch {done:,} of {choice.training.epochs:,}, where this training was cut off.")
    with progress_bars(choice.training.epochs) as bar:
        learned = learn_own(own, choice, seed=seed, device=device, on_epoch=bar(name), checkpoint=checkpoint)
    say_if_stopped_early(name, learned.state.epoch, learned.state.progress.best_epoch, choice.training)
    return learned


def follow_and_show(
    model: Path, given: Input, wishes: Wishes, seed: int, device: str, out: Path, formats: Sequence[str]
) -> None:
    """Bring new nodes and links to a graph that has vectors, and say which rows changed."""
    _refuse_training_options(given, wishes)
    check_inputs_stay(out, (given.edges, given.features))
    check_place(out)
    check_formats(formats, None, out)
    unfinished.put_back(out)
    parent = open_parent(model)
    check_not_parent(out, parent)
    if given.directed and not parent.graph.directed:
        raise UserError(f"--directed: the links of {parent.folder} have no directions; leave the option out.")
    names = parent.model().feature_names
    header = _header(given.header)
    addition = read_addition(given.edges, given.features, parent.graph, names, given.columns, header)
    for note in addition.notes:
        said(status, note, style="dim")
    with alone(out):
        _stage("Recomputing what the new links reach")
        done = follow(parent, addition, seed=seed, device=device)
        check_formats(formats, done.own.graph.node_ids, out)
        _stage("Writing")
        write_followed(out, done, given.edges.name, formats=formats)
    changes = done.changes
    said(
        console,
        f"New nodes: {changes.new.numel():,}. Others with another vector than before: {changes.moved.numel():,}. As "
        f"before: {changes.unchanged:,}. The list: {out / CHANGES}",
    )
    _conclude((), out)


def _refuse_training_options(given: Input, wishes: Wishes) -> None:
    asked = {
        "--labels": given.labels is not None,
        "--time-column": given.columns["time"] is not None,
        "--missing": given.missing != "refuse",
        "--method": wishes.method is not None,
        "--dimensions": wishes.dimensions is not None,
        "--epochs": wishes.epochs is not None,
        "--set": bool(wishes.assignments),
        "--tune": bool(wishes.trials),
    }
    for option, is_given in asked.items():
        if is_given:
            raise UserError(
                f"{option}: belongs to a training, and --model takes vectors from one that is done; leave it out, or "
                f"leave out --model to train anew."
            )


def _check_tunable(method: str) -> None:
    """Make sure, before any work is done, that a search has something to search.

    Raises:
        UserError: There is no such method, or it has nothing to tune.
    """
    from bandana.tuning.space import default_space

    get_method(method)
    default_space(method, "own")


def _tuned(
    own: OwnGraph,
    choice: Choice,
    trials: int,
    asked: set[str],
    seed: int,
    device: str,
    search: list[dict[str, float]],
) -> Choice:
    """The best choice of a search that leaves alone what was asked for; `search` takes down how it went."""
    from bandana.own.tuning import tune_own

    with _counting("trials", trials) as advance:

        def on_trial(made: int, best: float) -> None:
            search.append({"trials": made, "best_validation_auc": best})
            advance()

        found = tune_own(own, choice, trials=trials, seed=seed, device=device, on_trial=on_trial, fixed=asked)
    _say(*(reason for reason in found.reasons if reason not in choice.reasons))
    return found


@contextmanager
def _counting(name: str, total: int) -> Iterator[Callable[[], None]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    with Progress(*columns, console=status) as progress:
        bar = progress.add_task(name, total=total)
        yield lambda: progress.advance(bar)


def _conclude(verdicts: Sequence[Verdict], out: Path) -> None:
    for verdict in verdicts:
        console.print(Text(TONE_WORDS[verdict.tone], _STYLES[verdict.tone]).append(f" • {verdict}", "default"))
    said(console, f"Vectors: {out / EMBEDDINGS}   Report: {out / REPORT}", highlight=False)


def _say(*sentences: str) -> None:
    for sentence in sentences:
        said(status, sentence)


def _stage(name: str) -> None:
    said(status, f"{name} …", style="dim")


def _treatment(missing: str) -> Missing:
    match missing:
        case "refuse" | "impute":
            return missing
    raise UserError(f"--missing: {missing!r} is not a choice. {did_you_mean(missing, ('refuse', 'impute'))}")


def _header(word: str) -> Header:
    match word:
        case "guess" | "yes" | "no":
            return word
    raise UserError(f"--header: {word!r} is not a choice. {did_you_mean(word, ('guess', 'yes', 'no'))}")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
