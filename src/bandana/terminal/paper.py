"""What a reproduction shows: the list of artifacts, the progress of the work, and what was written where."""

import json as jsonlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from bandana.data.datasets import find_dataset
from bandana.devices import resolve_device
from bandana.errors import UserError
from bandana.paper.artifact import Piece, Scope
from bandana.paper.cache import Cache
from bandana.paper.catalogue import find
from bandana.paper.costs import Costs
from bandana.paper.reproduce import Plan, costs_of, fetch_missing, open_pieces, refuse_nothing, run_pieces, survey
from bandana.paper.rows import read_rows
from bandana.paper.standing import Standing, standing_of
from bandana.paper.write_out import write_out
from bandana.registry import get_method
from bandana.reporting.page import artifacts_on
from bandana.reporting.record import environment
from bandana.terminal.screen import console, status

NAME, PLACE, DONE, LEFT, INDENT = 22, 18, 16, 11, 2
"""Signs across the columns of the list, and before the lines below a name."""


def plan_of(
    names: Sequence[str],
    seeds: int,
    quick: bool,
    datasets: str,
    methods: str,
    cache: Path,
    out: Path,
    rows: Sequence[Path],
    retry_failed: bool,
    device: str,
    data_root: Path | None,
    *,
    run: bool,
) -> Plan:
    """What is asked for on the command line; `run` says whether anything is computed for it.

    Raises:
        UserError: An artifact, data set, method, file or device is not there, or nothing is left of the artifacts.
    """
    wanted_datasets, wanted_methods = _split(datasets), _split(methods)
    for dataset in wanted_datasets:
        find_dataset(dataset)
    for method in wanted_methods:
        get_method(method)
    artifacts = find(names)
    scope = Scope(seeds=seeds, quick=quick, datasets=wanted_datasets, methods=wanted_methods)
    refuse_nothing(artifacts, scope)
    read = read_rows(rows)
    for file, count in read.set_aside.items():
        status.print(
            f"--rows {file}: rows set aside, because a file named before it has other figures of the same trainings: "
            f"{count}.",
            style="yellow",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    return Plan(
        artifacts=artifacts,
        scope=scope,
        cache=Cache(cache, _type_of(device, run=run), data_root),
        out=out,
        rows=read,
        retry_failed=retry_failed,
    )


def show_list_of(plan: Plan, jobs: int, json: bool) -> None:
    """List artifacts with their pieces, how many are done, what the rest would take, and how they stand."""
    items = survey(plan)
    costs = costs_of(items, plan.cache.device)
    standings = [standing_of(artifact, items[artifact.name], costs, jobs) for artifact in plan.artifacts]
    if json:
        console.print_json(jsonlib.dumps([standing._asdict() for standing in standings]))
        return
    console.print(f"{'artifact':<{NAME}}{'in the paper':<{PLACE}}{'pieces done':>{DONE}}{'time left':>{LEFT}}")
    for row in standings:
        _show_standing(row)
    console.print()
    processes = "one process" if jobs == 1 else f"{jobs} processes"
    console.print(
        f"Times are rough, for {processes}, and sharpen as pieces finish. Artifacts share pieces.", style="dim"
    )


def _show_standing(row: Standing) -> None:
    """A line of figures, and below it what the artifact is and how it stands."""
    place, done = row.printed or "beyond the paper", f"{row.done:,} of {row.pieces:,}" if row.pieces else "–"
    figures = f"{place:<{PLACE}}{done:>{DONE}}{spoken(row.seconds_left):>{LEFT}}"
    console.print()
    console.print(Text.assemble((f"{row.name:<{NAME}}", "bold"), figures))
    for words in (row.title, row.state):
        console.print(Padding(Text(words, "dim"), (0, 0, 0, INDENT)))


def reproduce_and_show(plan: Plan, jobs: int, device: str, budget: float, run: bool) -> None:
    """Do what is missing, then write everything.

    Raises:
        UserError: A folder cannot be written to; nothing is computed then.
    """
    _prove_writable("--out", plan.out)
    if run:
        _prove_writable("--cache", plan.cache.folder)
        if absent := fetch_missing(plan):
            status.print(
                f"Neither here nor to be downloaded: {', '.join(absent)}. Their cells say so; `bandana datasets` tells "
                "where they come from.",
                style="yellow",
                highlight=False,
            )
        items = survey(plan)
        costs = costs_of(items, plan.cache.device)
        _work(plan, open_pieces(items, retry_failed=plan.retry_failed), costs, jobs, device, budget)
    items = survey(plan)
    before = artifacts_on(plan.out)
    page = write_out(plan, items, _facts(plan))
    _tell_left_out(plan, before)
    pieces = {item.key: item.result.failure for members in items.values() for item in members}
    states = Counter(map(_word, pieces.values()))
    counts = ", ".join(f"{count} {word}" for word, count in states.items())
    console.print(f"Pieces of work: {counts or 'none is needed'}.")
    console.print(f"Tables, figures and their numbers: [bold]{plan.out}[/bold]\nTo browse them: [bold]{page}[/bold]")


def _tell_left_out(plan: Plan, before: Sequence[str]) -> None:
    """Say what was on the page that this one has taken the place of, and is no longer."""
    now = {artifact.name for artifact in plan.artifacts}
    if left := [name for name in before if name not in now]:
        status.print(
            f"--out {plan.out}: the page there now holds only what was named. Gone from it, while their own files are "
            f"still beside it: {', '.join(left)}. Name them too (with --no-run), or give each page its own folder.",
            style="yellow",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def _prove_writable(option: str, folder: Path) -> None:
    """Make a folder, and a file in it for a moment."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=folder):
            pass
    except OSError as problem:
        raise UserError(
            f"{option} {folder}: must be a folder that can be written to ({problem.strerror or problem}). "
            f"Choose another one with {option} FOLDER."
        ) from None


def spoken(seconds: float) -> str:
    """A time in the unit that a person would use."""
    if seconds <= 0:
        return "–"
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{max(seconds, 1):.0f} s"


def _work(plan: Plan, pieces: Sequence[Piece], costs: Costs, jobs: int, device: str, budget: float) -> None:
    """Carry the pieces out behind a bar that runs by expected time."""
    if not pieces:
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn())
    total = sum(map(costs.seconds, pieces))
    status.print(f"{len(pieces)} pieces to run, roughly {spoken(total / jobs)}.")
    try:
        with Progress(*columns, TextColumn("{task.fields[last]}"), console=status) as progress:
            bar = progress.add_task("reproducing", total=len(pieces), last="")
            for done in run_pieces(plan, pieces, device=device, jobs=jobs, budget=budget):
                progress.update(bar, advance=1, last=f"{name_of(done.piece)}, {done.seconds:.1f} s")
                if done.failure:
                    progress.console.print(f"{name_of(done.piece)}: {done.failure}", style="yellow", highlight=False)
    except KeyboardInterrupt:
        status.print(f"Stopped. What was finished is kept in {plan.cache.folder}: the same command goes on from there.")
        raise SystemExit(130) from None


def name_of(piece: Piece) -> str:
    """A few words for a piece."""
    table = piece.arguments.get("experiment", piece.arguments)
    words = [str(table[name]) for name in ("method", "component", "variable", "dataset", "task") if name in table]
    seed = f", seed {piece.arguments['seed']}" if "seed" in piece.arguments else ""
    return f"{' '.join(words) or piece.work}{seed}"


def _split(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())


def _type_of(device: str, *, run: bool) -> str:
    """The type of the device. What was computed on a GPU can be shown where there is none."""
    return resolve_device(device).type if run or device != "cuda" else device


def _facts(plan: Plan) -> dict[str, str]:
    asked = f"up to {plan.scope.seeds} seeds per cell; every cell says how many it has"
    scope = "coarse: small data, few epochs, one seed" if plan.scope.quick else asked
    machine = {"machine": "the one that wrote this page; rows came from elsewhere"} if plan.rows.files else {}
    return {**environment(), **machine, "device": plan.cache.device, "scope": scope}


def _word(failure: str) -> str:
    if not failure:
        return "done"
    return "failed" if not failure.startswith("not run") else failure.partition(";")[0]
