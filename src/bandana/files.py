"""Writing files so that a crash leaves either the old content or the new, never half of it."""

import json
import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bandana.errors import UserError


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then move it into place in one step.

    Raises:
        UserError: The place cannot be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
        os.close(handle)
        temporary = Path(name)
        try:
            write(temporary)
            with temporary.open("rb+") as written:
                os.fsync(written.fileno())
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as problem:
        raise UserError(
            f"{path}: cannot be written ({problem.strerror or problem}). Free space or choose another folder."
        ) from None


def write_text(path: Path, text: str) -> None:
    """Replace the content of a text file in one step."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def refuse_foreign(folder: Path, mark: str) -> None:
    """Refuse to write into a folder that holds something, but not the file by which one of ours is known.

    Raises:
        UserError: It is somebody else's.
    """
    if folder.is_dir() and not (folder / mark).exists() and any(folder.iterdir()):
        raise UserError(f"{folder}: is not empty and holds no {mark}, so it is not ours. Choose another with --out.")


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON that every reader takes: what is not a finite number becomes null, which Python would write as NaN."""
    return json.dumps(_finite(value), indent=indent, ensure_ascii=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
