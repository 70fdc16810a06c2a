"""The examples for clusters: scripts that a shell and a cluster can read, and settings that outlive a resubmission."""

import os
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from bandana.config import nest, parse_assignment, patch
from bandana.scale.batches import ShardConfig

CLUSTER = Path(__file__).parents[2] / "examples" / "cluster"
SLURM = CLUSTER / "slurm.sh"

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")


@pytest.fixture
def submit(tmp_path: Path):
    """Run the script as SLURM would on some machines; return the words behind ``srun``."""
    for name, line in {"srun": 'printf "%s\\n" "$@"', "scontrol": "seq -f host%g 100000 | sed 1s/.*/first/"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)

    def run(nodes: int, gpus: int, **more: str) -> list[str]:
        told = {"SLURM_JOB_NUM_NODES": str(nodes), "SLURM_GPUS_ON_NODE": str(gpus), "SLURM_JOB_ID": "12345"}
        told |= {"SLURM_JOB_NODELIST": "hosts", "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        command = ["bash", str(SLURM), "my store", "runs/store"]
        done = subprocess.run(command, env={**told, **more}, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    return run


def settings_in(words: list[str]) -> ShardConfig:
    """The settings of batches that a command line asks for."""
    assigned = [word for option, word in pairwise(words) if option == "--set"]
    assigned += [word.removeprefix("--set=") for word in words if word.startswith("--set=")]
    changes = nest(dict(map(parse_assignment, assigned)))
    return patch(ShardConfig(), changes["shards"])


def test_the_script_is_sound() -> None:
    subprocess.run(["bash", "-n", str(SLURM)], check=True)


def test_a_job_that_is_submitted_to_other_machines_keeps_its_settings(submit) -> None:
    words = {(nodes, gpus): submit(nodes, gpus) for nodes, gpus in ((2, 4), (1, 4), (1, 1))}
    for (nodes, gpus), said in words.items():
        assert said[said.index("--nnodes") + 1] == str(nodes)
        assert said[said.index("--nproc-per-node") + 1] == str(gpus)
        assert said[said.index("--rdzv-endpoint") + 1] == "first:32345"
        assert said[said.index("-m") : said.index("--set")] == [
            *("-m", "bandana", "run", "bandana", "my store", "--out", "runs/store")
        ]
        assert settings_in(said).groups_per_step % (nodes * gpus) == 0
    assert len({settings_in(said) for said in words.values()}) == 1
    assert settings_in(submit(4, 4, GROUPS_PER_STEP="16")).groups_per_step == 16


def test_the_job_for_kubernetes_is_sound() -> None:
    yaml = pytest.importorskip("yaml")
    service, job = yaml.safe_load_all((CLUSTER / "kubernetes.yaml").read_text())
    assert (service["kind"], job["kind"]) == ("Service", "Job")
    pod = job["spec"]["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"]["job-name"] == job["metadata"]["name"]
    container = pod["containers"][0]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    words = container["args"]
    options = dict(word.removeprefix("--").split("=", 1) for word in words if word.startswith("--"))
    assert int(options["nnodes"]) == job["spec"]["completions"] == job["spec"]["parallelism"]
    first_pod = f"{job['metadata']['name']}-0.{service['metadata']['name']}"
    assert options["rdzv-endpoint"].startswith(f"{first_pod}:")
    assert settings_in(words).groups_per_step % (int(options["nnodes"]) * int(options["nproc-per-node"])) == 0
