"""A table says so where its figures come from several runs."""

from bandana.paper.artifact import Cell, Claim, Piece, Result, Score, Sheet
from bandana.paper.reproduce import Item
from bandana.paper.write_out import NAMED_ROWS, with_sources

PIECE = Piece("training", {})


def item(origin: str, file: str, failure: str = "") -> Item:
    return Item(PIECE, origin, Result(None if failure else {"x": 1}, failure, origin, file), None)


def sheet(*origins: tuple[str, str]) -> Sheet:
    """A row with one figure for each (row, origin)."""
    cells = [
        Cell(
            row=row, column="x", ours=Score(1, None, 1), published=None, state="no published figure", origins=(origin,)
        )
        for row, origin in origins
    ]
    rows = tuple(dict.fromkeys(row for row, _ in origins))
    return Sheet(title="t", rows=rows, columns=("x",), cells=tuple(cells), highest_is_best=True, notes=("before",))


def test_rows_of_other_files_are_named_and_many_are_counted() -> None:
    many = [(f"row {number}", f"{number}.toml") for number in range(NAMED_ROWS + 1)]
    items = [item("own.toml", ""), item("a.toml", "a.csv"), *(item(origin, "many.csv") for _, origin in many)]
    note = with_sources(sheet(("mine", "own.toml"), ("theirs", "a.toml"), *many), items).notes[-1]  # type: ignore[union-attr]
    assert note.endswith(f": done here (mine); a.csv (theirs); many.csv ({len(many)} rows).")


def test_seeds_of_one_cell_may_come_from_two_files() -> None:
    items = [item("a.toml", "a.csv"), item("a.toml", "b.csv"), item("a.toml", "c.csv", failure="failed")]
    note = with_sources(sheet(("one", "a.toml")), items).notes[-1]  # type: ignore[union-attr]
    assert note.endswith(": a.csv (one); b.csv (one).")


def test_nothing_is_said_of_a_single_source_or_of_a_statement() -> None:
    alone = sheet(("one", "a.toml"), ("two", "b.toml"))
    assert with_sources(alone, [item("a.toml", "a.csv"), item("b.toml", "a.csv")]) == alone
    claim = Claim(statement="s", measured={}, holds=True, explanation="e")
    assert with_sources(claim, [item("a.toml", "a.csv"), item("b.toml", "b.csv")]) == claim
