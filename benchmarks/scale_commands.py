"""What `scale.py` needs to measure commands in processes of their own, and to keep what it found.

Nothing heavy is imported here: the kernel counts the memory of a parent as that of its child until the child has more.
"""

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

CORES = 2
"""That the benchmark is about; a larger machine's others are left alone."""


class Taken(NamedTuple):
    """What a command took: seconds on the wall, of the processor, and megabytes of its largest process."""

    seconds: float
    cpu_s: float
    peak_mb: float


class OutOfBudgetError(Exception):
    """There is no time left for what is to be done next."""


class Budget:
    """Time that a benchmark may take."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return self._ends - time.monotonic()

    def run(self, *words: str | Path, processes: int = 1, cores: int = CORES) -> Taken:
        """Run a command of bandana in a process of its own, or in several that ``torchrun`` starts.

        Every process gets one thread for its tensors, as ``torchrun`` has it: what runs side by side in it already, the
        groups of a step, would get in each other's way with more.

        Args:
            words: Behind ``bandana``.
            processes: How many.
            cores: How many of the machine's they may use.

        Raises:
            OutOfBudgetError: It would not end in time, or had not.
        """
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command = [sys.executable, *(launcher if processes > 1 else []), "-m", "bandana", *map(str, words)]
        return self.measure(command, cores)

    def measure(
        self, command: Sequence[str], cores: int = CORES, *, threads: int = 1, out: Path | None = None
    ) -> Taken:
        """Run any command; what it prints goes to a file, if there is one to keep it."""
        if self.left <= 0:
            raise OutOfBudgetError
        allowed = sorted(os.sched_getaffinity(0))[:cores]
        started = time.monotonic()
        with (out or Path(os.devnull)).open("wb") as printed:
            child = subprocess.Popen(
                command,
                stdout=printed,
                stderr=subprocess.PIPE,
                env={**os.environ, "OMP_NUM_THREADS": str(threads)},
                preexec_fn=lambda: os.sched_setaffinity(0, allowed),
            )
        said = _wait(child, self.left)
        _, status, usage = os.wait4(child.pid, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            sys.exit(f"{' '.join(command)} failed:\n{said}")
        return Taken(time.monotonic() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6)


class Rows:
    """Results: printed and written to a file as they come, and read from it by whoever goes on."""

    def __init__(self, path: Path | None) -> None:
        self._path, self.all = path, list[dict[str, Any]]()
        if path is not None and path.exists():
            with path.open(newline="") as file:
                known = csv.DictReader(file)
                self.all = [{name: _value(text) for name, text in row.items() if text} for row in known]

    def add(self, **row: Any) -> None:
        self.all.append(row)
        print("  ".join(f"{name} {_short(value)}" for name, value in row.items()), flush=True)
        if self._path is not None:
            names = list(dict.fromkeys(name for known in self.all for name in known))
            unfinished = self._path.with_name(f".{self._path.name}.unfinished")
            with unfinished.open("w", newline="") as file:
                table = csv.DictWriter(file, names)
                table.writeheader()
                table.writerows(self.all)
            unfinished.replace(self._path)

    def where(self, **wanted: Any) -> Iterator[dict[str, Any]]:
        return (row for row in self.all if all(row.get(name) == value for name, value in wanted.items()))

    def has(self, **wanted: Any) -> bool:
        return any(self.where(**wanted))


def settings(changes: Mapping[str, Any]) -> list[str]:
    """Changes as a command line has them."""
    return [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]


def record_of(folder: Path) -> dict[str, Any]:
    """The first seed of a run: its figures, and how long it took."""
    seed: dict[str, Any] = json.loads((folder / "record.json").read_text())["seeds"][0]
    return seed


def _wait(child: subprocess.Popen[bytes], seconds: float) -> str:
    """Read what a child says until it ends; end it when time is up."""
    assert child.stderr is not None
    os.set_blocking(child.stderr.fileno(), False)
    ends, said = time.monotonic() + seconds, b""
    while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        said = (said + (child.stderr.read() or b""))[-4000:]
        if time.monotonic() > ends:
            child.terminate()
            child.wait()
            raise OutOfBudgetError
        time.sleep(0.05)
    return (said + (child.stderr.read() or b"")).decode(errors="replace")


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
