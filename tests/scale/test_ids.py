"""Ids are found by what they are, at a cost that is theirs and not that of all nodes."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandana.data.own_source import Source, Wanted
from bandana.scale import ids, text_index
from bandana.scale.ids import Book, collect_ids, load_book, save_book
from bandana.scale.reading import open_stream
from bandana.scale.text_index import TextIndex

LARGEST = (1 << 63) - 1
whole_numbers = st.integers(-(1 << 63), LARGEST) | st.integers(-30, 30)
texts = st.text(min_size=1, max_size=6) | st.integers(-30, 30).map(str) | st.sampled_from(["007", "-0", "+1", "a\0"])


def book_of(names: set[Any]) -> Book:
    kind = pa.int64() if all(isinstance(name, int) for name in names) else pa.string()
    return Book(pa.array(sorted(names, key=lambda name: name if kind == pa.int64() else str(name).encode()), kind))


def found_by_loops(book: Book, wanted: list[Any]) -> list[int]:
    known = {str(name): row for row, name in enumerate(book.ids.to_pylist())}
    return [known.get(str(name), -1) for name in wanted]


def found(book: Book, column: Any) -> list[int]:
    return list(book.find(Source("edges", ("id",), pa.table({"id": column})), "id"))


@given(
    known=st.sets(whole_numbers, min_size=1, max_size=30),
    wanted=st.lists(
        whole_numbers | st.sampled_from(["007", "-0", "1" * 19, "9" * 19, "9" * 18, "x", "1.0"]), min_size=1
    ),
)
def test_whole_numbers_are_found_as_numbers_and_as_text(known: set[int], wanted: list[Any]) -> None:
    book, wanted = book_of(known), [*wanted, *known]
    assert found(book, pa.array(list(map(str, wanted)))) == found_by_loops(book, wanted)
    numbers = [number for number in wanted if isinstance(number, int)]
    assert found(book, pa.array(numbers, pa.int64())) == found_by_loops(book, numbers)


@given(known=st.sets(texts, min_size=1, max_size=30), wanted=st.lists(texts, min_size=1, max_size=30))
def test_texts_are_found_by_every_letter(known: set[str], wanted: list[str]) -> None:
    names = pa.array([*known, "x"]).unique()
    place = {name: row for row, name in enumerate(names.to_pylist())}
    wanted = list(dict.fromkeys([*wanted, *known]))
    assert TextIndex(names).find(pa.array(wanted)).tolist() == [place.get(name, -1) for name in wanted]
    assert TextIndex(names.slice(1)).find(pa.array(["", *wanted]).slice(1)).tolist() == [
        place[name] - 1 if place.get(name) else -1 for name in wanted
    ]
    assert TextIndex(names).find(pa.array([], pa.string())).tolist() == []


def test_many_texts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_index, "TOGETHER", 7)
    names = pa.array([f"user-{number}" for number in range(100)])
    shuffled = np.random.default_rng(0).permutation(100)
    assert TextIndex(names).find(names.take(pa.array(shuffled))).tolist() == shuffled.tolist()


def test_texts_that_share_a_key_get_others(monkeypatch: pytest.MonkeyPatch) -> None:
    real = np.random.default_rng

    class Constant:
        def integers(self, bound: int, size: int, dtype: Any) -> Any:
            return np.ones(size, dtype)

    monkeypatch.setattr(np.random, "default_rng", lambda seed: Constant() if seed == 0 else real(seed))
    names = pa.array(["ab", "ba", "c"])
    assert TextIndex(names).find(pa.array(["ba", "c", "ab", "bb"])).tolist() == [1, 2, 0, -1]


@pytest.mark.parametrize("prefix", ["", "n"])
def test_no_piece_of_a_text_goes_through_all_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("source,target\n" + "".join(f"{prefix}{row},{prefix}{row * 7 % 90}\n" for row in range(90)))
    stream = open_stream(path, lambda names: Wanted(tuple(names), tuple(names)))
    book, rows = collect_ids([stream], 8, lambda count: None)
    assert (len(book), rows) == (90, [90])
    made, real = [], TextIndex
    monkeypatch.setattr(ids, "TextIndex", lambda known: made.append(known) or real(known))
    monkeypatch.setattr(pc, "index_in", None)
    for number, piece in enumerate(stream.pieces(8)):
        place = book.find(piece, "target")
        expected = [f"{prefix}{row * 7 % 90}" for row in range(8 * number, 8 * number + len(place))]
        assert [str(book.ids[int(row)]) for row in place] == expected
    assert len(made) == (1 if prefix else 0)


def test_a_book_comes_back(tmp_path: Path) -> None:
    for names in ({1, 5, 9}, {"a", "b"}):
        book = book_of(names)
        save_book(tmp_path / "ids.parquet", book)
        assert load_book(tmp_path / "ids.parquet").ids.equals(book.ids)
