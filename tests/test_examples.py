"""The examples run, each after a few epochs, and say what they promise."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import networkx as nx
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name: str) -> ModuleType:
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {"miserables", "digits"}


def test_characters_are_grouped_once_each(capsys: pytest.CaptureFixture[str]) -> None:
    groups = example("miserables").grouped(nx.les_miserables_graph(), 4, epochs=3, seed=0)
    assert sorted(name for group in groups for name in group) == sorted(nx.les_miserables_graph())
    assert [len(group) for group in groups] == sorted(map(len, groups), reverse=True)
    example("miserables").main(["--groups", "3", "--epochs", "3"])
    *lines, last = capsys.readouterr().out.splitlines()
    assert sum(int(line.split()[0]) for line in lines) == 77
    assert last.startswith("modularity")


@pytest.mark.slow
@pytest.mark.slow
def test_digits_are_read_from_a_few_labels(capsys: pytest.CaptureFixture[str]) -> None:
    example("digits").main(["--epochs", "5", "--labels", "40"])
    found = re.fullmatch(r"1757 digits read from 40 labels: (.*)% right, from pixels (.*)%\n", capsys.readouterr().out)
    assert found is not None
    assert all(30 < float(share) <= 100 for share in found.groups())  # guessing gets 10


@pytest.mark.slow
def test_vectors_read_digits_better_than_pixels(capsys: pytest.CaptureFixture[str]) -> None:
    example("digits").main([])
    found = re.search(r": (.*)% right, from pixels (.*)%", capsys.readouterr().out)
    assert found is not None
    learned, floor = map(float, found.groups())
    assert learned > floor
