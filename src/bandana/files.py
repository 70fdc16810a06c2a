"""Writing files so that a crash leaves either the old content or the new, never half of it."""

import errno
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows, where two commands on one place are not kept apart
    fcntl = None  # type: ignore[assignment]

from bandana.errors import UserError

_NOTHING_TO_FREE = {
    errno.ENOENT,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EBUSY,
}


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
        raise unwritable(path, problem) from None


def unwritable(path: Path, problem: OSError, *, resumable: bool = False) -> UserError:
    """What is said where something cannot be written: with the remedy for its cause.

    Args:
        path: What it is.
        problem: Why it cannot.
        resumable: Whether the work that was done for it is kept beside its place.
    """
    remedy = "Free space, and the same command goes on" if resumable else "Free space or choose another folder"
    if problem.errno in _NOTHING_TO_FREE:
        remedy = "Choose another place"
    return UserError(f"{path}: cannot be written ({problem.strerror or problem}). {remedy}.")


def write_text(path: Path, text: str) -> None:
    """Replace the content of a text file in one step."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def check_writable(path: Path) -> None:
    """Make sure, before any work is done for it, that something may be written in a place.

    Raises:
        UserError: Nobody may write there, or a file stands where a folder is due.
    """
    ground = next(parent for parent in path.absolute().parents if parent.exists())
    if not ground.is_dir() or not os.access(ground, os.W_OK | os.X_OK):
        reason = "may not be written to" if ground.is_dir() else "is not a folder"
        raise UserError(f"{path}: cannot be written, because {ground} {reason}. Choose another place.")


def refuse_foreign(folder: Path, mark: str) -> None:
    """Refuse to write into a folder that holds something, but not the file by which one of ours is known.

    Raises:
        UserError: It is somebody else's.
    """
    if folder.is_dir() and not (folder / mark).exists() and any(folder.iterdir()):
        raise UserError(f"{folder}: is not empty and holds no {mark}, so it is not ours. Choose another with --out.")


def real_place(folder: Path) -> Path:
    """The folder itself, where `folder` is a link to it: it is exchanged, and the link stays."""
    return Path(os.path.realpath(folder)) if folder.is_symlink() else folder


def refuse_fixed(folder: Path) -> None:
    """Refuse a folder that cannot be exchanged for a finished one, before any work is done for it.

    Raises:
        UserError: The command runs in it, or another disk begins there.
    """
    real = folder.resolve()
    if real == Path.cwd() or os.path.ismount(real):
        reason = "is the folder that this command runs in" if real == Path.cwd() else "is where another disk begins"
        raise UserError(f"{folder}: {reason}, so another cannot take its place. Name a folder inside of it.")


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """Keep all other commands away from an output while this one works on it.

    The system lets go of the lock when the process ends, however it ends. Where there are no locks, nothing is kept.

    Raises:
        UserError: Another command is at work there.
    """
    real = Path(os.path.realpath(place))
    lock = real.parent / f".{real.name}.lock"
    held = _locked(lock, place)
    try:
        yield
    finally:
        if held is not None:
            lock.unlink(missing_ok=True)
            held.close()


def _locked(lock: Path, place: Path) -> IO[str] | None:
    """The file that is locked, or None where that cannot be done."""
    while fcntl is not None:
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            file = lock.open("a", encoding="utf-8")
        except OSError:
            return None  # whoever writes there says why it cannot be
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise UserError(
                f"{place}: another command is writing there; wait until it is done, or choose another place."
            ) from None
        except OSError:
            file.close()
            return None
        with suppress(FileNotFoundError):  # its holder was done in between, and has removed it
            if os.path.samestat(os.fstat(file.fileno()), lock.stat()):
                return file
        file.close()
    return None


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
