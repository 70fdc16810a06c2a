"""The verb that searches for better settings."""

from pathlib import Path
from typing import Annotated

import typer

from bandana.cli.options import LARGEST_SEED, DataRoot, Device, app


@app.command()
def tune(
    method: Annotated[str, typer.Argument(help="A method (see `bandana methods`).")],
    dataset: Annotated[str, typer.Argument(help="A data set (see `bandana datasets`).")],
    task: Annotated[str, typer.Option(help="node (default): micro-F1 of nodes. link: AUC of links.")] = "node",
    trials: Annotated[int, typer.Option(min=1, help="Settings to try; the first are the recipe's.")] = 50,
    seconds: Annotated[float | None, typer.Option(min=0, help="Begin no trial after so much time in trials.")] = None,
    space: Annotated[Path | None, typer.Option(help="TOML file with what may vary; by default the method's.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Pre-trainings per trial, each with its own split.")] = 1,
    sampler_seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Decides what is tried.")] = 0,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change one option of the recipe before. Repeatable.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Seeds at the same time, in processes that share a GPU.")] = 1,
    device: Device = "auto",
    data_root: DataRoot = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder; default tuned/METHOD-DATASET-TASK.")] = None,
) -> None:
    """Search for better settings of a method, judged on validation data only.

    Writes every trial (search.json, trials.csv) and the best one as recipe.toml. The same command goes on with an
    interrupted search; more --trials or --seconds continue a finished one.

    Example: bandana tune bandana cora --task link --trials 50
    """
    from bandana.terminal.tune import tune_and_show

    folder = out or Path("tuned") / f"{method}-{dataset}-{task}"
    tune_and_show(
        method,
        dataset,
        task,
        space,
        changes or [],
        trials,
        seconds,
        seeds,
        sampler_seed,
        jobs,
        device,
        data_root,
        folder,
    )
