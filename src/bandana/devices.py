"""Where to compute."""

import os
import shutil
import subprocess
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from subprocess import DEVNULL, PIPE
from tempfile import mkdtemp

import torch

from bandana import workers
from bandana.errors import UserError

SHARING_SERVICE = "nvidia-cuda-mps-control"
SECONDS_TO_START = 10.0
SECONDS_BETWEEN_QUESTIONS = 0.1
SHARE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
MOST_ON_A_CARD = 48
"""Processes that the service takes, from compute capability 7.0 on."""
PROCESSES_ON_A_CORE = 4
"""How many times over the shares of all processes cover the card (docs/adr/0014-seeds-in-processes.md)."""


def resolve_device(name: str) -> torch.device:
    """``auto`` takes the GPU when there is one. Of several, processes that share work take one each, in turn.

    Raises:
        UserError: There is no such choice, or CUDA was asked for and is not there.
    """
    if name not in ("auto", "cpu", "cuda"):
        kind, _, card = str(name).partition(":")
        hint = f" CUDA_VISIBLE_DEVICES chooses the card: CUDA_VISIBLE_DEVICES={card or 0} bandana … --device cuda."
        rule = f"--device: {name!r} is not a choice. Choose from: auto, cpu, cuda."
        raise UserError(rule + (hint if kind == "cuda" else ""))
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise UserError("--device cuda: torch sees no CUDA device here. Use --device cpu, or auto.")
    if not available or name == "cpu":
        return torch.device("cpu")
    _take_own_card()
    return torch.device("cuda")


def _take_own_card() -> None:
    """Let ``cuda`` mean, in one of several processes that share work, the card that falls to it."""
    if (number := workers.number()) is not None:
        torch.cuda.set_device(number % torch.cuda.device_count())


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Let torch use so many threads on the CPU meanwhile, also for each thread that is begun in here."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def shared_gpu(device: torch.device, processes: int) -> Iterator[None]:
    """Let processes begun in here compute on the GPU at the same time, where NVIDIA's service for that can be started.

    Without it a GPU serves processes in turns, and a warning says so. A service of somebody else, where CUDA looks for
    one or ``CUDA_MPS_PIPE_DIRECTORY`` names its folder, is used and left alone. Each process may use a share of the
    card's cores (unless `SHARE` is set already): a kernel that has them all to itself keeps the short kernels of the
    others waiting.

    Raises:
        UserError: There are more processes than the service takes.
    """
    if device.type != "cuda" or processes == 1:
        yield
        return
    if processes > (most := MOST_ON_A_CARD * max(torch.cuda.device_count(), 1)):
        rule = f"at most {MOST_ON_A_CARD} processes can share a card"
        raise UserError(f"--jobs {processes}: {rule}. Use --jobs {most} or fewer.")
    if "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        with workers.changed_environment(_share(processes)):
            yield
    elif (program := shutil.which(SHARING_SERVICE)) is None:
        _warn_of_turns(processes, "is not installed")
        yield
    elif _is_there(program):
        with workers.changed_environment(_share(processes)):
            yield
    else:
        with _private_service(program) as place:
            serves = _serves(program, place)
            if not serves:
                _warn_of_turns(processes, "does not serve here")
            with workers.changed_environment({**place, **_share(processes)} if serves else {}):
                yield


def _warn_of_turns(processes: int, problem: str) -> None:
    warnings.warn(
        f"--jobs {processes}: {SHARING_SERVICE} {problem}, so processes take turns on the card, which gains little. "
        "Install or start that service (CUDA_MPS_PIPE_DIRECTORY names the folder of one that runs), or use --jobs 1.",
        stacklevel=4,  # past `shared_gpu` and its context manager: whoever wanted to share
    )


@contextmanager
def _private_service(program: str) -> Iterator[dict[str, str]]:
    """Starts the service in a folder of its own and gives the settings that lead there; ends both afterwards."""
    folder = mkdtemp(prefix="bandana-gpu-")
    place = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
    service = subprocess.Popen(  # noqa: S603 (a script of ours and NVIDIA's program, nothing of a user's in it)
        ["/bin/sh", "-c", _UNTIL_DESERTED, program],
        env=_for_service(place),
        stdin=PIPE,
        stdout=DEVNULL,
        stderr=DEVNULL,
        start_new_session=True,  # Ctrl-C is not meant for it
    )
    try:
        yield place
    finally:
        assert service.stdin is not None
        service.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            service.wait(SECONDS_TO_START)


_UNTIL_DESERTED = """
"$0" -f &
while read -r _; do :; done  # ends with whoever holds the other end, however that one ends
echo quit | "$0"
wait
rm -rf "$CUDA_MPS_PIPE_DIRECTORY"
"""


def _share(processes: int) -> dict[str, str]:
    """Per cent of a card for each process, so that no core serves more than a few; nothing where that is all."""
    percent = PROCESSES_ON_A_CORE * 100 // -(-processes // max(torch.cuda.device_count(), 1))
    return {} if SHARE in os.environ or percent >= 100 else {SHARE: str(percent)}


def _serves(program: str, place: Mapping[str, str]) -> bool:
    """Whether the service starts a server for this user."""
    ends, status = time.monotonic() + SECONDS_TO_START, ""
    while time.monotonic() < ends and status not in ("ACTIVE", "FAULT"):
        _ask(program, place, f"start_server -uid {os.getuid()}")
        if server := _ask(program, place, "get_server_list"):
            status = _ask(program, place, f"get_server_status {server.split()[0]}")
        time.sleep(SECONDS_BETWEEN_QUESTIONS)
    return status == "ACTIVE"


def _is_there(program: str) -> bool:
    """Whether a service runs where processes look for one that nobody has named: they use it whatever we start."""
    return _ask(program, {}, "get_default_active_thread_percentage").replace(".", "", 1).isdigit()


def _ask(program: str, place: Mapping[str, str], question: str) -> str:
    """The answer of the service; nothing, if it has none."""
    with suppress(subprocess.TimeoutExpired):
        answer = subprocess.run(  # noqa: S603
            [program],
            env=_for_service(place),
            input=f"{question}\n",
            check=False,
            capture_output=True,
            text=True,
            timeout=SECONDS_TO_START,
        )
        return answer.stdout.strip()
    return ""


def _for_service(place: Mapping[str, str]) -> dict[str, str]:
    """The service sees all cards: processes choose among those that it sees, by their own ``CUDA_VISIBLE_DEVICES``."""
    return {**{name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}, **place}
