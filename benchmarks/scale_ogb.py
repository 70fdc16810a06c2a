"""What large public graphs would cost, from their published sizes and a few timed pieces of graphs of the same kind."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from power_law import PowerLaw, write

from bandana.config import nest, patch
from bandana.method import GraphSpec
from bandana.methods.bandana import Bandana, BandanaConfig
from bandana.own.calibration import resident_bytes
from bandana.own.trained import TrainedModel
from bandana.paper.cookbook import load_recipe
from bandana.scale.estimate import Costs, Sizes, inference_costs, partition_costs
from bandana.scale.pieces import output_width, time_inference, time_partition
from bandana.scale.plan import BuildPlan
from bandana.store_estimate import estimate_run_of_size, stand_in
from bandana.store_experiment import StoreExperiment
from bandana.training.trainer import TrainingConfig
from bandana.use.infer import encoder_of

PUBLISHED = {
    "ogbn-arxiv": ("node", Sizes(169_343, 2_315_598, 128, 32)),
    "ogbn-mag": ("node", Sizes(736_389, 10_792_672, 128, 32)),
    "ogbl-collab": ("link", Sizes(235_868, 2_570_930, 128, 32)),
    "ogbl-ppa": ("link", Sizes(576_289, 42_463_862, 58, 106)),
    "ogbn-papers100M": ("node", Sizes(111_059_956, 3_231_371_744, 128, 8192)),
}
"""Sizes of Open Graph Benchmark sets (Hu et al., NeurIPS 2020), with links in both directions."""
SAMPLE_ROWS = 200_000
MEMORY = 4 << 30
"""What `--memory` would be for partition and infer."""


def published(name: str, task: str) -> StoreExperiment:
    """What would be run on one of the public graphs; a vector per node beside features cannot be learned from parts."""
    values = load_recipe("bandana", name, task, "scale" if name == "ogbn-papers100M" else None).values
    known = {key: value for key, value in values.items() if key.split(".")[0] in ("model", "training", "probe")}
    known |= {"model.encoder.node_embedding": 0, "training.edge_batch_size": 0}
    model, training = BandanaConfig(), TrainingConfig(edge_batch_size=0)
    default = StoreExperiment(method="bandana", dataset=name, task=task, model=model, training=training)
    return patch(default, nest(known))


def on_paper(name: str, processes: int, device: torch.device) -> dict[str, Any]:
    """A row of figures; hours are those of `time.perf_counter`."""
    task, sizes = PUBLISHED[name]
    experiment = published(name, task)
    built, learned, embedded = (
        _partition(sizes),
        estimate_run_of_size(sizes, experiment, processes=processes, device=device),
        _inference(sizes, experiment, processes),
    )
    hours = {work: sum(costs.seconds.values()) / 3600 for work, costs in (("build", built), ("infer", embedded))}
    return {
        "what": name,
        "processes": processes,
        "store_gb": sizes.store_bytes / 1e9,
        "build_h": hours["build"],
        "build_gb": built.memory / 1e9,
        "build_disk_gb": built.disk / 1e9,
        "epochs": experiment.training.epochs,
        "epoch_h": learned.seconds["training"] / experiment.training.epochs / 3600,
        "run_h": sum(learned.seconds.values()) / 3600,
        "run_gb": learned.memory / 1e9,
        "sent_per_step_mb": learned.sent_per_step / 1e6,
        "sent_gb": learned.sent / 1e9,
        "infer_h": hours["infer"],
        "infer_gb": embedded.memory / 1e9,
        "infer_disk_gb": embedded.disk / 1e9,
    }


def _partition(sizes: Sizes) -> Costs:
    rows = sizes.entries // 2
    graph = PowerLaw(SAMPLE_ROWS, mean_degree=sizes.entries / sizes.nodes, features=sizes.features)
    with TemporaryDirectory() as folder:
        edges, features, _ = write(graph, Path(folder))
        piece = time_partition(BuildPlan(edges=edges, features=features, partitioner="stream")).piece
    return partition_costs(sizes, rows, piece, memory=MEMORY, metis=False, base=resident_bytes())


def _inference(sizes: Sizes, experiment: StoreExperiment, processes: int) -> Costs:
    config, spec = experiment.model, GraphSpec(1, sizes.features)
    model = TrainedModel(name="bandana", config=config, spec=spec, method=Bandana(config, spec))
    with TemporaryDirectory() as folder:
        store = stand_in(sizes, experiment.shards, Path(folder) / "store")
        encoder = encoder_of(model, store)
        piece = time_inference(encoder, store)
    output, base = output_width(encoder), resident_bytes()
    return inference_costs(sizes, piece, encoder.widths, output, memory=MEMORY, processes=processes, base=base)
