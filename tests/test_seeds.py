"""Seeds side by side: results in order, news on the way, one that fails stops the others, and the card is shared.

That a run leaves the same files whatever the number of jobs is shown in `test_cli.py`.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bandana import devices, seeds, workers
from bandana.devices import resolve_device, shared_gpu
from bandana.errors import UserError
from bandana.experiment import run
from bandana.paper.cookbook import recipe
from bandana.seeds import SideBySide, side_by_side, telling
from bandana.training.trainer import TrainingState
from bandana.workers import Outcome, Team, tell

CPU = torch.device("cpu")


class StandIn:
    """A team without processes, whose last piece is done first and whose first one fails if it is told to."""

    def __init__(self, work: Any, jobs: int) -> None:
        self.work = work

    def __enter__(self) -> "StandIn":
        return self

    def __exit__(self, *problem: object) -> None:
        pass

    def carry_out(self, pieces: Any, on_news: Any) -> Iterator[Outcome]:
        for piece in reversed(list(pieces)):
            on_news(piece, TrainingState(epoch=1))
            on_news(piece, TrainingState(epoch=2))
            failure = piece[3]
            yield Outcome(piece, None if failure else self.work(*piece), failure)


@pytest.fixture
def carry_out(monkeypatch: pytest.MonkeyPatch) -> Iterator[SideBySide]:
    monkeypatch.setattr(seeds, "Team", StandIn)
    with side_by_side(CPU, 2) as function:
        yield function


def first_of(*arguments: Any) -> Any:
    return arguments[0]


def test_results_keep_their_order_and_news_go_to_their_seed(carry_out: SideBySide) -> None:
    seen: list[tuple[int, int]] = []
    begun: list[int] = []

    def on_seed(seed: int) -> Any:
        begun.append(seed)
        return lambda state: seen.append((seed, state.epoch))

    assert carry_out(first_of, [(seed, "") for seed in (7, 3, 5)], on_seed) == [7, 3, 5]
    assert begun == [5, 3, 7], "each is asked for once, with its first news"
    assert seen == [(5, 1), (5, 2), (3, 1), (3, 2), (7, 1), (7, 2)]


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ("UserError: Training diverged.", "Seed 3: Training diverged."),
        ("OSError: disk full", "Seed 3: OSError: disk full"),
        ("the process ended with code -9", "Seed 3: the process ended with code -9"),
    ],
)
def test_a_seed_that_fails_is_named(carry_out: SideBySide, failure: str, said: str) -> None:
    with pytest.raises(UserError, match=f"^{said}$"):
        carry_out(first_of, [(7, ""), (3, failure), (5, "")], lambda seed: lambda state: None)


@pytest.mark.parametrize("wrong", [2**32, -1, 1.0, "0", True])
@pytest.mark.parametrize("jobs", [1, 2])
def test_seeds_that_would_repeat_others_are_refused(wrong: Any, jobs: int) -> None:
    """A CPU generator reads 32 bits: 2**32 would be seed 0 once more."""
    with pytest.raises(UserError, match=rf"seeds: must be whole numbers from 0 to 4294967295, got {wrong!r};"):
        run(recipe("bandana", "karate", "link"), seeds=(0, wrong), device="cpu", jobs=jobs)
    with pytest.raises(UserError, match="seeds: there is none, so there is nothing to run"):
        run(recipe("bandana", "karate", "link"), seeds=[], device="cpu", jobs=jobs)


def test_seeds_may_be_numbers_of_numpy() -> None:
    assert seeds.checked(np.arange(2**32 - 2, 2**32)) == [2**32 - 2, 2**32 - 1]


def test_news_come_no_faster_than_one_can_see_and_the_last_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    now = iter([10.0, 10.0, 10.1, 10.3, 10.3, 10.4])
    monkeypatch.setattr("bandana.seeds.tell", lambda state: told.append(state.epoch))
    monkeypatch.setattr("bandana.seeds.time.monotonic", lambda: next(now))
    with telling() as on_epoch:
        for epoch in range(1, 5):
            on_epoch(TrainingState(epoch=epoch))
        assert told == [1, 3]
    assert told == [1, 3, 4]


def test_news_come_before_the_outcome_and_outside_of_a_team_nobody_is_told() -> None:
    heard: list[Any] = []
    tell("to nobody")
    with Team(tell, 1) as team:
        outcomes = team.carry_out([("Ada",), ("Bo",)], on_news=lambda piece, news: heard.append((piece, news)))
        heard.extend(outcome.arguments for outcome in outcomes)
    assert heard == [(("Ada",), "Ada"), ("Ada",), (("Bo",), "Bo"), ("Bo",)]


def test_whoever_stops_asking_ends_the_work_under_way() -> None:
    with Team(time.sleep, 2) as team:
        outcomes = team.carry_out([(600,), (0,)])
        assert next(outcomes).arguments == (0,)
        outcomes.close()  # type: ignore[attr-defined]
        assert [outcome.arguments for outcome in team.carry_out([(0.0,)])] == [(0.0,)], "nothing comes in late"
    assert not multiprocessing.active_children()


def test_a_piece_may_wait_for_the_outcome_of_another() -> None:
    seen: list[Any] = []

    def pieces() -> Iterator[tuple[int, int] | None]:
        yield 7, 2
        while not seen:  # asked at once, as the second process is free, and again when there is an outcome
            yield None
        yield seen[0], 2

    with Team(divmod, 2) as team:
        for outcome in team.carry_out(pieces()):
            seen.extend(outcome.result)
    assert seen == [3, 1, 1, 1]


def test_work_that_is_not_done_when_the_grace_is_over_is_forgotten() -> None:
    began = time.monotonic()
    with Team(time.sleep, 1) as team:
        assert list(team.carry_out([(600,)], budget=0.5, grace=0.5)) == []
    assert 1 <= time.monotonic() - began < 300


def test_a_process_that_died_while_it_waited_is_replaced() -> None:
    with Team(workers.number, 1) as team:
        (first,) = team.carry_out([()])
        (waiting,) = multiprocessing.active_children()
        waiting.kill()
        waiting.join()
        (second,) = team.carry_out([()])
    assert [(outcome.result, outcome.failure) for outcome in (first, second)] == [(0, ""), (1, "")]
    assert workers.number() is None, "here nobody is told what to do"


def test_a_process_that_dies_in_the_middle_of_its_answer_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut_off(self: Any) -> Any:
        raise OSError("got end of file during message")

    monkeypatch.setattr("multiprocessing.connection.Connection.recv", cut_off)
    (outcome,) = Team(os._exit, 1).carry_out([(3,)])
    assert outcome.failure == "the process ended with code 3"


@pytest.mark.skipif(sys.platform == "win32", reason="asks Linux which signals are blocked")
def test_an_interrupt_does_not_reach_the_processes() -> None:
    with Team(signal.pthread_sigmask, 1) as team:
        (outcome,) = team.carry_out([(signal.SIG_BLOCK, ())])
    assert signal.SIGINT in outcome.result
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


SERVICE = """#!{python}
import os, pathlib, sys, time
if "CUDA_MPS_PIPE_DIRECTORY" not in os.environ:
    print("{elsewhere}")
    sys.exit()
log = pathlib.Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"]).parent / "asked"
if sys.argv[1:] == ["-f"]:
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    while not (log.parent / "quit").exists():
        time.sleep(0.01)
    (log.parent / "ended").touch()
else:
    question = sys.stdin.read().strip()
    before = log.read_text() if log.exists() else ""
    with log.open("a") as file:
        print(question, file=file)
    if question == "quit":
        (log.parent / "quit").touch()
    status = "INITIALIZING" if "status" not in before else "{status}"
    print({{"get_server_list": "4711", "get_server_status 4711": status}}.get(question, ""))
"""
LIVING_ALONE = """
import os, sys, time, torch
from bandana.devices import shared_gpu
with shared_gpu(torch.device("cuda"), 2):
    print("begun", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stand-in for NVIDIA's program that writes down what it was asked, and is not ready at once."""
    for name in ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY", devices.SHARE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(devices, "SECONDS_BETWEEN_QUESTIONS", 0.0)

    def install(status: str, elsewhere: str = "Cannot find MPS control daemon process") -> Path:
        program = tmp_path / devices.SHARING_SERVICE
        program.write_text(SERVICE.format(python=sys.executable, status=status, elsewhere=elsewhere))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return tmp_path

    return install


needs_a_shell = pytest.mark.skipif(sys.platform == "win32", reason="NVIDIA's service is for Linux")


def complaints(processes: int) -> list[str]:
    """What a user is warned of who shares a GPU among so many processes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with shared_gpu(torch.device("cuda"), processes):
            pass
    assert all(Path(warning.filename) == Path(__file__) for warning in caught), "the place is the caller's"
    return [str(warning.message) for warning in caught]


@needs_a_shell
@pytest.mark.filterwarnings("ignore:--jobs 2")  # said where it does not serve, see below
@pytest.mark.parametrize("status", ["ACTIVE", "FAULT"])
def test_a_gpu_is_shared_by_a_service_that_ends_with_the_work(service: Any, status: str) -> None:
    folder = service(status)
    with shared_gpu(torch.device("cuda"), 2):
        place = os.environ.get("CUDA_MPS_PIPE_DIRECTORY")
        assert (place is not None) == (status == "ACTIVE"), "a service that does not work is not used"
    assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
    assert "CUDA_MPS_LOG_DIRECTORY" not in os.environ
    round_of_questions = [f"start_server -uid {os.getuid()}", "get_server_list", "get_server_status 4711"]
    assert (folder / "asked").read_text().splitlines() == [*round_of_questions, *round_of_questions, "quit"]
    assert (folder / "ended").exists()
    assert not list(folder.glob("bandana-gpu-*")), "nothing is left behind"


@needs_a_shell
@pytest.mark.parametrize(
    ("processes", "given", "share"), [(4, None, None), (16, None, "25"), (48, None, "8"), (16, "70", "70")]
)
def test_many_processes_get_a_share_of_the_card_each(
    service: Any, monkeypatch: pytest.MonkeyPatch, processes: int, given: str | None, share: str | None
) -> None:
    service("ACTIVE")
    if given is not None:
        monkeypatch.setenv(devices.SHARE, given)
    with shared_gpu(torch.device("cuda"), processes):
        assert os.environ.get(devices.SHARE) == share
    assert os.environ.get(devices.SHARE) == given


def test_more_processes_than_can_share_a_card_are_refused_before_any_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UserError, match=r"^--jobs 97: at most 48 processes .* Use --jobs 96 or fewer\.$"):
        shared_gpu(torch.device("cuda"), 97).__enter__()


@needs_a_shell
def test_processes_on_several_cards_share_each_with_fewer(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    service("ACTIVE")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with shared_gpu(torch.device("cuda"), 15):
        assert os.environ[devices.SHARE] == "50", "eight on a card"


@pytest.mark.parametrize(("number", "card"), [(None, []), (0, [0]), (5, [2])])
def test_processes_take_the_cards_in_turn(monkeypatch: pytest.MonkeyPatch, number: int | None, card: list[int]) -> None:
    taken: list[int] = []
    monkeypatch.setattr(workers, "_number", number)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    assert resolve_device("cuda") == torch.device("cuda")
    assert taken == card
    resolve_device("cpu")
    assert taken == card


@needs_a_shell
def test_a_service_that_runs_already_is_used_and_left_alone(service: Any) -> None:
    """Processes find it by themselves, so one of our own would serve nobody, and a warning would be wrong."""
    folder = service("FAULT", elsewhere="100.0")
    assert complaints(16) == []
    with shared_gpu(torch.device("cuda"), 16):
        assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
        assert os.environ[devices.SHARE] == "25"
    assert not (folder / "asked").exists()
    assert not list(folder.glob("bandana-gpu-*"))


@needs_a_shell
def test_settings_of_the_user_are_back_afterwards(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    service("ACTIVE")
    monkeypatch.setenv("CUDA_MPS_LOG_DIRECTORY", "mine")
    with shared_gpu(torch.device("cuda"), 2):
        assert os.environ["CUDA_MPS_LOG_DIRECTORY"] == os.environ["CUDA_MPS_PIPE_DIRECTORY"]
    assert os.environ["CUDA_MPS_LOG_DIRECTORY"] == "mine"


@needs_a_shell
def test_processes_that_take_turns_on_the_card_are_warned_of_once(
    service: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    service("FAULT")
    (broken,) = complaints(3)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    (missing,) = complaints(3)
    assert broken.startswith("--jobs 3: nvidia-cuda-mps-control does not serve here, so processes take turns")
    assert missing.startswith("--jobs 3: nvidia-cuda-mps-control is not installed, so processes take turns")
    assert broken.endswith("or use --jobs 1.")
    assert missing.endswith("or use --jobs 1.")
    assert complaints(1) == [], "one process has the card to itself"
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "theirs")
    assert complaints(3) == [], "a service that is there needs no program"


@needs_a_shell
def test_a_service_that_serves_is_not_warned_of(service: Any) -> None:
    service("ACTIVE")
    assert complaints(2) == []


@needs_a_shell
def test_a_service_does_not_outlive_whoever_started_it(service: Any) -> None:
    folder = service("ACTIVE")
    with subprocess.Popen([sys.executable, "-c", LIVING_ALONE], stdout=subprocess.PIPE, text=True) as boss:
        assert boss.stdout is not None
        assert boss.stdout.readline() == "begun\n"
        boss.kill()
    ends = time.monotonic() + 60
    while not (folder / "ended").exists() or list(folder.glob("bandana-gpu-*")):
        assert time.monotonic() < ends
        time.sleep(0.02)


@pytest.mark.parametrize(("device", "processes"), [("cpu", 2), ("cuda", 1)])
def test_no_service_is_started_where_nothing_is_shared(service: Any, device: str, processes: int) -> None:
    folder = service("ACTIVE")
    with shared_gpu(torch.device(device), processes):
        assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
    assert not (folder / "asked").exists()


@pytest.mark.parametrize(("given", "share"), [(None, "25"), ("70", "70")])
def test_a_service_of_somebody_else_is_left_alone_and_shared_alike(
    service: Any, monkeypatch: pytest.MonkeyPatch, given: str | None, share: str
) -> None:
    folder = service("ACTIVE")
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "theirs")
    if given is not None:
        monkeypatch.setenv(devices.SHARE, given)
    with shared_gpu(torch.device("cuda"), 16):
        assert os.environ["CUDA_MPS_PIPE_DIRECTORY"] == "theirs"
        assert os.environ[devices.SHARE] == share
    assert os.environ["CUDA_MPS_PIPE_DIRECTORY"] == "theirs"
    assert os.environ.get(devices.SHARE) == given
    assert not (folder / "asked").exists()


def test_who_names_a_card_hears_how_to_choose_it() -> None:
    with pytest.raises(UserError, match=r"'cuda:1' is not a choice.* CUDA_VISIBLE_DEVICES=1 bandana … --device cuda"):
        resolve_device("cuda:1")
    with pytest.raises(UserError, match=r"'tpu' is not a choice\. Choose from: auto, cpu, cuda\.$"):
        resolve_device("tpu")
