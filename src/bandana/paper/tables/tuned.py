"""Not in the paper: Bandana with settings that were searched on validation data, against the best that is published.

Both recipes, the paper's and the tuned one, are held against the published figure of Bandana, and then against the best
published figure of any method on the same data set and task.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from bandana.config import to_table
from bandana.experiment import Experiment, Task
from bandana.paper.artifact import Artifact, Cell, Piece, Result, Scope, Sheet
from bandana.paper.cookbook import has_cell, recipe
from bandana.paper.grid import Reading, Results, absence_notes, make_cell, of_training, percent
from bandana.paper.names import called
from bandana.paper.pieces import COARSE, SMALL, TRAINING, chosen, datasets_of, seeds_of, training
from bandana.paper.published import Printed, printed
from bandana.paper.tables.link_prediction import DATASETS, LOGITS, SIGMOID
from bandana.paper.tables.node_classification import JOINT
from bandana.reporting.compare import Over, chance_note

METHOD, BOOK = "bandana", "tuned"
TASKS: Sequence[Task] = ("node", "link")
PAPER, TUNED = "recipe of the paper", "bandana-tuned"
BEST = "against the best method"
PRINTED_DIGITS = 2


class Question(NamedTuple):
    """How a task is judged.

    Attributes:
        task: What is predicted.
        title: Of the table.
        metric: What ours are read from.
        printed: The published metric.
        protocol: How ours come about.
        over: What the published deviations run over.
        notes: What else a reader must know.
        rescored: Whether the table before scores the same trainings otherwise.
    """

    task: Task
    title: str
    metric: str
    printed: str
    protocol: str
    over: Over
    notes: tuple[str, ...] = ()
    rescored: bool = False


CHOSEN_ON_LOGITS = "The trainings of the table above: weights were chosen on logits, published ones after the sigmoid."
BOTH = "by Bandana's two recipes"
QUESTIONS = (
    Question("node", f"Micro-F1 (%) of node classification {BOTH}", "micro_f1", "micro_f1", JOINT, "probes"),
    Question("link", f"AUC (%) of link prediction {BOTH}, on logits", "auc", "auc", LOGITS, "seeds"),
    Question(
        task="link",
        title=f"AUC (%) of link prediction {BOTH}, after a float32 sigmoid",
        metric="auc_sigmoid32",
        printed="auc",
        protocol=SIGMOID,
        over="seeds",
        notes=(CHOSEN_ON_LOGITS,),
        rescored=True,
    ),
)


def pieces(scope: Scope) -> Sequence[Piece]:
    """Trainings by both recipes; those of the paper's recipe are the ones of the large tables."""
    experiments = [
        experiment
        for task in TASKS
        for dataset in datasets_of(scope, DATASETS)
        for experiment in experiments_of(dataset, task).values()
        if chosen([METHOD], scope.methods)
    ]
    return [training(experiment, seed) for seed in seeds_of(scope) for experiment in experiments]


def show(results: Results) -> Sequence[Sheet]:
    """Nodes, links, and links ranked as the published figures are."""
    asked = [question for question in QUESTIONS if any(_is_of(piece, question.task) for piece, _ in results)]
    return [_sheet(results, question) for question in asked]


@cache
def experiments_of(dataset: str, task: Task) -> Mapping[str, Experiment]:
    """The recipes that a cell has, by name."""
    changes = COARSE if dataset == SMALL else {}
    books = {PAPER: None, **({TUNED: BOOK} if has_cell(METHOD, dataset, task, BOOK) else {})}
    return {name: recipe(METHOD, dataset, task, changes, book=book) for name, book in books.items()}


def best_published(metric: str) -> dict[str, tuple[str, Printed]]:
    """For every data set, the method with the highest published figure, and that figure."""
    best: dict[str, tuple[str, Printed]] = {}
    for (method, dataset), cell in printed(metric).items():
        rival = best[dataset][1].score if dataset in best else None
        if cell.score is not None and (rival is None or cell.score.mean > rival.mean):
            best[dataset] = method, cell
    return best


def _sheet(results: Results, question: Question) -> Sheet:
    task, best, own = question.task, best_published(question.printed), printed(question.printed)
    names = tuple(dict.fromkeys(p.arguments["experiment"]["dataset"] for p, _ in results if _is_of(p, task)))
    against = {
        **{name: {dataset: own.get((METHOD, dataset)) for dataset in names} for name in (PAPER, TUNED)},
        **{f"{name}, {BEST}": {dataset: _named(best.get(dataset)) for dataset in names} for name in (PAPER, TUNED)},
    }
    reading = Reading(of_training(), percent("metrics", question.metric), question.protocol, question.over)
    lines = {
        row: [
            make_cell((row, dataset), _members(results, dataset, task, row.partition(",")[0]), reading, rivals[dataset])
            for dataset in names
        ]
        for row, rivals in against.items()
    }
    cells = [cell for line in lines.values() for cell in line]
    tested = {row: line for row, line in lines.items() if any(cell.published for cell in line)}
    return Sheet(
        title=question.title,
        rows=tuple(lines),
        columns=names,
        cells=tuple(cells),
        notes=(
            *question.notes,
            *(standing_note(row, line) for row, line in tested.items()),
            *_best_note(names, best),
            *_copies_note(names, task),
            *(f"{row}: {chance_note(line, published_over=question.over)}" for row, line in tested.items()),
            *absence_notes(cells),
        ),
        rescored=question.rescored,
    )


def standing_note(row: str, cells: Sequence[Cell]) -> str:
    """Which data sets reach the published figure by their means, which do not, and what the test says of each.

    Ours are rounded to the digits that are printed: what differs behind them is level.
    """
    rival = "the best published figure of any method" if row.endswith(BEST) else "the published figure of Bandana"
    both = [(cell, cell.ours, cell.published) for cell in cells if cell.ours and cell.published]
    pairs = [(cell, round(ours.mean, PRINTED_DIGITS) - theirs.mean) for cell, ours, theirs in both]
    above = [_spoken(cell) for cell, difference in pairs if difference > 0]
    level = [_spoken(cell) for cell, difference in pairs if difference == 0]
    below = [_spoken(cell) for cell, difference in pairs if difference < 0]
    without = [called(cell.column) for cell in cells if cell.ours is None]
    parts = (("above", above), ("level", level), ("below", below), ("no figure", without))
    words = "; ".join(f"{name}: {', '.join(names)}" for name, names in parts if names)
    reached = len(above) + len(level)
    return f"{row.partition(',')[0]}: {reached} of {len(cells)} means reach {rival}, {len(above)} pass it ({words})."


def _copies_note(names: Sequence[str], task: Task) -> tuple[str, ...]:
    """Where several encoders stand against the one of the published figure."""
    tuned = ((name, experiments_of(name, task).get(TUNED)) for name in names)
    several = [f"{called(name)} {experiment.copies}" for name, experiment in tuned if experiment and experiment.copies]
    return (f"{TUNED}: encoders side by side, where not one: {', '.join(several)}.",) if several else ()


def _spoken(cell: Cell) -> str:
    words = {"same": "no difference shown", "undecided": "no difference shown"}
    words |= {state: f"{state} by the test" for state in ("higher", "lower")}
    return f"{called(cell.column)} ({words.get(cell.state, cell.state)})"


def _members(results: Results, dataset: str, task: Task, name: str) -> Results:
    """The trainings by a recipe, or in their place why there can be none."""
    experiment = experiments_of(dataset, task).get(name)
    if experiment is None:
        command = f"bandana tune {METHOD} {dataset} --task {task}"
        failure = f"not run: there is no tuned recipe for {dataset}, task {task}; to make one: {command}"
        return [(Piece(TRAINING, {}), Result(None, failure))]
    table = to_table(experiment)
    return [(piece, result) for piece, result in results if piece.arguments["experiment"] == table]


def _named(best: tuple[str, Printed] | None) -> Printed | None:
    if best is None:
        return None
    method, cell = best
    return cell._replace(note=f"The best published figure is that of {called(method)}. {cell.note}".rstrip())


def _best_note(names: Sequence[str], best: Mapping[str, tuple[str, Printed]]) -> list[str]:
    known = {name: (best[name][0], best[name][1].score) for name in names if name in best}
    words = [f"{called(name)} {score.mean:.2f} ({called(method)})" for name, (method, score) in known.items() if score]
    return [f"The best published figures of any method: {', '.join(words)}."] if words else []


def _is_of(piece: Piece, task: Task) -> bool:
    table: Mapping[str, Any] = piece.arguments["experiment"]
    return bool(table["task"] == task)


ARTIFACT = Artifact(
    name="tuned",
    kind="table",
    title="Beyond the paper: Bandana with tuned settings on seven data sets",
    pieces=pieces,
    show=show,
)
