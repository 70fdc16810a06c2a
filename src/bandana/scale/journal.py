"""What of a long work is done already, kept on disk, so that the same command goes on where it was interrupted."""

import json
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from bandana.errors import UserError
from bandana.files import write_text

JOURNAL = "journal.json"


class Journal:
    """Finished stages of a work, each with the facts that later ones need."""

    def __init__(self, folder: Path, plan: Mapping[str, Any]) -> None:
        """Open the journal of a working folder; a folder of another plan is emptied.

        Args:
            folder: Where the work is done; made if need be.
            plan: Everything that decides the result, as JSON can hold it.
        """
        self.folder, self._path = folder, folder / JOURNAL
        self._table: dict[str, Any] = {"plan": dict(plan), "done": {}}
        found = _read(self._path)
        if found is not None and found.get("plan") == self._table["plan"]:
            self._table = found
        else:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            self._write()

    def once(self, stage: str, work: Callable[[], dict[str, Any]], *made: Path) -> dict[str, Any]:
        """The facts of a stage, from the journal if it was finished before and the files that it made are still there.

        They are not where an earlier attempt was interrupted behind its end, while it moved them out or cleaned up.
        """
        done: dict[str, Any] = self._table["done"]
        if stage not in done or not all(path.exists() for path in made):
            done[stage] = work()
            self._write()
        facts: dict[str, Any] = done[stage]
        return facts

    def _write(self) -> None:
        write_text(self._path, json.dumps(self._table))


def move_into_place(finished: Path, target: Path, force: bool, ours: Collection[str]) -> None:
    """Give a finished folder its name. What had the name before goes beside it only now, and only by force.

    Raises:
        UserError: The name is taken, see `refuse_taken`.
    """
    refuse_taken(target, force, ours)
    replaced = finished.parent / "replaced"
    if target.exists():
        shutil.rmtree(replaced, ignore_errors=True)  # left by an attempt that was interrupted here
        target.replace(replaced)
    finished.replace(target)


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


def _read(path: Path) -> dict[str, Any] | None:
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return table if isinstance(table, dict) else None
