"""Two hosts: network namespaces, joined by a cable of which every byte is counted. Needs root, and Linux."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from processes import clustered_store
from safetensors.torch import load_file

import bandana
from bandana.scale.estimate import Sizes, training_costs
from bandana.scale.store import Store
from bandana.store_estimate import time_training
from bandana.store_experiment import StoreExperiment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PORT = 29400  # of a network of our own, where everything is free
SETTINGS = {
    "training.epochs": 6,
    "training.evaluate_every": 3,
    "training.patience_evaluations": 0,
    "model.encoder.width": 256,
    "shards.parts_per_group": 1,
}


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture
def hosts() -> Iterator[list[str]]:
    """Names of two namespaces; the cable ends in ``eth`` in both, with the addresses 10.77.0.1 and 10.77.0.2."""
    if sys.platform != "linux" or shutil.which("ip") is None:
        pytest.skip("there is no ip command, which makes network namespaces")
    names = [f"bandana-{os.getpid()}-{number}" for number in (1, 2)]
    made = []
    try:
        for name in names:
            ip("netns", "add", name)
            made.append(name)
        ip("link", "add", "eth", "netns", names[0], "type", "veth", "peer", "name", "eth", "netns", names[1])
        for number, name in enumerate(names, start=1):
            ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", "eth")
            for device in ("lo", "eth"):
                ip("-n", name, "link", "set", device, "up")
    except subprocess.CalledProcessError as problem:
        for name in made:
            ip("netns", "del", name)
        pytest.skip(f"this system makes no network namespaces: {problem.stderr.strip()}")
    yield names
    for name in names:
        ip("netns", "del", name)


def sent_bytes(host: str) -> int:
    command = ["ip", "netns", "exec", host, "cat", "/proc/net/dev"]
    table = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    row = next(line for line in table.splitlines() if line.strip().startswith("eth:"))
    return int(row.split(":")[1].split()[8])


def launch(host: str, number: int, store: Path, out: Path) -> subprocess.Popen[str]:
    """One half of a job, as docs/scale.md has it; without name servers, hosts must be told which of them they are."""
    meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"10.77.0.1:{PORT}", "--rdzv-id", "job"]
    own = ["--local-addr", f"10.77.0.{number}", "--rdzv-conf", f"is_host={int(number == 1)}"]
    search = os.pathsep.join([str(Path(bandana.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        ["ip", "netns", "exec", host, sys.executable, "-m", "torch.distributed.run"]
        + ["--nnodes", "2", "--nproc-per-node", "1", *meeting, *own]
        + ["-m", "bandana", "run", "bandana", str(store), "--task", "link", "--device", "cpu", "--out", str(out)]
        + [text for key, value in SETTINGS.items() for text in ("--set", f"{key}={value}")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth"},
    )


def test_two_hosts_learn_what_one_learns_and_send_what_was_estimated(hosts: list[str], tmp_path: Path) -> None:
    store = clustered_store(tmp_path / "store", num_parts=32, nodes_per_part=30).folder
    before = sent_bytes(hosts[0])
    halves = [launch(host, number, store, tmp_path / "two") for number, host in enumerate(hosts, start=1)]
    said = [half.communicate(timeout=200)[0] for half in halves]
    assert [half.returncode for half in halves] == [0, 0], said
    sent = sent_bytes(hosts[0]) - before

    experiment = StoreExperiment.of("bandana", store, "link", SETTINGS)
    piece, model = time_training(experiment, Store.open(store), 2, torch.device("cpu"))
    sizes = Sizes.of(Store.open(store))
    costs = training_costs(sizes, piece, model, experiment.training, experiment.shards, processes=2)
    assert 0.5 <= sent / costs.sent <= 2, (sent, costs.sent)

    one = [sys.executable, "-m", "bandana", "run", str(tmp_path / "two" / "config.toml"), "--device", "cpu"]
    subprocess.run([*one, "--out", str(tmp_path / "one")], check=True, capture_output=True)
    two, alone = (load_file(tmp_path / name / "seed-0" / "weights.safetensors") for name in ("two", "one"))
    for name, weight in alone.items():
        torch.testing.assert_close(two[name], weight, rtol=1e-2, atol=1e-3, msg=name)
