"""Whatever is wrong with what `embed` is given, it ends in one sentence with code 2, and nothing is written."""

import errno
import importlib.util
import json
import os
import pickle
import re
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bandana import files, model_folder
from bandana.__main__ import main
from bandana.errors import UserError
from bandana.own.outputs import check_place
from bandana.terminal import own as terminal

EDGES = "".join(f"n{a},n{(a + step) % 30}\n" for a in range(30) for step in (1, 2))
FEATURES = "id,size\n" + "".join(f"n{a},{a * 7 % 11}.5\n" for a in range(30))
QUICK = ("--epochs", "2", "--dimensions", "8", "--device", "cpu")


def table_of_bad_input() -> dict[str, object]:
    """The malformed files that the readers are tried with."""
    path = Path(__file__).parents[1] / "data" / "test_bad_input.py"
    spec = importlib.util.spec_from_file_location("table_of_bad_input", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.BAD


BAD = table_of_bad_input()


class Answer(NamedTuple):
    code: int
    said: str


Bandana = Callable[..., Answer]


@pytest.fixture
def bandana(tmp_path: Path, monkeypatch, capsys) -> Bandana:
    """Run a command in a folder, as the shell would."""
    monkeypatch.chdir(tmp_path)

    def call(*words: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["bandana", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        return Answer(code, capsys.readouterr().err)

    return call


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph, and what `embed` made of it."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "edges.csv").write_text(EDGES)
    (folder / "features.csv").write_text(FEATURES)
    files = ("embed", folder / "edges.csv", "--features", folder / "features.csv", "-o", folder / "out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["bandana", *map(str, files), *QUICK])
        with pytest.raises(SystemExit) as end:
            main()
    assert not end.value.code
    return folder


@pytest.fixture
def earlier(made: Path, tmp_path: Path) -> Path:
    """A copy of it to work on."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def everything(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def finished(folder: Path) -> dict[str, bytes | None]:
    """All but the checkpoint of a training that could not be brought to its end."""
    return {name: content for name, content in everything(folder).items() if ".unfinished" not in name}


def one_sentence(answer: Answer) -> str:
    """What the last line says; code 2, and no traceback."""
    assert answer.code == 2, answer.said
    assert "Traceback" not in answer.said
    lines = [line for line in answer.said.splitlines() if line.startswith("Error: ")]
    assert lines == answer.said.splitlines()[-1:], "one line, and the last"
    sentence = lines[0].removeprefix("Error: ")
    assert sentence[-1] in ".?"
    return sentence


@pytest.mark.parametrize("name", BAD)
def test_bad_tables(bandana: Bandana, tmp_path: Path, name: str) -> None:
    bad = BAD[name]
    words = ["embed", "edges", "-o", "out"]
    for role in ("edges", "features", "labels"):
        content = getattr(bad, role)
        if content is not None:
            (tmp_path / role).write_bytes(content.encode() if isinstance(content, str) else content)
            words += [] if role == "edges" else [f"--{role}", role]
    for column, asked in bad.asked.items():
        words += [f"--{column}-column", asked]
    before = everything(tmp_path)
    sentence = one_sentence(bandana(*words))
    assert sentence.startswith(f"{bad.place}: ")
    assert re.search(bad.says, sentence)
    assert everything(tmp_path) == before


BAD_OPTIONS = {
    "no such method": (("--method", "bandanna"), "Did you mean 'bandana'"),
    "no such setting": (("--set", "training.speed=3"), r"training\.speed"),
    "no value": (("--set", "training.lr"), "training.lr"),
    "no such format": (("--format", "csv"), "--format: 'csv' is not a choice"),
    "no such answer": (("--header", "maybe"), "--header: 'maybe' is not a choice"),
    "no such treatment": (("--missing", "ignore"), "--missing: 'ignore' is not a choice"),
    "no such device": (("--device", "abacus"), "abacus"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_options(bandana: Bandana, earlier: Path, name: str) -> None:
    words, says = BAD_OPTIONS[name]
    before = everything(earlier)
    assert re.search(says, one_sentence(bandana("embed", "edges.csv", "-o", "out", *words)))
    assert everything(earlier) == before


def test_an_id_that_a_format_cannot_hold_is_refused_before_the_training(bandana: Bandana, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text('a,b\n"b\tc",a\n')
    sentence = one_sentence(bandana("embed", "edges.csv", "--format", "tsv", "-o", "out"))
    assert sentence.startswith("out/embeddings.tsv: ")
    assert not (tmp_path / "out").exists()


def test_the_place_is_looked_at_before_anything_is_read(bandana: Bandana, earlier: Path, monkeypatch) -> None:
    monkeypatch.setattr(terminal, "read_graph", None)
    (earlier / "mine").mkdir()
    (earlier / "mine" / "thesis.tex").write_text("years of work")
    assert "was not made by bandana embed" in one_sentence(bandana("embed", "edges.csv", "-o", "mine"))
    (earlier / "out" / "thesis.tex").write_text("years of work")
    assert "out/thesis.tex: was not written by bandana" in one_sentence(bandana("embed", "edges.csv", "-o", "out"))
    assert "is not a folder" in one_sentence(bandana("embed", "edges.csv", "-o", "edges.csv/out"))
    assert "edges.csv would destroy it; choose another place" in one_sentence(
        bandana("embed", "edges.csv", "-o", "edges.csv")
    )
    assert (earlier / "mine" / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize(
    ("method", "says"),
    [("smoothed_features", "has nothing to tune.* Or leave out --tune"), ("bandanna", "Did you mean .bandana.")],
)
def test_a_search_without_anything_to_search_is_refused_at_once(
    bandana: Bandana, earlier: Path, monkeypatch, method: str, says: str
) -> None:
    monkeypatch.setattr(terminal, "read_graph", None)
    assert re.search(says, one_sentence(bandana("embed", "edges.csv", "-o", "new", "--method", method, "--tune", "2")))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_no_permission_to_write(bandana: Bandana, earlier: Path) -> None:
    (earlier / "closed").mkdir(mode=0o500)
    assert "may not be written to" in one_sentence(bandana("embed", "edges.csv", "-o", "closed/out"))


def test_a_place_that_may_not_be_written_to(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(files.os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(UserError, match=r"cannot be written, because .* may not be written to\. Choose another"):
        check_place(tmp_path / "out")


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The kernel refuses to let a file grow beyond this, as it does on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@contextmanager
def limited(patch: pytest.MonkeyPatch, stage: str, size: int) -> Iterator[None]:
    """One function of the terminal meets a full disk."""
    real = getattr(terminal, stage)

    def on_a_full_disk(*args: Any, **options: Any) -> Any:
        with files_of_at_most(size):
            return real(*args, **options)

    with patch.context() as local:
        local.setattr(terminal, stage, on_a_full_disk)
        yield


@pytest.mark.parametrize("size", [0, 2_500, 20_000])
def test_no_space_for_a_file(bandana: Bandana, earlier: Path, monkeypatch, size: int) -> None:
    before = everything(earlier)
    words = ("embed", "edges.csv", "--features", "features.csv", "-o", "out", *QUICK)
    with limited(monkeypatch, "write_embedded", size):
        sentence = one_sentence(bandana(*words))
    assert re.match(r"out(/[\w./]+)?: cannot be written \(.*\)\. Free space or choose another folder", sentence)
    assert finished(earlier) == before
    monkeypatch.setattr(terminal, "write_embedded", lambda *args, **options: None)
    assert "Going on after epoch 2 of 2" in bandana(*words).said  # with space, nothing is trained again


def test_no_space_for_a_checkpoint(bandana: Bandana, earlier: Path, monkeypatch) -> None:
    before = everything(earlier)
    with limited(monkeypatch, "learn_own", 100):
        sentence = one_sentence(bandana("embed", "edges.csv", "-o", "out", *QUICK))
    place = r"\.out\.unfinished/\w+\.safetensors"
    assert re.match(place + r": cannot be written \(.*\)\. Free space or choose another folder", sentence)
    assert finished(earlier) == before


def test_no_space_for_temporary_files(bandana: Bandana, earlier: Path, monkeypatch) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/trace.json")

    monkeypatch.setattr(terminal, "choose", fail)
    before = everything(earlier)
    assert "/tmp/trace.json: No space left on device" in one_sentence(bandana("embed", "edges.csv", "-o", "out"))
    assert everything(earlier) == before


def test_no_space_for_a_model(made: Path, tmp_path: Path) -> None:
    model = model_folder.load(made / "out" / "model")
    with files_of_at_most(100), pytest.raises(UserError, match=r"weights.safetensors: cannot be written"):
        model_folder.save(tmp_path, model)
    assert not list(tmp_path.iterdir())


def newer(model: Path) -> None:
    path = model / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format_version": 99, "bandana_version": "9.0"}))


def lead_outside(model: Path) -> None:
    path = model / "weights.safetensors"
    path.rename(model.parent.parent / "elsewhere.safetensors")
    path.symlink_to(model.parent.parent / "elsewhere.safetensors")


def cut(path: str) -> Callable[[Path], object]:
    return lambda model: os.truncate(model / path, (model / path).stat().st_size - 9)


BAD_MODELS = {
    "a pickle beside": (lambda model: (model / "x.pkl").write_bytes(pickle.dumps(1)), "pickles, are never opened"),
    "a pickle as weights": (
        lambda model: (model / "weights.safetensors").write_bytes(pickle.dumps({"a": 1})),
        "pickles, are never opened",
    ),
    "another version": (newer, r"format version 99.*written by bandana 9\.0"),
    "a path outside": (lead_outside, "leads out of the folder"),
    "weights cut off": (cut("weights.safetensors"), "not a readable safetensors file"),
    "description cut off": (cut("model.json"), "cannot be read as JSON"),
    "no weights": (lambda model: (model / "weights.safetensors").unlink(), "is missing"),
    "vectors cut off": (cut("../embeddings.parquet"), "cannot be read as embeddings"),
    "graph cut off": (cut("../graph.safetensors"), "damaged"),
    "record cut off": (cut("../run.json"), "damaged"),
    "no record": (lambda model: (model.parent / "run.json").unlink(), "name OUT/model"),
    "no model": (shutil.rmtree, "no such folder"),
}


@pytest.mark.parametrize("name", BAD_MODELS)
def test_bad_models(bandana: Bandana, earlier: Path, name: str) -> None:
    spoil, says = BAD_MODELS[name]
    spoil(earlier / "out" / "model")
    (earlier / "new.csv").write_text("n0,n9\n")
    before = everything(earlier)
    sentence = one_sentence(bandana("embed", "new.csv", "--model", "out/model", "-o", "newer"))
    assert sentence.startswith("out")
    assert re.search(says, sentence)
    assert everything(earlier) == before


ADDED: dict[str, tuple[str, str | None, tuple[str, ...], str]] = {
    "new node without features": ("n0,q\n", None, (), "node 'q' is new and has no features"),
    "features of another node": ("n0,q\n", "id,size\nz,1\n", (), "node 'q' is new and has no features"),
    "missing column": ("n0,q\n", "id,height\nq,1\n", (), "features: has no feature 'size', which the model reads"),
    "missing value": ("n0,q\n", "id,size\nq,\nn1,2\n", (), "features, line 2: .*'size' is missing"),
    "weights": ("source,target,weight\nn0,n9,2\n", None, (), "new.csv: has weights, but the links"),
    "ragged row": ("n0,n9\nn1\n", None, (), "new.csv, line 2"),
    "directions": ("n0,n9\n", None, ("--directed",), "--directed: .*no directions"),
    "another method": ("n0,n9\n", None, ("--method", "gae"), "--method: belongs to a training"),
    "labels": ("n0,n9\n", None, ("--labels", "new.csv"), "--labels: belongs to a training"),
    "the folder itself": ("n0,n9\n", None, ("-o", "out"), "out: is where the model comes from"),
}


@pytest.mark.parametrize("name", ADDED)
def test_bad_additions(bandana: Bandana, earlier: Path, name: str) -> None:
    edges, features, words, says = ADDED[name]
    (earlier / "new.csv").write_text(edges)
    if features is not None:
        (earlier / "features").write_text(features)
        words = ("--features", "features", *words)
    before = everything(earlier)
    answer = bandana("embed", "new.csv", "--model", "out/model", "-o", "newer", *words)
    assert re.search(says, one_sentence(answer))
    assert everything(earlier) == before
