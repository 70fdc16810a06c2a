"""Processes forked from a server that has imported for all of them: they behave like any others, and cost less.

What holds for processes of either kind is shown in `test_seeds.py` and `test_benchmarks_published.py`, mostly by one
that works alone, which is not forked.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen, run
from typing import Any

import pytest
import torch

from bandana.workers import Team

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")

SECONDS = 60
BOSS = """
import os, signal, sys, time
from bandana.workers import Team, tell

def work(seconds):
    tell("begun")
    time.sleep(seconds)
    return os.getppid()

if __name__ == "__main__":
    signal.signal(signal.SIGINT, lambda *_: None)  # a handler, as new programs would go on ignoring what we ignore
    with Team(work, 2) as team:
        print("server", flush=True)
        pieces = [(float(seconds),) for seconds in sys.argv[1:]]
        for outcome in team.carry_out(pieces, on_news=lambda piece, news: print(news, flush=True)):
            print(outcome.failure or "answered", flush=True)
"""


FORKS = """
import json, os, sys
from pathlib import Path

import torch
from bandana import workers

def seen():
    server = os.getppid()
    threads = len(list(Path(f"/proc/{server}/task").iterdir()))
    missing = [name for name in workers._PRELOADED if name not in sys.modules]
    return {"server": server, "threads": threads, "missing": missing, "gpu": torch.cuda._is_in_bad_fork()}

if __name__ == "__main__":
    found = []
    for jobs in (2, 1):
        with workers.Team(seen, jobs) as team:
            found.append([outcome.result for outcome in team.carry_out([()] * jobs)])
    print(json.dumps({"boss": os.getpid(), "several": found[0], "alone": found[1]}))
"""


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What processes of a program see. Its own, since a program has one server, and here others have started theirs."""
    program = tmp_path_factory.mktemp("forks") / "forks.py"
    program.write_text(FORKS)
    found: dict[str, Any] = json.loads(run([sys.executable, str(program)], check=True, stdout=PIPE, text=True).stdout)
    return found


@contextmanager
def boss(folder: Path, *seconds: float) -> Iterator[Popen[str]]:
    """A program whose processes sleep, at the head of a group of its own, as if started from a terminal."""
    program, here = folder / "boss.py", folder / "here"
    program.write_text(BOSS)
    here.mkdir()
    (here / "torch.py").write_text("raise SystemExit")  # programs do not look for modules in the current folder
    command = [sys.executable, str(program), *map(str, seconds)]
    with Popen(command, cwd=here, stdout=PIPE, stderr=STDOUT, text=True, process_group=0) as started:
        try:
            yield started
        finally:
            started.kill()


def lines(program: Popen[str], count: int) -> list[str]:
    assert program.stdout is not None
    return [program.stdout.readline().strip() for _ in range(count)]


@pytest.mark.slow
def test_several_processes_are_forks_of_a_server_that_has_imported_for_them_and_one_alone_is_not(
    forks: dict[str, Any],
) -> None:
    (server,) = {process["server"] for process in forks["several"]}
    (alone,) = forks["alone"]
    assert alone["server"] == forks["boss"] != server
    assert not any(process["missing"] for process in forks["several"])


@pytest.mark.slow
def test_what_the_server_imports_starts_no_threads_and_leaves_the_gpu_alone(forks: dict[str, Any]) -> None:
    for process in forks["several"]:
        assert process["threads"] == 1
        assert not process["gpu"]


def test_the_environment_is_that_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    def seen() -> set[str | None]:
        with Team(os.getenv, 2) as team:
            return {outcome.result for outcome in team.carry_out([("BANDANA_TEST",), ("BANDANA_TEST",)])}

    monkeypatch.delenv("BANDANA_TEST", raising=False)
    assert seen() == {None}
    monkeypatch.setenv("BANDANA_TEST", "1")
    assert seen() == {"1"}
    monkeypatch.delenv("BANDANA_TEST")
    assert seen() == {None}


@pytest.mark.parametrize(("end", "value", "code"), [(os._exit, 3, 3), (signal.raise_signal, signal.SIGKILL, -9)])
def test_a_process_that_ends_early_says_with_which_code(end: Callable[[int], None], value: int, code: int) -> None:
    with Team(end, 2) as team:
        assert [outcome.failure for outcome in team.carry_out([(value,)])] == [f"the process ended with code {code}"]


def test_a_server_that_dies_as_it_is_asked_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang_up(_: object) -> None:
        raise EOFError

    monkeypatch.setattr(forkserver, "connect_to_new_process", hang_up)
    with Team(os.getppid, 2) as team:
        assert [outcome.result for outcome in team.carry_out([(), ()])] == [os.getpid()] * 2


@pytest.mark.slow
def test_an_interrupt_of_all_reaches_only_the_boss(tmp_path: Path) -> None:
    with boss(tmp_path, 1, 1) as program:
        assert lines(program, 1) == ["server"]
        os.killpg(program.pid, signal.SIGINT)  # while the server imports
        assert lines(program, 2) == ["begun", "begun"]
        os.killpg(program.pid, signal.SIGINT)
        assert program.communicate(timeout=SECONDS)[0].split() == ["answered", "answered"]


@pytest.mark.slow
@pytest.mark.parametrize("begun", [0, 2])
def test_nobody_outlives_the_boss(tmp_path: Path, begun: int) -> None:
    with boss(tmp_path, 600, 600) as program:
        assert lines(program, 1 + begun) == ["server", *["begun"] * begun]
        program.kill()
        program.communicate(timeout=SECONDS)  # ends with the last of those who could still write


@pytest.mark.cuda
def test_forks_use_the_gpu() -> None:
    torch.cuda.init()  # here it is in use already
    with Team(torch.cuda.mem_get_info, 2) as team:
        assert [outcome.failure for outcome in team.carry_out([(), ()])] == ["", ""]
