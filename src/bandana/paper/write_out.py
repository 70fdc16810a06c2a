"""Everything that a reproduction leaves behind: Markdown, LaTeX, CSV and SVG for each artifact, and one page of all."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bandana.files import write_text
from bandana.paper.artifact import Artifact, Exhibit, Picture, Result, Scope, Sheet
from bandana.paper.grid import Results, precisions_of
from bandana.paper.names import called
from bandana.paper.pieces import config_name, configuration
from bandana.paper.reproduce import CONFIGS, Item, Plan, Survey, command_of
from bandana.paper.rows import to_rows
from bandana.reporting.latex import to_latex
from bandana.reporting.page import Section, write_page
from bandana.reporting.sheets import file_names, to_csv, to_markdown

TRAININGS = "trainings.csv"
"""The figures of every training behind the tables; another reproduction takes them with ``--rows``."""
CONFIG_NAME = re.compile(r"[^/\s]+-[0-9a-f]{8}\.toml")
"""What `config_name` gives; other files are nobody's but their owner's."""
LINKED = re.compile(rf"\b{CONFIGS}/({CONFIG_NAME.pattern})")
NAMED_ROWS = 3
"""Rows of a table up to which each is named; more are counted."""
NO_SMALL_DATA = "not run: for --quick there is no small data of this kind"
TITLE = "Masked Graph Autoencoder with Non-discrete Bandwidths, reproduced"
COARSE_TITLE = "a coarse version, a few epochs on small data that say nothing of the published figures"


def write_out(plan: Plan, items: Survey, facts: Mapping[str, str]) -> Path:
    """Write what is known of every artifact, also where that is little.

    Returns:
        The page.

    Raises:
        UserError: The folder cannot be written to.
    """
    sections = []
    for artifact in plan.artifacts:
        shown = artifact.show(_results(artifact, items[artifact.name], plan.scope))
        exhibits = [with_sources(exhibit, items[artifact.name]) for exhibit in shown]
        _write_exhibits(plan.out, artifact, exhibits)
        sections.append(
            Section(
                name=artifact.name,
                title=artifact.title,
                kind=artifact.kind,
                exhibits=tuple(exhibits),
                command=command_of(artifact.name, plan.scope),
            )
        )
    every = [item for members in items.values() for item in members]
    _write_configurations(plan.out, every)
    write_text(plan.out / TRAININGS, to_rows((item.piece, item.result) for item in every))
    elsewhere = _from_elsewhere(plan.rows.files, items, sections)
    title = f"{TITLE}: {COARSE_TITLE}" if plan.scope.quick else TITLE
    return write_page(plan.out, title, sections, {**facts, **elsewhere})


def _results(artifact: Artifact, items: Sequence[Item], scope: Scope) -> Results:
    """What is known of every piece. An artifact without a coarse version shows its whole one, as not run."""
    if not scope.quick or artifact.pieces(Scope(quick=True)):
        return [(item.piece, item.result) for item in items]
    return [(piece, Result(None, NO_SMALL_DATA)) for piece in artifact.pieces(replace(scope, quick=False, seeds=1))]


def with_sources(exhibit: Exhibit, items: Sequence[Item]) -> Exhibit:
    """A table whose figures come from several files, with a note that says which rows are from which.

    Trainings of different days may be of different kernels or machines, which the last bits of a training grow from.
    """
    if not isinstance(exhibit, Sheet):
        return exhibit
    files: dict[str, set[str]] = defaultdict(set)
    for item in items:
        if item.result.values is not None:
            files[item.result.origin].add(item.result.file or "done here")
    rows: dict[str, dict[str, None]] = defaultdict(dict)
    for cell in exhibit.cells:
        for file in sorted(set().union(*(files[origin] for origin in cell.origins))) if cell.ours else ():
            rows[file][cell.row] = None
    if len(rows) < 2:
        return exhibit
    said = [
        f"{file} ({', '.join(map(called, own)) if len(own) <= NAMED_ROWS else f'{len(own)} rows'})"
        for file, own in rows.items()
    ]
    note = f"Figures come from several runs, which may differ in kernels and machines: {'; '.join(said)}."
    return replace(exhibit, notes=(*exhibit.notes, note))


def _from_elsewhere(files: Sequence[str], items: Survey, sections: Sequence[Section]) -> dict[str, str]:
    """For every file of rows, how many trainings it gave, and to how many cells."""
    shown = [exhibit for section in sections for exhibit in section.exhibits if isinstance(exhibit, Sheet)]
    facts = {"commands": "train what the files below hold, unless each is named with --rows"} if files else {}
    for file in files:
        of_file = [item for members in items.values() for item in members if item.result.file == file]
        given = {item.key: item.result.origin for item in of_file}
        origins = set(given.values())
        cells = sum(not origins.isdisjoint(cell.origins) for sheet in shown for cell in sheet.cells)
        facts[f"rows of {file}"] = f"trainings: {len(given)}; cells that show them: {cells}"
    return facts


def _write_configurations(out: Path, items: Sequence[Item]) -> None:
    """Every configuration that led to something once, whatever its number of seeds."""
    done: dict[str, list[Item]] = {}
    for item in items:
        if item.result.values is not None:
            done.setdefault(config_name(item.piece), []).append(item)
    for name, members in done.items():
        write_text(out / CONFIGS / name, _other_precision(members) + configuration(members[0].piece))
    _remove_unused(out, set(done))


def _remove_unused(out: Path, used: set[str]) -> None:
    """Remove configurations of earlier pages that neither this one nor any CSV file in its folder leads to."""
    named = {name for file in out.glob("*.csv") for name in LINKED.findall(file.read_text("utf-8", "replace"))}
    for path in (out / CONFIGS).glob("*.toml"):
        if CONFIG_NAME.fullmatch(path.name) and path.name not in used | named:
            path.unlink()


def _other_precision(items: Sequence[Item]) -> str:
    """A line for settings that were computed in less than what they say, which counts as the same (`digest_of`)."""
    said = items[0].piece.arguments.get("experiment", {}).get("training", {}).get("precision", "float32")
    had = precisions_of(item.result for item in items)
    return f"# products of matrices behind the page: {', '.join(sorted(had))}\n" if had != {said} else ""


def _write_exhibits(out: Path, artifact: Artifact, exhibits: Sequence[Exhibit]) -> None:
    page = [f"# {artifact.title}"]
    for number, exhibit in enumerate(exhibits, start=1):
        files = file_names(artifact.name, number, exhibit)
        page.append(to_markdown(exhibit, files))
        write_text(out / files[0], to_csv(exhibit))
        if isinstance(exhibit, Sheet):
            write_text(out / files[1], to_latex(exhibit))
        elif isinstance(exhibit, Picture):
            write_text(out / files[1], exhibit.svg)
    write_text(out / f"{artifact.name}.md", "\n\n".join(page))
