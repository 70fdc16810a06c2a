"""What of a long work is done already, kept on disk, so that the same command goes on where it was interrupted."""

import json
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from bandana.errors import UserError
from bandana.files import write_text

JOURNAL, REPLACED = "journal.json", "replaced"


class Journal:
    """Finished stages of a work in the order they were done, each with what decided it and the facts for later ones.

    A stage counts as done as long as it and all before it are asked for again with the same decisions. From the first
    one on that is not, everything is done anew, and nothing of what it made before is left.
    """

    def __init__(self, folder: Path) -> None:
        """Open the journal of a working folder, which is made if need be."""
        self.folder, self._path, self._reached = folder, folder / JOURNAL, 0
        folder.mkdir(parents=True, exist_ok=True)
        self._stages = _read(self._path)

    def once(
        self, stage: str, decided_by: Mapping[str, Any], work: Callable[[], dict[str, Any]], *made: Path
    ) -> dict[str, Any]:
        """The facts of a stage, from the journal if it was finished before and the files that it made are still there.

        They are not where an earlier attempt was interrupted behind its end, while it moved them out or cleaned up.

        Args:
            stage: Its name.
            decided_by: Everything that decides its result beside the stages before it, as JSON can hold it.
            work: Does it.
            made: The files that it leaves.
        """
        asked = {"stage": stage, "decided_by": json.loads(json.dumps(decided_by))}
        known = self._stages[self._reached] if self._reached < len(self._stages) else {}
        if not asked.items() <= known.items() or not all(path.exists() for path in made):
            self._forget_the_rest()
            files = [str(path.relative_to(self.folder)) for path in made]
            self._stages.append({**asked, "facts": work(), "made": files})
            write_text(self._path, json.dumps(self._stages))
        facts: dict[str, Any] = self._stages[self._reached]["facts"]
        self._reached += 1
        return facts

    def given_up(self, problem: UserError) -> UserError:
        """What is said of a mistake. Finished stages stay for a corrected command; where none is, nothing is left."""
        if self._stages:
            return UserError(f"{problem} What was done until then is kept in {self.folder} for the next attempt.")
        shutil.rmtree(self.folder, ignore_errors=True)
        return problem

    def _forget_the_rest(self) -> None:
        """Begin anew from here: with the stages done so far and the files that they made, and no others."""
        self._stages = self._stages[: self._reached]
        kept = {self._path, *(self.folder / name for stage in self._stages for name in stage["made"])}
        write_text(self._path, json.dumps(self._stages))
        for path in self.folder.rglob("*"):
            if path.is_file() and path not in kept:
                path.unlink()


def move_into_place(finished: Path, target: Path, force: bool, ours: Collection[str]) -> None:
    """Give a finished folder its name. What had the name before goes beside it only now, and only by force.

    Raises:
        UserError: The name is taken, see `refuse_taken`.
    """
    refuse_taken(target, force, ours)
    replaced = finished.parent / REPLACED
    if target.exists():
        shutil.rmtree(replaced, ignore_errors=True)  # left by an attempt that was interrupted here
        target.replace(replaced)
    finished.replace(target)


def put_back(work: Path, target: Path) -> None:
    """Undo half an exchange: killed between the two moves, a process leaves the earlier folder beside its place."""
    if (work / REPLACED).is_dir() and not target.exists():
        (work / REPLACED).replace(target)


def clean_up(work: Path, target: Path) -> None:
    """Remove a working folder whose result stands in its place.

    Raises:
        UserError: It was interrupted, so that some of the folder is left; the result is whole all the same.
    """
    try:
        shutil.rmtree(work)
    except KeyboardInterrupt:
        raise UserError(f"{target}: is finished, but cleaning up was interrupted; delete {work} yourself.") from None


def refuse_taken(target: Path, force: bool, ours: Collection[str]) -> None:
    """Say so if something is there already that must not be overwritten.

    Args:
        target: What is to be written.
        force: Whether an earlier result may be replaced.
        ours: Names of the files that such a result may hold; with anything else in it, a folder is somebody's own.

    Raises:
        UserError: It is there, and may not be replaced.
    """
    held = {path.name for path in target.iterdir()} if target.is_dir() else {target.name} if target.exists() else set()
    if not held:
        return
    if not force:
        raise UserError(f"{target}: exists; choose another name, or overwrite it with --force.")
    strange = sorted(held - set(ours))
    if strange or not target.is_dir():
        place = target / strange[0] if target.is_dir() else target
        raise UserError(
            f"{place}: was not written by this command, and --force would delete it; move it away, or choose another "
            f"name."
        )


def _read(path: Path) -> list[dict[str, Any]]:
    """The stages; none where there is no journal, or none that can be read."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return table if isinstance(table, list) and all(isinstance(stage, dict) for stage in table) else []
