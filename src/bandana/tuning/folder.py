"""What a search leaves behind: one folder with everything that was tried, in which the same search can go on.

``search.json`` is the whole truth, replaced after every trial. ``trials.csv`` and ``recipe.toml`` are drawn from it.
"""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from bandana.config import read_toml, to_toml
from bandana.errors import UserError
from bandana.files import refuse_foreign, write_text
from bandana.reporting.record import environment
from bandana.tuning.trials import Trial, ranked, winner_of

SEARCH, TRIALS, RECIPE = "search.json", "trials.csv", "recipe.toml"


@dataclass(frozen=True)
class SearchFolder:
    """A folder for one search, which may stop at any moment.

    Attributes:
        path: The folder.
        search: What the search is: all that decides its trials, as JSON can hold it.
    """

    path: Path
    search: Mapping[str, Any]

    def trials(self) -> list[Trial]:
        """The trials made here so far.

        Raises:
            UserError: The folder holds another search, or one that cannot be read.
        """
        file = self.path / SEARCH
        refuse_foreign(self.path, SEARCH)
        if not file.exists():
            return []
        held, wanted = _read(file)["search"], json.loads(json.dumps(self.search))
        if held != wanted:
            what = ", ".join(sorted(key for key in {*held, *wanted} if held.get(key) != wanted.get(key)))
            raise UserError(f"{file}: holds a search with another {what}. Choose another folder with --out.")
        return read_trials(file)

    def keep(self, trials: Sequence[Trial], budget: Mapping[str, Any], importance: Mapping[str, float]) -> None:
        """Write everything that is known after a trial."""
        record = {
            "search": self.search,
            "budget": budget,
            "best": winner_of(trials).number,
            "importance": importance,
            "environment": environment(),
            "trials": [asdict(trial) for trial in trials],
        }
        write_text(self.path / SEARCH, json.dumps(record, indent=1) + "\n")
        write_text(self.path / TRIALS, trials_csv(trials))

    def write_recipe(self, text: str) -> None:
        """Write the winner in the form of a recipe."""
        write_text(self.path / RECIPE, text)


def trials_csv(trials: Sequence[Trial]) -> str:
    """One row per trial: number, place by score, mean score, score of each seed, seconds, failure, options, fresh."""
    places = {trial.number: place for place, trial in enumerate(ranked(trials), start=1)}
    options = list(trials[0].values)
    num_seeds = max(len(trial.scores) for trial in trials)
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    seeds = [f"score_{place}" for place in range(num_seeds)]
    writer.writerow(["trial", "place", "score", *seeds, "seconds", "failure", *options, "fresh"])
    for trial in trials:
        scores = [*trial.scores, *[""] * (num_seeds - len(trial.scores))]
        score = "" if trial.score is None else trial.score
        values = [trial.values[option] for option in options]
        place = places.get(trial.number, "")
        fresh = " ".join(map(str, trial.fresh))
        writer.writerow([trial.number, place, score, *scores, f"{trial.seconds:.2f}", trial.failure, *values, fresh])
    return text.getvalue()


def recipe_text(task: str, dataset: str, values: Mapping[str, Any], source: str) -> str:
    """One cell of a recipe book, every value with the same source."""
    name = f"{task}_{dataset}"
    return _book({name: source}, {f"{task}.{dataset}": {option: [value, name] for option, value in values.items()}})


def merged(recipes: Iterable[Path]) -> str:
    """One book with the cells of several recipes that searches wrote."""
    sources: dict[str, str] = {}
    cells: dict[str, dict[str, Any]] = {}
    for path in recipes:
        table = read_toml(path)
        sources |= table.pop("sources")
        cells |= {f"{task}.{dataset}": rows for task, found in table.items() for dataset, rows in found.items()}
    return _book(sources, cells)


def _book(sources: Mapping[str, str], cells: Mapping[str, Mapping[str, Any]]) -> str:
    quoted = {cell: {f'"{option}"': entry for option, entry in rows.items()} for cell, rows in cells.items()}
    return to_toml({"sources": sources, **quoted})


def read_trials(file: Path) -> list[Trial]:
    """The trials of a ``search.json``.

    Raises:
        UserError: It cannot be read.
    """
    table = _read(file)
    try:
        rows = ({**row, **{key: tuple(row.get(key, ())) for key in ("scores", "fresh")}} for row in table["trials"])
        return [Trial(**row) for row in rows]
    except (KeyError, TypeError) as problem:
        raise _unreadable(file, problem) from None


def _read(file: Path) -> dict[str, Any]:
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise _unreadable(file, problem) from None
    if not isinstance(table, dict) or not isinstance(table.get("search"), dict):
        raise _unreadable(file, "it describes no search")
    return table


def _unreadable(file: Path, problem: object) -> UserError:
    return UserError(f"{file}: not a readable search ({problem}). Delete it, or choose another folder with --out.")
