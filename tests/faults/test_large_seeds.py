"""Every verb refuses a seed that numpy would not take before it does any work, where there used to be a traceback."""

import sys
from pathlib import Path

import pytest

from bandana.__main__ import main
from bandana.cli import options
from bandana.engine import streams
from bandana.terminal import own, research, scale, tune

VERBS = {
    "embed": ("embed", "edges.csv", "--seed"),
    "run": ("run", "bandana", "karate", "--first-seed"),
    "run, last seed": ("run", "bandana", "karate", "--first-seed", str(2**32 - 5), "--seeds"),
    "partition": ("partition", "edges.csv", "store", "--seed"),
    "tune": ("tune", "bandana", "karate", "--sampler-seed"),
}


def test_the_command_line_and_the_library_have_one_bound() -> None:
    assert options.LARGEST_SEED == streams.LARGEST_SEED


@pytest.mark.parametrize("seed", [2**32, 99999999999999999999])
@pytest.mark.parametrize("verb", VERBS)
def test_a_seed_beyond_32_bits_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str, seed: int
) -> None:
    work = [(research, "run_and_show"), (own, "embed_and_show"), (scale, "partition_and_show"), (tune, "tune_and_show")]
    for module, name in work:
        monkeypatch.setattr(module, name, lambda *_: pytest.fail("work was begun"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bandana", *VERBS[verb], str(seed)])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert VERBS[verb][-1] in said
    assert "4294967295" in said
