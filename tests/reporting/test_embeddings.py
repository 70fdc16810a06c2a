"""Every file form gives back the ids exactly and the vectors bit for bit, and refuses what it cannot keep or read."""

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bandana.errors import UserError
from bandana.reporting.embeddings import SUFFIXES, read_embeddings, write_embeddings, write_parquet

AWKWARD = ["", " ", "7", "07", "-0", "nan", "null", '"', "a,b", "naïve 節点", "'", "1e5", "#", "\\N"]
every_form = pytest.mark.parametrize("suffix", SUFFIXES)


def vectors(count: int, width: int = 3) -> torch.Tensor:
    values = torch.randn(count, width, generator=torch.Generator().manual_seed(0)) / 3
    values[0, :2] = torch.tensor([1e-42, 3.4e38])  # a subnormal and a huge number survive text as well
    return values


@every_form
@pytest.mark.parametrize("ids", [AWKWARD, [-5, 0, 2**62], ["x"], [3]], ids=["strings", "numbers", "one string", "one"])
def test_ids_and_vectors_come_back_exactly(tmp_path: Path, suffix: str, ids: list[str] | list[int]) -> None:
    path, written = tmp_path / f"out{suffix}", vectors(len(ids))
    write_embeddings(path, written, ids)
    read = read_embeddings(path)
    assert read.node_ids == ids
    assert [type(name) for name in read.node_ids] == [type(name) for name in ids]
    assert read.vectors.dtype == torch.float32
    assert read.vectors.equal(written)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@given(
    ids=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n\0")), min_size=1),
    width=st.integers(1, 4),
)
@every_form
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, suffix: str, ids: list[str], width: int) -> None:
    path = tmp_path_factory.mktemp("any") / f"out{suffix}"
    write_embeddings(path, torch.ones(len(ids), width), ["id " + name for name in ids])
    assert read_embeddings(path).node_ids == ["id " + name for name in ids]


@every_form
def test_rows_without_ids_are_numbered_and_gradients_are_left_behind(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out{suffix}"
    write_embeddings(path, torch.ones(4, 2, dtype=torch.float64, requires_grad=True))
    assert read_embeddings(path).node_ids == [0, 1, 2, 3]


def test_parquet_has_the_columns_that_other_tools_expect(tmp_path: Path) -> None:
    write_parquet(tmp_path / "out.parquet", vectors(2), ["a", "b"])
    schema = pq.read_schema(tmp_path / "out.parquet")
    assert schema.field("node_id").type == pa.string()
    assert schema.field("embedding").type == pa.list_(pa.float32(), 3)


def test_the_text_form_is_word2vecs(tmp_path: Path) -> None:
    write_embeddings(tmp_path / "out.tsv", torch.tensor([[0.5, -2.0], [0.1, 3.0]]), ["a b", "c"])
    first, *rows = (tmp_path / "out.tsv").read_text().splitlines()
    assert first.split() == ["2", "2"]
    assert [row.split("\t")[0] for row in rows] == ["a b", "c"]
    assert [[float(number) for number in row.split("\t")[1:]] for row in rows] == [[0.5, -2.0], [0.1, 3.0]]


def test_numbers_of_other_libraries_are_taken_for_numbers(tmp_path: Path) -> None:
    write_embeddings(tmp_path / "out.npz", vectors(2), np.array([4, 9]))
    assert read_embeddings(tmp_path / "out.npz").node_ids == [4, 9]


@pytest.mark.parametrize(
    ("name", "ids", "message"),
    [
        ("out.csv", ["a"], r"end in \.parquet"),
        ("out.tsv", ["a\tb"], "tab or line break"),
        ("out.npz", ["a\0"], "NUL"),
        ("out.parquet", [1.5], "all strings or all whole numbers"),
        ("out.parquet", [2**63], "64 bits"),
        ("out.parquet", ["a", "b"], "2 ids for 1 vectors"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_nothing_is_written(
    tmp_path: Path, name: str, ids: list[object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        write_embeddings(tmp_path / name, vectors(1), ids)
    assert list(tmp_path.iterdir()) == []


def test_mixed_ids_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="got int, str"):
        write_embeddings(tmp_path / "out.npz", vectors(2), [1, "b"])


@every_form
@pytest.mark.parametrize("content", [b"", b"\x80\x04nonsense", b"PK\x03\x04", b"3\t2\na\t1\t2\n", b"1 1\n\xff\t1\n"])
def test_damaged_files_are_refused_in_one_sentence(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"out{suffix}"
    path.write_bytes(content)
    with pytest.raises(UserError, match="cannot be read as embeddings") as error:
        read_embeddings(path)
    assert "\n" not in str(error.value)


@every_form
def test_every_truncation_is_noticed(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out{suffix}"
    write_embeddings(path, vectors(6), list("abcdef"))
    whole = path.read_bytes()
    for size in range(0, len(whole) - 12, 7):
        path.write_bytes(whole[:size])
        with pytest.raises(UserError):
            read_embeddings(path)


@every_form
def test_a_missing_file_is_the_users_to_mend(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_embeddings(tmp_path / f"out{suffix}")


class Trap:
    """Leaves a mark when unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (open, ("/nonexistent/unpickled",))


def test_a_pickle_inside_npz_is_not_opened(tmp_path: Path) -> None:
    np.savez(tmp_path / "out.npz", node_id=np.array([Trap()], dtype=object), embedding=np.ones((1, 2), np.float32))
    assert pickle.dumps(Trap())
    with pytest.raises(UserError, match="allow_pickle"):
        read_embeddings(tmp_path / "out.npz")
