"""The demonstration: from a graph to judged embeddings and a picture, on data that come with scikit-learn."""

from pathlib import Path

from bandana.config import to_table
from bandana.data.datasets import load
from bandana.devices import resolve_device
from bandana.experiment import Task, run_seed
from bandana.files import check_writable
from bandana.paper.cookbook import recipe
from bandana.reporting.embeddings import write_parquet
from bandana.reporting.plots import draw_map
from bandana.reporting.record import RunRecord
from bandana.reporting.tables import overview_table
from bandana.terminal.screen import console, progress_bars, status

DATASET = "digits"


def run_demo(out: Path, device: str) -> None:
    """Pre-train Bandana for both tasks, print the figures beside the floors, write embeddings and a picture."""
    vectors, picture = out / "embeddings.parquet", out / "embeddings.png"
    check_writable(vectors)
    where = resolve_device(device)
    data = load(DATASET)
    console.print(
        f"[bold]{DATASET}[/bold]: {data.graph.num_nodes:,} handwritten digits, each linked to its nearest neighbours "
        f"by pixels ({data.graph.num_edges // 2:,} links). Bandana never sees a label."
    )
    results = {}
    tasks: tuple[Task, ...] = ("node", "link")
    experiments = {task: recipe("bandana", DATASET, task) for task in tasks}
    with progress_bars(max(experiment.training.epochs for experiment in experiments.values())) as bar:
        for task, experiment in experiments.items():
            results[task] = run_seed(experiment, data, 0, where, on_epoch=bar(f"{task} task"))
    records = (
        RunRecord(experiment=to_table(experiments[task]), seeds=[results[task].record], device=where.type)
        for task in tasks
    )
    console.print(overview_table(*records))

    embedding = results["node"].embedding
    write_parquet(vectors, embedding, data.graph.node_ids)
    labels = data.graph.y
    assert labels is not None
    with status.status("Drawing the map …"):
        draw_map(picture, embedding, labels, "Bandana on digits: t-SNE of the embedding, by class")
    console.print(f"Embeddings, one row per node: [bold]{vectors}[/bold]")
    console.print(f"Their map, coloured by class:  [bold]{picture}[/bold]")
