"""The tutorial does what it says: every block is run, in order, in an empty folder.

CI runs it twice (`make tutorial`): each command in this process after a few epochs, to look at what it leaves, and as a
newcomer at a shell: the installed command, all epochs, and the page's own output.
"""

import csv
import re
import resource
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import networkx
import pytest

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"
TWO_MINUTES = 120
FEW_EPOCHS = ["--epochs", "10"]


class Block(NamedTuple):
    kind: str
    """``python``, ``bash``, or ``text``, then what the page says about it: a file's name, or that it is learned."""
    body: str

    @property
    def commands(self) -> list[list[str]]:
        return [shlex.split(line) for line in self.body.splitlines() if self.kind == "bash"]


def blocks() -> list[Block]:
    found = re.findall(r"^```(\S[^\n]*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [Block(kind, body) for kind, body in found]


def in_order(text: str, shown: str) -> bool:
    """Whether all that the page shows is there, word for word; what stands for `…` may be anything."""
    words = " ".join(text.split())
    place = 0
    for fragment in shown.split("…"):
        wanted = " ".join(fragment.split())
        place = words.find(wanted, place)
        if place < 0:
            return False
        place += len(wanted)
    return True


def run_bandana(arguments: list[str]) -> int:
    from bandana.__main__ import main

    sys.argv = arguments
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def links_of_les_miserables() -> set[frozenset[str]]:
    return {frozenset(link) for link in networkx.les_miserables_graph().edges}


def recommended(folder: Path) -> Iterator[frozenset[str]]:
    rows = csv.DictReader((folder / "recommended.csv").open(encoding="utf-8"))
    return (frozenset((row["source"], row["target"])) for row in rows)


def check_files(folder: Path) -> None:
    for name in ("people", "wines", "newer"):
        assert {"embeddings.parquet", "model", "report.html", "run.json"} <= {p.name for p in (folder / name).iterdir()}
    pairs = list(recommended(folder))
    assert len(set(pairs)) == 10
    assert not links_of_les_miserables() & set(pairs)
    changed = list(csv.DictReader((folder / "newer" / "changed.csv").open(encoding="utf-8")))
    assert [row["id"] for row in changed if row["status"] == "new"] == ["blend"]
    labels = list(csv.DictReader((folder / "wines" / "labels.csv").open(encoding="utf-8")))
    assert len(labels) == 178
    assert all(0 <= float(row["probability"]) <= 1 for row in labels)


def test_the_page_is_made_of_blocks_that_are_understood() -> None:
    assert {block.kind.split()[0] for block in blocks()} == {"python", "bash", "text"}
    commands = [command for block in blocks() for command in block.commands]
    assert {command[0] for command in commands} == {"bandana"}
    assert {command[1] for command in commands} >= {"embed", "similar", "links", "why", "classify"}


@pytest.mark.parametrize(
    ("shown", "found"), [("a …\nc", True), ("a b c", True), ("… b …", True), ("b … a", False), ("a b d", False)]
)
def test_shown_output_is_compared_word_for_word(shown: str, found: bool) -> None:
    assert in_order("a  b\nc\n", shown) is found


@pytest.mark.slow
def test_every_command_works_after_a_few_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks():
        if block.kind == "python" and "GraphEmbedder" not in block.body:
            exec(compile(block.body, str(PAGE), "exec"), {})
        for command in block.commands:
            few = FEW_EPOCHS if command[1] == "embed" and "--model" not in command else []
            assert run_bandana([*command, *few]) == 0, capsys.readouterr().err
    check_files(tmp_path)


def seconds_of_children() -> float:
    """Of the processor: on a quiet machine no less than a clock shows, and the same on a busy one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.slow
def test_a_newcomer_reads_what_the_page_shows_within_two_minutes(tmp_path: Path) -> None:
    bandana = Path(sys.executable).with_name("bandana")
    started, output, until_link = seconds_of_children(), "", None
    for block in blocks():
        if block.kind in ("python", "bash"):
            programs = [[bandana, *command[1:]] for command in block.commands] or [[sys.executable, "-c", block.body]]
            ended = [
                subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
                for program in programs
            ]
            assert [done.returncode for done in ended] == [0] * len(ended), ended[-1].stderr
            output = "".join(done.stderr + done.stdout for done in ended)
            if until_link is None and (tmp_path / "recommended.csv").exists():
                until_link = seconds_of_children() - started
        elif block.kind == "text":
            assert in_order(output, block.body), f"{block.body}\nis not in\n{output}"
        elif block.kind != "text learned":
            named = (tmp_path / block.kind.removeprefix("text ")).read_text(encoding="utf-8")
            assert in_order(named, block.body)
    check_files(tmp_path)
    assert until_link is not None
    assert until_link < TWO_MINUTES
    assert frozenset(("MmeHucheloup", "Prouvaire")) in set(recommended(tmp_path))
