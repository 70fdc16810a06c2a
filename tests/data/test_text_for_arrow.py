"""Arrow is handed nothing of Python's: its threads would hold it when Python ends, and abort the process."""

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pv
import pytest

from bandana.data import own_text
from bandana.data.own_source import Wanted
from bandana.data.own_text import read_text
from bandana.errors import UserError
from bandana.scale.reading import open_stream

ROWS = 40
COMMAS = "source,target,weight\n" + "".join(f"m{row},n{row},{row}.5\n" for row in range(ROWS))
BLANKS = "".join(f"m{row}   n{row}  {row}\n" for row in range(ROWS))
TEXTS = {
    "plain": COMMAS.encode(),
    "no last line break": COMMAS.encode()[:-1],
    "old line breaks": COMMAS.replace("\n", "\r").encode(),
    "gzip": gzip.compress(COMMAS.encode()),
    "runs of blanks": BLANKS.encode(),
    "runs of blanks in gzip": gzip.compress(BLANKS.encode()),
}
FEW_BYTES = 64


def ids_and_a_number(names: Any) -> Wanted:
    return Wanted(tuple(names), tuple(names[:2]))


def whole(path: Path) -> pa.Table:
    return read_text(path, [], ids_and_a_number).table


def by_pieces(path: Path) -> pa.Table:
    return pa.concat_tables([piece.table for piece in open_stream(path, ids_and_a_number).pieces(ROWS)])


@pytest.mark.parametrize("read", [whole, by_pieces])
@pytest.mark.parametrize("name", TEXTS)
def test_arrow_reads_only_files_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, read: Callable[[Path], pa.Table]
) -> None:
    handed, real = [], pv.read_csv

    def remembering(file: Any, *options: Any) -> pa.Table:
        handed.append(type(file))
        return real(file, *options)

    monkeypatch.setattr(pv, "read_csv", remembering)
    monkeypatch.setattr(pv, "open_csv", remembering)
    path = tmp_path / "edges"
    path.write_bytes(TEXTS[name])
    table = read(path)
    assert table.column(0).to_pylist() == [f"m{row}" for row in range(ROWS)]
    assert set(handed) <= {pa.OSFile, pa.BufferReader}
    assert handed


def test_a_text_on_disk_is_not_brought_into_memory_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pa, "BufferReader", None)
    path = tmp_path / "edges"
    path.write_bytes(TEXTS["plain"])
    assert whole(path).num_rows == ROWS


@pytest.mark.parametrize("name", TEXTS)
def test_pieces_end_where_rows_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(own_text, "BLOCK", FEW_BYTES)
    path = tmp_path / "edges"
    path.write_bytes(TEXTS[name])
    pieces = list(open_stream(path, ids_and_a_number).pieces(ROWS))
    assert len(pieces) > 3
    assert [piece.first_row for piece in pieces] == [
        sum(p.table.num_rows for p in pieces[:n]) for n in range(len(pieces))
    ]
    read = pa.concat_tables([piece.table for piece in pieces])
    assert read.column(1).to_pylist() == [f"n{row}" for row in range(ROWS)]


REFUSED = {
    "too few cells": ("m,n\n", r"has 2 cells where 3 are due \('m,n'\); complete the row"),
    "no number": ("m,n,heavy\n", "'heavy' in column 'weight' is no number; correct it or drop the row"),
    "a quotation mark in it": ("m,n,it's\n", "\"it's\" in column 'weight' is no number"),
    "a quotation mark left open": ('m,"n,1\nm,n,1\n', "a quotation mark is opened and not closed"),
}


@pytest.mark.parametrize("name", ["plain", "gzip"])
@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("block", [FEW_BYTES, 1 << 20])
def test_what_is_wrong_with_a_row_is_said_by_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, what: str, block: int
) -> None:
    monkeypatch.setattr(own_text, "BLOCK", block)
    line, sentence = REFUSED[what]
    text = ("# about\n" + COMMAS + "\n\n" + line).encode()
    path = tmp_path / "edges"
    path.write_bytes(gzip.compress(text) if name == "gzip" else text)
    with pytest.raises(UserError, match=rf"edges, line {ROWS + 5}: {sentence}"):
        by_pieces(path)


@pytest.mark.parametrize("read", [whole, by_pieces])
def test_text_that_is_no_text_is_said_by_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], pa.Table]
) -> None:
    monkeypatch.setattr(own_text, "BLOCK", 1 << 10)
    path = tmp_path / "edges"
    path.write_bytes((COMMAS + "Müller,n,1\n").encode("latin-1"))
    with pytest.raises(UserError, match=rf"edges, line {ROWS + 2}: holds text that is not UTF-8; save"):
        read(path)


def test_a_piece_names_the_lines_of_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_text, "BLOCK", FEW_BYTES)
    path = tmp_path / "edges"
    path.write_text("# about\n" + COMMAS.replace("\nm20,", "\n\nm20,"))
    pieces = list(open_stream(path, ids_and_a_number).pieces(3))
    lines = [piece.row(number) for piece in pieces for number in range(piece.table.num_rows)]
    assert lines == [f"{path}, line {row + 3 + (row >= 20)}" for row in range(ROWS)]


def test_a_piece_holds_the_texts_of_its_own_rows_alone(tmp_path: Path) -> None:
    path = tmp_path / "edges"
    path.write_text(COMMAS)
    for piece in open_stream(path, ids_and_a_number).pieces(3):
        assert piece.table.schema.types[:2] == [pa.string(), pa.string()]


def test_a_row_longer_than_a_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_text, "BLOCK", FEW_BYTES)
    path = tmp_path / "edges"
    path.write_text(COMMAS + "m," + "n" * 5 * FEW_BYTES + ",1\n")
    with pytest.raises(UserError, match=r"a row is longer than 64 bytes; look for a quotation mark"):
        by_pieces(path)


@pytest.mark.parametrize("read", [whole, by_pieces])
def test_blanks_without_a_line_break_are_refused_before_they_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], pa.Table]
) -> None:
    monkeypatch.setattr(own_text, "BLOCK", 1 << 20)
    path = tmp_path / "edges"
    path.write_text(BLANKS + "m  n " * (1 << 20))
    taken, real = 0, own_text.end_of_rows

    def counting(text: bytes) -> int:
        nonlocal taken
        taken += len(text)
        return real(text)

    monkeypatch.setattr(own_text, "end_of_rows", counting)
    with pytest.raises(UserError, match=r"a row is longer than 1048576 bytes; look for a quotation mark"):
        read(path)
    assert taken < 4 << 20


@pytest.mark.slow
def test_a_process_that_ends_after_reading_ends_as_it_should(tmp_path: Path) -> None:
    """It was aborted eleven times out of twelve."""
    (tmp_path / "edges.csv").write_text("source,target\n")
    words = [sys.executable, "-m", "bandana", "embed", "edges.csv", "-o", "out"]
    for _ in range(3):
        done = subprocess.run(
            words, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (
            2,
            "Error: edges.csv: has columns but no rows; give one row per edge or node.\n",
        )
