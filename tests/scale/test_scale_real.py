"""The comparison of partition training with the full graph: one split for both, rows that are kept, honest verdicts."""

import sys
from importlib import import_module
from pathlib import Path

import numpy as np

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
scale_real = import_module("scale_real")
sys.path.pop(0)

QUICK = ("training.epochs=4", "training.evaluate_every=2", "model.encoder.width=8", "probe.epochs=2", "probe.repeats=1")
WHOLE = scale_real.Way(1, "stream", ("shards.parts_per_group=1", "shards.groups_per_step=1", *QUICK))
HALVES = scale_real.Way(4, "stream", ("shards.parts_per_group=2", "shards.groups_per_step=1", *QUICK))


def test_a_store_of_one_part_takes_the_steps_of_the_full_graph(tmp_path: Path) -> None:
    scale_real.make_store(tmp_path, WHOLE, "karate")
    row = scale_real.compare(scale_real.Piece("karate", "node", 1), WHOLE, tmp_path, "cpu")
    assert row["store_steps"] == row["full_steps"] == 4
    assert 0 <= row["store"] <= 100
    assert row["lost"] == row["full"] - row["store"]
    assert 0 <= row["store_valid"] <= 100


def test_groups_take_more_steps_in_an_epoch(tmp_path: Path) -> None:
    scale_real.make_store(tmp_path, HALVES, "karate")
    row = scale_real.compare(scale_real.Piece("karate", "link", 0), HALVES, tmp_path, "cpu")
    assert (row["store_steps"], row["full_steps"], row["store_valid"]) == (8, 4, "")


def test_parts_can_be_carried_to_a_machine_without_metis(tmp_path: Path) -> None:
    parts = np.arange(34) % 4
    (tmp_path / "4-metis").mkdir()
    np.save(tmp_path / "4-metis" / "karate.npy", parts)
    store = scale_real.make_store(tmp_path, HALVES._replace(partitioner="metis"), "karate")
    assert store.part_starts.diff().tolist() == np.bincount(parts).tolist()


def test_rows_are_kept_and_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "real.csv"
    pieces = scale_real.pieces_of(("pubmed", "cora"), ("link",), range(2))
    assert [(piece.dataset, piece.seed) for piece in pieces] == [
        ("cora", 0),
        ("pubmed", 0),
        ("cora", 1),
        ("pubmed", 1),
    ]
    for piece, failed in zip(pieces[:2], ("", "out of memory"), strict=True):
        scale_real.append(path, {**piece._asdict(), "settings": str(HALVES), "lost": 0.25, "failed": failed})
    rows = scale_real.read(path)
    assert scale_real.missing(pieces, rows, HALVES) == pieces[1:]
    assert scale_real.missing(pieces, rows, WHOLE) == pieces


def test_verdicts_have_means_standard_errors_and_bounds() -> None:
    def row(task: str, lost: float, failed: str = "", seed: int = 0) -> dict[str, str]:
        name = "valid" if task == "node" else "links"
        common = {"dataset": "cora", "task": task, "seed": str(seed), "settings": str(HALVES), "failed": failed}
        return {**common, "lost": str(lost), f"full_{name}": "90.0", f"store_{name}": str(90 - 2 * lost)}

    rows = [row("link", 0.1), row("link", 0.5), row("node", 1.5), row("node", 9.0, "lost"), row("link", 0.6, seed=4)]
    chosen_by = row("link", 70.0, seed=100)
    other = {**row("link", 50.0), "settings": str(WHOLE)}
    link, node = scale_real.verdicts([*rows, chosen_by, other], HALVES, range(5))
    assert "auc, seeds: 3; partition training loses 0.80 ± 0.31 points in validation, 0.40 ± 0.15 in the test" in link
    assert link.endswith("within the bound of 0.5")
    assert (
        "seeds: 1; partition training loses 3.00 points in validation, 1.50 in the test, beyond the bound of 1" in node
    )
