"""Where the raw files of a data set are looked for, how they come there, and what is said when they do not.

A data root belongs to the user and is only read. Whatever is downloaded or prepared goes into the cache folder.
"""

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.request import urlopen
from zipfile import BadZipFile, ZipFile

from bandana.data.prepared import Prepared
from bandana.errors import UserError, first_line
from bandana.graph import SPARSE_BELOW_DENSITY

FORMAT = 1
"""To be increased when a reader makes something else of the same files, so that earlier copies are not used."""
LARGEST_FILE = 4 << 30
"""No file of any of the data sets comes near this many bytes; one that does is not what it says it is."""
PATIENCE_SECONDS = 30


@dataclass(frozen=True, eq=False)
class RawFiles:
    """A data set as others publish it.

    Attributes:
        folder: Its folder below a data root.
        files: What must be in that folder.
        url: A web folder that holds the files, or a zip archive with them below a folder named like the archive.
        read: From the folder to the graph and its official split.
    """

    folder: str
    files: tuple[str, ...]
    url: str
    read: Callable[[Path], Prepared]

    def missing(self, place: Path) -> list[str]:
        """The files that are not below `place`."""
        return [file for file in self.files if not (place / self.folder / file).is_file()]


def cache_folder() -> Path:
    """Where this program keeps what it can make again: ``BANDANA_CACHE``, or the system's place for such things."""
    chosen = os.environ.get("BANDANA_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    home = Path.home()
    if sys.platform == "win32":
        place = Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local"))
    elif sys.platform == "darwin":
        place = home / "Library" / "Caches"
    else:
        place = Path(os.environ.get("XDG_CACHE_HOME", home / ".cache"))
    return place / "bandana"


def downloads() -> Path:
    """Where downloaded files are kept, in the layout of a data root."""
    return cache_folder() / "raw"


def data_root(root: str | Path | None) -> Path | None:
    """The user's own folder of raw files: the argument, else ``BANDANA_DATA``, else none.

    Raises:
        UserError: It is not a folder.
    """
    chosen = root or os.environ.get("BANDANA_DATA")
    if not chosen:
        return None
    place = Path(chosen).expanduser()
    if not place.is_dir():
        raise UserError(f"Data root {place}: there is no such folder; correct --data-root or BANDANA_DATA.")
    return place


def find(raw: RawFiles, root: Path | None) -> Path | None:
    """The data root or the downloads, whichever has all the files first."""
    places = [downloads()] if root is None else [root, downloads()]
    return next((place for place in places if not raw.missing(place)), None)


def download(name: str, raw: RawFiles, root: Path | None) -> Path:
    """Fetch the files into the downloads, which are returned.

    Raises:
        UserError: They cannot be had: what is missing, where it was looked for, and what to do.
    """
    place = downloads()
    absent = raw.missing(root or place)
    try:
        (place / raw.folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as scratch:
            _fetch_all(raw, Path(scratch))
            for file in raw.files:
                (place / raw.folder / file).parent.mkdir(parents=True, exist_ok=True)
                (Path(scratch) / file).replace(place / raw.folder / file)
    except (OSError, HTTPException, BadZipFile, KeyError, ValueError) as problem:
        looked = " nor ".join(str(folder / raw.folder) for folder in (root, place) if folder is not None)
        files = f"{absent[0]} is" if len(absent) == 1 else f"{absent[0]} and {len(absent) - 1} more files are"
        raise UserError(
            f"{name}: {files} not in {looked}, and {raw.url} cannot be downloaded ({_summary(problem)}); fetch it by "
            f"hand and set --data-root or BANDANA_DATA to the folder that then holds {raw.folder}/{raw.files[0]}."
        ) from None
    return place


def fingerprint(raw: RawFiles, place: Path) -> str:
    """Changes whenever a file does, or what we make of it."""
    facts = [f"{FORMAT} {SPARSE_BELOW_DENSITY}"]
    for file in raw.files:
        status = (place / raw.folder / file).stat()
        facts.append(f"{file} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def copy_of(raw: RawFiles, place: Path) -> Path:
    """Where the prepared copy of the files below `place` is kept; each data root has its own."""
    key = hashlib.sha256(os.fsencode(place.resolve())).hexdigest()[:12]
    return cache_folder() / "prepared" / f"{raw.folder}-{key}.safetensors"


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong with a file that is not what it should be into a sentence that names it."""
    try:
        yield
    except (UserError, MemoryError):
        raise
    except Exception as problem:
        raise UserError(
            f"{path}: cannot be read ({_summary(problem)}); it is broken or in another format, so fetch it again."
        ) from None


def _fetch_all(raw: RawFiles, target: Path) -> None:
    if not raw.url.endswith(".zip"):
        for file in raw.files:
            _fetch(f"{raw.url}/{PurePosixPath(file).name}", target / file)
        return
    archive = target / "archive.zip"
    _fetch(raw.url, archive)
    top = PurePosixPath(raw.url).stem
    with ZipFile(archive) as members:
        # Only files we know the names of are taken, so no entry of the archive decides where anything is written.
        for file in raw.files:
            with members.open(f"{top}/{file}") as source:
                _copy(source, target / file)


def _fetch(url: str, target: Path) -> None:
    with urlopen(url, timeout=PATIENCE_SECONDS) as response:  # noqa: S310 (every url is a constant of ours)
        promised = response.headers.get("Content-Length")
        received = _copy(response, target)
    if promised is not None and received != int(promised):
        raise ValueError(f"the connection broke after {received} of {promised} bytes")


def _copy(source: IO[bytes], target: Path) -> int:
    target.parent.mkdir(parents=True, exist_ok=True)
    copied = 0
    with target.open("wb") as sink:
        while block := source.read(1 << 20):
            copied += len(block)
            if copied > LARGEST_FILE:
                raise ValueError(f"{target.name} is larger than {LARGEST_FILE} bytes")
            sink.write(block)
    return copied


def _summary(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {first_line(problem, 160)}".removesuffix(": ")
