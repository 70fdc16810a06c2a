"""What a run leaves behind: one folder with its configuration, every seed's figures and history, and the weights."""

import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

from bandana import __version__
from bandana.config import read_toml, to_toml
from bandana.errors import UserError
from bandana.files import json_text, refuse_foreign, write_text
from bandana.training import checkpoint

Metrics = dict[str, float]
NOT_KEPT_BY_OLDER_VERSIONS: dict[str, Any] = {"device": "", "environment": {}, "created": ""}
"""What a seed's record says of its making where it says nothing."""
_SEED_FOLDER = re.compile(r"seed-(0|[1-9][0-9]*)")
"""What we call them; a copy that somebody has put beside one is none."""


@dataclass(frozen=True, kw_only=True)
class SeedRecord:
    """One pre-training and its evaluation.

    Attributes:
        seed: What split, weights and noise follow from.
        metrics: Test figures, as fractions.
        floors: The same figures for what any method must beat.
        best_epoch: Epoch whose weights were kept.
        epochs: Epochs trained.
        seconds: Time of each stage.
        diagnostics: What the method measured of itself in training, such as the mask ratio.
        history: One row per evaluation.
        split: Certificate of the edge split; under `nodes` that of the node split, where nodes are classified.
        device: Kind of device that made it, or empty where that was not kept.
        environment: Versions and hardware of the process that finished it; nothing in records of older versions.
        created: When; empty in records of older versions.
    """

    seed: int
    metrics: Metrics
    floors: dict[str, Metrics]
    best_epoch: int
    epochs: int
    seconds: dict[str, float]
    diagnostics: dict[str, float]
    history: list[dict[str, float]]
    split: dict[str, Any]
    device: str = ""
    environment: dict[str, str] = field(default_factory=lambda: environment())
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """All seeds of one experiment. Each knows what made it: a folder may hold seeds of several calls and machines."""

    experiment: dict[str, Any]
    seeds: list[SeedRecord]
    device: str
    """Kind of device of the latest call."""

    @property
    def environment(self) -> dict[str, str]:
        """The versions and hardware that all seeds have in common."""
        facts = [set(seed.environment.items()) for seed in self.seeds]
        return dict(sorted(set.intersection(*facts))) if facts else {}

    @property
    def summary(self) -> dict[str, tuple[float, float]]:
        """Mean and standard deviation over seeds of every metric."""
        return summarise([seed.metrics for seed in self.seeds])

    @property
    def floors(self) -> dict[str, dict[str, tuple[float, float]]]:
        """The same for every floor."""
        names = self.seeds[0].floors if self.seeds else {}
        return {name: summarise([seed.floors[name] for seed in self.seeds]) for name in names}

    @property
    def diagnostics(self) -> dict[str, tuple[float, float]]:
        """The same for what the method measured of itself in training."""
        return summarise([seed.diagnostics for seed in self.seeds])

    def to_json(self) -> str:
        table = asdict(self)
        for seed in table["seeds"]:
            del seed["history"]  # in the seed's own file
        if len({seed.device or self.device for seed in self.seeds}) > 1:
            del table["device"]  # each seed names its own
        summary = {name: {"mean": mean, "std": std} for name, (mean, std) in self.summary.items()}
        return json_text({"summary": summary, **table, "environment": self.environment}, indent=2)


def summarise(rows: Sequence[Metrics]) -> dict[str, tuple[float, float]]:
    """Mean and sample standard deviation of each metric; the deviation of a single row is NaN."""
    columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}
    return {
        name: (fmean(values), stdev(values) if len(values) > 1 else float("nan")) for name, values in columns.items()
    }


def environment() -> dict[str, str]:
    """Versions and hardware."""
    packages = {name: version(name) for name in ("torch", "torch_geometric", "numpy", "scipy", "scikit-learn")}
    facts = {"bandana": __version__, "python": platform.python_version(), **packages}
    facts |= {"system": platform.system(), "cpu": _cpu_name(), "cores": str(os.cpu_count())}
    if torch.cuda.is_available():
        facts |= {"gpu": torch.cuda.get_device_name(), "cuda": str(torch.version.cuda)}
    return facts


def _cpu_name() -> str:
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text(encoding="utf-8").splitlines() if listing.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


@dataclass(frozen=True)
class RunFolder:
    """A folder in which a run can stop at any moment and go on later."""

    path: Path

    @classmethod
    def open(cls, path: Path, experiment: Mapping[str, Any]) -> "RunFolder":
        """Create the folder for an experiment, or continue in it.

        Raises:
            UserError: The folder belongs to another experiment, or to somebody else.
        """
        config = path / "config.toml"
        refuse_foreign(path, config.name)
        text = to_toml(experiment)
        if config.exists():
            if to_toml(read_toml(config)) != text:
                raise UserError(f"{path}: holds a run with other settings. Choose another folder with --out.")
        else:
            write_text(config, text)
        return cls(path)

    def checkpoint(self, seed: int) -> Path:
        """Where the unfinished training of a seed is kept."""
        return self._seed_folder(seed) / "checkpoint.safetensors"

    def finished(self, seed: int) -> SeedRecord | None:
        """The record of a seed that was run to its end here."""
        path = self._seed_folder(seed) / "record.json"
        if not path.exists():
            return None
        try:
            return SeedRecord(**{**NOT_KEPT_BY_OLDER_VERSIONS, **json.loads(path.read_text(encoding="utf-8"))})
        except (OSError, ValueError, TypeError) as problem:
            raise UserError(f"{path}: not a readable record ({problem}). Delete it to run this seed again.") from None

    def finish(self, record: SeedRecord, weights: Mapping[str, Tensor]) -> None:
        """Keep a seed's record and weights, and drop its checkpoint."""
        folder = self._seed_folder(record.seed)
        checkpoint.save(folder / "weights.safetensors", {"weights": weights}, {"seed": record.seed})
        write_text(folder / "record.json", json.dumps(asdict(record), indent=1) + "\n")
        self.checkpoint(record.seed).unlink(missing_ok=True)

    def write(self, record: RunRecord) -> None:
        """Write the summary of all seeds: these, and those that earlier calls finished here."""
        names = (file.parent.name for file in self.path.glob("seed-*/record.json"))
        numbers = {int(found[1]) for name in names if (found := _SEED_FOLDER.fullmatch(name))}
        earlier = [self.finished(number) for number in numbers - {seed.seed for seed in record.seeds}]
        seeds = [*record.seeds, *(seed for seed in earlier if seed is not None)]
        write_text(
            self.path / "record.json", replace(record, seeds=sorted(seeds, key=lambda seed: seed.seed)).to_json()
        )

    def _seed_folder(self, seed: int) -> Path:
        return self.path / f"seed-{seed}"
