"""What counts as a time, which cell is at fault where one is none, and columns that only have the name of one."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bandana.data.tables import OwnGraph, read_graph
from bandana.errors import UserError


def graph_of(folder: Path, *times: str, **asked: str) -> OwnGraph:
    lines = [f"n{row},n{row + 1},{time}" for row, time in enumerate(times)]
    (folder / "edges.csv").write_text("\n".join(["source,target,date", *lines]) + "\n")
    return read_graph(folder / "edges.csv", **asked)


def seconds(year: int, month: int, day: int, hour: int = 0) -> float:
    return datetime(year, month, day, hour, tzinfo=UTC).timestamp()


def test_dates_may_be_written_in_several_ways(tmp_path: Path) -> None:
    own = graph_of(tmp_path, "2024-03-05", " 2024-03-06T12:00:00", "2024-03-06T12:00:00+02:00", "2024-03-05")
    assert own.times is not None
    expected = {seconds(2024, 3, 5), seconds(2024, 3, 6, 12), seconds(2024, 3, 6, 10)}
    assert set(own.times.tolist()) == expected


def test_the_cell_that_is_no_time_is_named(tmp_path: Path) -> None:
    message = r"line 4: 'unknown' in column 'date' is no time, which is a number or a date such as 2024-03-05"
    with pytest.raises(UserError, match=message):
        graph_of(tmp_path, "2024-03-05", "2024-03-06", "unknown", time="date")
    with pytest.raises(UserError, match=r"line 3: the time in column 'date' is missing"):
        graph_of(tmp_path, "2024-03-05", "", "2024-03-06", time="date")


def test_numbers_among_dates_are_not_compared_with_them(tmp_path: Path) -> None:
    """The year 2025 would be half an hour after midnight on the first of January 1970."""
    message = r"line 3: ' ?2025' in column 'date' is a number where other rows have dates; write all times in one"
    with pytest.raises(UserError, match=message):
        graph_of(tmp_path, "2024-03-05", " 2025", "2024-03-06", time="date")
    assert graph_of(tmp_path, "2024-03-05", "2025", "2024-03-06").times is None


@pytest.mark.parametrize("wrong", ["5/10/2024", "2024/03/05", "", "unknown", "12:30"])
def test_a_column_that_only_has_the_name_of_times_is_left_out_and_told(tmp_path: Path, wrong: str) -> None:
    own = graph_of(tmp_path, wrong, wrong, wrong)
    assert own.times is None
    assert own.graph.links.numel() == 3
    (note,) = (note for note in own.notes if "No times are taken from column 'date': " in note)
    assert str(tmp_path / "edges.csv") in note
    assert any(note.startswith("Not used: 'date'") for note in own.notes)
    with pytest.raises(UserError):
        graph_of(tmp_path, wrong, wrong, time="date")


def test_equal_times_make_no_link_the_latest(tmp_path: Path) -> None:
    own = graph_of(tmp_path, *["2024-03-05"] * 4)
    assert not own.timed
    assert graph_of(tmp_path, "2024-03-05", "2024-03-06").timed
    assert "All links have the same time, so that none is later than others." in own.notes
