"""Models from a folder or a model hub, and back. Only the files of a model are ever fetched, and they are checked."""

import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from bandana import __version__, model_folder
from bandana.errors import UserError, first_line
from bandana.own.card import model_card
from bandana.own.trained import TrainedModel


def load_pretrained(name: str | Path, revision: str | None = None) -> TrainedModel:
    """Read a model folder, or fetch one from the hub when there is no such folder.

    Args:
        name: A folder, or the name of a repository such as ``someone/some-graph``.
        revision: Branch, tag or commit of the repository.

    Raises:
        UserError: There is no such model, or it is not one that can be trusted.
    """
    if Path(name).is_dir() or isinstance(name, Path):
        return model_folder.load(Path(name))
    hub = _hub()
    with tempfile.TemporaryDirectory() as scratch:
        try:
            hub.snapshot_download(
                name, revision=revision, allow_patterns=sorted(model_folder.KNOWN_FILES), local_dir=scratch
            )
        except Exception as problem:  # whatever a network can bring
            raise _refused(name, "is no folder here, and could not be fetched from the hub", problem) from None
        try:
            return model_folder.load(Path(scratch))
        except UserError as problem:
            raise UserError(str(problem).replace(scratch, f"{name} on the hub")) from None


def push_to_hub(model: TrainedModel, name: str, *, private: bool) -> str:
    """Put a model and its card into a repository of the hub, which is made if there is none.

    Returns:
        The address of what was written.

    Raises:
        UserError: It could not be written.
    """
    hub = _hub()
    with tempfile.TemporaryDirectory() as scratch:
        model_folder.save(Path(scratch), model, model_card(model))
        try:
            hub.HfApi().create_repo(name, private=private, exist_ok=True)
            message = f"Model trained with bandana {__version__}"
            return str(hub.HfApi().upload_folder(repo_id=name, folder_path=scratch, commit_message=message))
        except Exception as problem:  # whatever a network can bring
            raise _refused(name, "could not be written to the hub", problem) from None


def _hub() -> Any:
    try:
        return import_module("huggingface_hub")
    except ImportError:
        raise UserError(
            "The model hub needs the package huggingface-hub; install it with: pip install 'bandana-graph[hub]'."
        ) from None


def _refused(name: str, what: str, problem: Exception) -> UserError:
    reason = first_line(problem, 200) or type(problem).__name__
    return UserError(f"{name}: {what} ({reason}). Check the name, the connection, and that you are logged in.")
