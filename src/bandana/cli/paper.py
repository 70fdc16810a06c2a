"""The verb of somebody who wants to check the paper."""

from pathlib import Path
from typing import Annotated

import typer

from bandana.cli.options import DataRoot, Device, app
from bandana.errors import UserError


@app.command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Artifacts (see --list), or all.")] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List what there is, what is done, what it takes.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Pre-trainings behind every cell.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="Coarse: small data, few epochs, one seed.")] = False,
    datasets: Annotated[str, typer.Option(help="Only these data sets, with commas between them.")] = "",
    methods: Annotated[str, typer.Option(help="Only these methods, with commas between them.")] = "",
    jobs: Annotated[int, typer.Option(min=1, help="Processes at a time; small graphs share a GPU.")] = 1,
    device: Device = "auto",
    data_root: DataRoot = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder for tables, figures and the page: by default runs/reproduce/page, with --quick .../quick.",
        ),
    ] = None,
    cache: Annotated[Path, typer.Option(help="Folder that remembers what was computed.")] = Path("runs/reproduce"),
    rows: Annotated[
        list[Path] | None,
        typer.Option(help="CSV of trainings that count as done. Repeatable; the first file that has one counts."),
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Repeat what failed before.")] = False,
    budget_seconds: Annotated[float, typer.Option(min=0, help="Begin nothing after this time.")] = float("inf"),
    run: Annotated[
        bool, typer.Option("--run/--no-run", help="Run what is missing, or only write what is known.")
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="With --list: print JSON.")] = False,
) -> None:
    """Make tables and figures of the paper beside the published ones, each cell with a verdict.

    What was computed before is used again, and stopping loses only what is being computed.

    Example: bandana reproduce mask-ablation --seeds 10 --jobs 2
    """
    if json and not show_list:
        raise UserError("--json: is for --list alone. Add --list, or leave --json out: tables are also written as CSV.")
    from bandana.terminal.paper import plan_of, reproduce_and_show, show_list_of

    folder = out or Path("runs/reproduce") / ("quick" if quick else "page")
    wanted = names or (["all"] if show_list else [])
    computes = run and not show_list
    plan = plan_of(
        *(wanted, seeds, quick, datasets, methods, cache, folder, rows or [], retry_failed, device, data_root),
        run=computes,
    )
    if show_list:
        show_list_of(plan, jobs, json)
    else:
        reproduce_and_show(plan, jobs, device, budget_seconds, run)
