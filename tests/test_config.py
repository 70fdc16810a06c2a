"""Strict configuration: what is taken, what is refused and in which words, and what survives the way to a file."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from tomllib import loads
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandana.config import nest, parse_assignment, patch, read_toml, to_table, to_toml
from bandana.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Inner:
    width: int = 8
    rate: float = 0.5
    mode: Literal["soft", "hard"] = "soft"

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ValueError(f"width: must be at least 1, got {self.width}")


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str = "x"
    deep: bool = False
    steps: int = 3
    inner: Inner = field(default_factory=lambda: Inner(width=16))
    temperature: float | tuple[float, ...] = 1.0
    layers: tuple[int, ...] = ()
    shares: tuple[float, float] = (0.5, 0.5)
    limit: int | None = None
    way: Literal["in", "out"] | None = None
    anything: Any = None

    def __post_init__(self) -> None:
        if self.steps > self.inner.width:
            raise ValueError(f"steps: must not exceed inner.width, got {self.steps}")


def test_a_patch_changes_what_it_names_and_nothing_else() -> None:
    default = Outer(name="mine")
    patched = patch(default, {"steps": 5, "inner": {"mode": "hard"}})
    assert patched == Outer(name="mine", steps=5, inner=Inner(width=16, mode="hard"))
    assert default == Outer(name="mine")
    assert patch(default, {}) == default


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"inner": {"rate": 1}}, Outer(inner=Inner(width=16, rate=1.0))),
        ({"temperature": 2}, Outer(temperature=2.0)),
        ({"temperature": [1, 2.5]}, Outer(temperature=(1.0, 2.5))),
        ({"layers": [1, 2]}, Outer(layers=(1, 2))),
        ({"layers": []}, Outer(layers=())),
        ({"shares": [1, 0]}, Outer(shares=(1.0, 0.0))),
        ({"limit": 7}, Outer(limit=7)),
        ({"limit": None}, Outer(limit=None)),
        ({"way": "out"}, Outer(way="out")),
        ({"anything": {"a": [1]}}, Outer(anything={"a": [1]})),
        ({"deep": True}, Outer(deep=True)),
        ({"inner": Inner(width=4)}, Outer(inner=Inner(width=4))),
        ({"steps": np.int64(5), "limit": np.uint8(7)}, Outer(steps=5, limit=7)),
        ({"inner": {"rate": np.float32(0.25)}}, Outer(inner=Inner(width=16, rate=0.25))),
        ({"inner": {"rate": np.float64(0.25)}}, Outer(inner=Inner(width=16, rate=0.25))),
        ({"deep": np.bool_(True), "way": np.str_("out")}, Outer(deep=True, way="out")),
        ({"layers": [np.int32(1)], "temperature": np.int64(2)}, Outer(layers=(1,), temperature=2.0)),
    ],
)
def test_values_that_fit(changes: dict[str, Any], expected: Outer) -> None:
    patched = patch(Outer(), changes)
    assert patched == expected
    assert [type(value) for value in to_table(patched).values()] == [
        type(value) for value in to_table(expected).values()
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stpes": 1}, "stpes: there is no such option. Did you mean 'steps'?"),
        ({"inner": {"widht": 1}}, "inner.widht: there is no such option. Did you mean 'width'?"),
        ({"inner": {"zzz": 1}}, "inner.zzz: there is no such option. Choose from: mode, rate, width."),
        ({"steps": "5"}, "steps: must be a whole number, got '5'."),
        ({"steps": 5.0}, "steps: must be a whole number, got 5.0."),
        ({"steps": True}, "steps: must be a whole number, got True."),
        ({"inner": {"rate": True}}, "inner.rate: must be a number, got True."),
        ({"inner": {"rate": "fast"}}, "inner.rate: must be a number, got 'fast'."),
        ({"deep": 1}, "deep: must be true or false, got 1."),
        ({"name": 3}, "name: must be a text, got 3."),
        ({"inner": {"mode": "sotf"}}, "inner.mode: 'sotf' is not a choice. Did you mean 'soft'?"),
        ({"inner": {"mode": 3}}, "inner.mode: 3 is not a choice. Choose from: hard, soft."),
        ({"inner": {"mode": ["soft"]}}, "inner.mode: ['soft'] is not a choice. Did you mean 'soft'?"),
        ({"inner": {"rate": 10**400}}, "inner.rate: must be a number up to 1.8e+308, got a larger one."),
        ({"steps": np.float64(5)}, "steps: must be a whole number, got 5.0."),
        ({"inner": {3: 1}}, "inner.3: there is no such option. Choose from: mode, rate, width."),
        ({"inner": 3}, "inner: must be a table of options, got 3."),
        ({"temperature": "hot"}, "temperature: must be a number or a list, got 'hot'."),
        ({"temperature": [1.0, "hot"]}, "temperature: must be a number or a list, got [1.0, 'hot']."),
        ({"layers": 3}, "layers: must be a list, got 3."),
        ({"layers": [1, 2.5]}, "layers[1]: must be a whole number, got 2.5."),
        ({"shares": [1.0]}, "shares: must be a list of 2 values, got [1.0]."),
        ({"shares": [1.0, "a"]}, "shares[1]: must be a number, got 'a'."),
        ({"limit": "a"}, "limit: must be a whole number or nothing, got 'a'."),
        ({"way": "up"}, "way: must be 'in' or 'out' or nothing, got 'up'."),
        ({"inner": {"width": 0}}, "inner.width: must be at least 1, got 0"),
        ({"steps": 17}, "steps: must not exceed inner.width, got 17"),
    ],
)
def test_values_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as refusal:
        patch(Outer(), changes)
    assert str(refusal.value) == message


def test_the_path_of_an_outer_table_leads_every_complaint() -> None:
    with pytest.raises(UserError, match=r"^model\.inner\.width: must be at least 1"):
        patch(Outer(), {"inner": {"width": 0}}, "model.")


names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,8}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.one_of(st.booleans(), st.integers(-(2**62), 2**62), st.floats(allow_nan=False), texts)
values = st.one_of(scalars, st.lists(scalars, max_size=4), st.lists(st.lists(scalars, max_size=2), max_size=2))
tables = st.recursive(
    st.dictionaries(names, values, max_size=4),
    lambda inner: st.dictionaries(names, st.one_of(values, inner), max_size=4),
)


def same_types(first: Any, second: Any) -> bool:
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same_types(first[key], second[key]) for key in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(same_types, first, second))
    return type(first) is type(second)


@given(tables)
def test_a_table_survives_the_way_to_a_file_and_back(
    tmp_path_factory: pytest.TempPathFactory, table: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("toml") / "config.toml"
    path.write_text(to_toml(table), encoding="utf-8", newline="")
    again = read_toml(path)
    assert again == table
    assert same_types(again, table)


def test_numbers_of_numpy_are_written_as_plain_ones() -> None:
    patched = patch(Outer(), {"steps": np.int64(5), "inner": {"rate": np.float64(0.25)}})
    assert patch(Outer(), loads(to_toml(to_table(patched)))) == patched


@dataclass(frozen=True)
class Loose:
    part: Any = field(default_factory=Inner)


def test_a_table_of_options_is_replaced_by_nothing_else() -> None:
    assert patch(Loose(), {"part": {"width": 4}}) == Loose(Inner(width=4))
    with pytest.raises(UserError, match=r"^part: must be a table of options, got 3\.$"):
        patch(Loose(), {"part": 3})


@pytest.mark.parametrize("wrong", [[1], "training.lr=1", {1: 2}])
def test_options_that_are_no_table_are_refused(wrong: Any) -> None:
    with pytest.raises(UserError, match=r"^Options: must be a table of dotted names, such as .*, got "):
        nest(wrong)


def test_numbers_of_any_length_are_refused_in_words(tmp_path: Path) -> None:
    key, value = parse_assignment(f"inner.rate=1{'0' * 5000}")  # Python reads no whole number so long
    with pytest.raises(UserError, match=r"^inner\.rate: must be a number, got '1000"):
        patch(Outer(), nest({key: value}))
    (tmp_path / "c.toml").write_text(f"steps = 1{'0' * 5000}\n")
    with pytest.raises(UserError, match="cannot be read as TOML"):
        read_toml(tmp_path / "c.toml")


def test_not_a_number_survives_too(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(to_toml({"a": math.nan}))
    assert math.isnan(read_toml(tmp_path / "c.toml")["a"])


@given(
    st.builds(
        Outer,
        name=texts,
        deep=st.booleans(),
        steps=st.integers(-5, 1),
        inner=st.builds(Inner, width=st.integers(1, 99), rate=st.floats(0, 1), mode=st.sampled_from(["soft", "hard"])),
        temperature=st.one_of(st.floats(0.1, 9), st.lists(st.floats(0.1, 9)).map(tuple)),
        layers=st.lists(st.integers(1, 9)).map(tuple),
        limit=st.none() | st.integers(0, 9),
    )
)
def test_a_configuration_survives_the_way_to_a_file_and_back(config: Outer) -> None:
    assert patch(Outer(), loads(to_toml(to_table(config)))) == config


def test_files_read_well() -> None:
    text = to_toml(to_table(Outer(layers=(1, 2))))
    assert text == (
        'name = "x"\ndeep = false\nsteps = 3\ntemperature = 1.0\nlayers = [1, 2]\nshares = [0.5, 0.5]\n'
        '\n[inner]\nwidth = 16\nrate = 0.5\nmode = "soft"\n'
    )


def test_unreadable_files_name_themselves(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("a = = 1")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (broken, binary, tmp_path):
        with pytest.raises(UserError, match=f"^{path}: cannot be read as TOML"):
            read_toml(path)
    with pytest.raises(UserError, match=r"missing\.toml: there is no such file; correct the path\.$"):
        read_toml(tmp_path / "missing.toml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b=1", ("a.b", 1)),
        (" a = 1.5 ", ("a", 1.5)),
        ("a=1e-6", ("a", 1e-6)),
        ("a=true", ("a", True)),
        ("a=word", ("a", "word")),
        ('a="quoted word"', ("a", "quoted word")),
        ("a=two words ", ("a", "two words")),
        ("a=[0.1, 0.2]", ("a", [0.1, 0.2])),
        ("a=b=c", ("a", "b=c")),
        ("a=", ("a", "")),
    ],
)
def test_assignments(text: str, expected: tuple[str, Any]) -> None:
    assert parse_assignment(text) == expected


@pytest.mark.parametrize("text", ["word", "=1", " = 1", ""])
def test_assignments_without_key_or_value(text: str) -> None:
    with pytest.raises(UserError, match="write key=value"):
        parse_assignment(text)


def test_dotted_names_become_tables() -> None:
    assert nest({"a.b.c": 1, "a.d": 2, "e": 3}) == {"a": {"b": {"c": 1}, "d": 2}, "e": 3}
    assert nest({}) == {}


@pytest.mark.parametrize("dotted", [{"a": 1, "a.b": 2}, {"a.b": 2, "a": 1}, {"a.b": 1, "a.b.c": 2}])
def test_a_name_cannot_be_a_value_and_a_table(dotted: dict[str, int]) -> None:
    with pytest.raises(UserError, match=r"^a(\.b)?: "):
        nest(dotted)
