"""Randomness that every stored result depends on: the values are pinned, so that they cannot change unnoticed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bandana.engine.streams import generator, hash_keys, initial_weights, stream

CPU = torch.device("cpu")
WORD = (1 << 64) - 1
SPLITMIX64_FROM_ZERO = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
"""The published first outputs of splitmix64 for the seed 0."""


def unsigned(bits: torch.Tensor) -> list[int]:
    return [word & WORD for word in bits.tolist()]


def splitmix64(state: int) -> int:
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB & WORD
    return state ^ (state >> 31)


def test_keys_are_mixed_as_splitmix64_does() -> None:
    start_at_zero = -1  # the word whose stream is 0
    assert stream(start_at_zero) == 0
    assert unsigned(hash_keys(torch.arange(1, 5), start_at_zero)) == SPLITMIX64_FROM_ZERO


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=8), st.lists(st.integers(0, 2**40), max_size=4))
def test_hashes_equal_plain_integer_arithmetic(keys: list[int], words: list[int]) -> None:
    expected = [splitmix64(key * 0x9E3779B97F4A7C15 + stream(*words) & WORD) for key in keys]
    assert unsigned(hash_keys(torch.tensor(keys), *words)) == expected


def test_streams_never_change() -> None:
    assert stream(0) == SPLITMIX64_FROM_ZERO[0]
    assert stream(0, 0) == 9669442505924063346
    assert stream(1, 2, 3) == 17281550289527850393
    assert stream(2024, 999, 4) == 5857866172875646395
    assert unsigned(hash_keys(torch.tensor([0, 1, 2, 10**12]), 7, 3, 1)) == [
        8166504934001038101,
        6706111342787952086,
        6289658482548166248,
        4934482294331166386,
    ]


def test_generators_never_change() -> None:
    draws = torch.randint(1000, (5,), generator=generator(CPU, 3, 14))
    assert draws.tolist() == [655, 52, 439, 493, 260]


@given(st.lists(st.integers(-(2**70), 2**70), max_size=5))
def test_streams_are_64_bit_words(words: list[int]) -> None:
    assert 0 <= stream(*words) <= WORD


@pytest.mark.parametrize("position", range(3))
def test_low_32_bits_vary_with_every_word(position: int) -> None:
    words = [[5, 6, 7] for _ in range(2000)]
    for value, row in enumerate(words):
        row[position] = value
    low = {stream(*row) & 0xFFFFFFFF for row in words}
    assert len(low) == 2000


def test_order_and_number_of_words_matter() -> None:
    assert len({stream(1, 2), stream(2, 1), stream(1), stream(1, 0), stream(0, 1), stream()}) == 6


@pytest.mark.parametrize(("first", "second"), [((0, 1), (0, 2)), ((1, 0), (2, 0)), ((0,), (1 << 32,)), ((1,), (1, 0))])
def test_generators_of_different_streams_differ(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    draws = [torch.rand(8, generator=generator(CPU, *words)) for words in (first, second, first)]
    assert not draws[0].equal(draws[1])
    assert draws[0].equal(draws[2])


def test_hashing_leaves_the_keys_alone() -> None:
    keys = torch.arange(10)
    hash_keys(keys, 1)
    assert keys.equal(torch.arange(10))


def test_every_bit_of_a_hash_is_set_half_of_the_time() -> None:
    keys = torch.arange(20_000)
    bits = hash_keys(keys, 0, 0, 0)
    shares = torch.stack([((bits >> place) & 1).double().mean() for place in range(64)])
    assert float((shares - 0.5).abs().max()) < 5 * 0.5 / 20_000**0.5


signed_words = st.integers(-(2**63) + 1, 2**63 - 1)


@given(
    keys=st.lists(signed_words, min_size=1, max_size=8),
    words=st.lists(st.tuples(signed_words, st.booleans()), max_size=5),
)
def test_words_on_the_device_give_the_bits_of_plain_ones(keys: list[int], words: list[tuple[int, bool]]) -> None:
    """Any of the words may be a tensor, in any place."""
    plain = [word for word, _ in words]
    mixed = [torch.tensor(word) if on_device else word for word, on_device in words]
    found = hash_keys(torch.tensor(keys), *mixed)
    assert found.equal(hash_keys(torch.tensor(keys), *plain))


def test_a_word_on_the_device_is_read_anew_and_left_alone() -> None:
    keys, step = torch.arange(5), torch.tensor(3)
    first = hash_keys(keys, 1, step, 2)
    assert step.equal(torch.tensor(3))
    step.fill_(4)
    assert hash_keys(keys, 1, step, 2).equal(hash_keys(keys, 1, 4, 2))
    assert not hash_keys(keys, 1, step, 2).equal(first)


def test_initial_weights_follow_the_seed_and_touch_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_rng_state()
    torch.manual_seed(7)
    expected = torch.randn(5)
    torch.set_rng_state(before)

    def refuse(seed: int) -> None:
        raise AssertionError("the generators of the GPUs were started anew")

    monkeypatch.setattr(torch.cuda, "manual_seed_all", refuse)
    with initial_weights(7):
        assert torch.randn(5).equal(expected)
    assert torch.get_rng_state().equal(before)
    monkeypatch.undo()
    with torch.device("meta"), initial_weights(7):
        assert torch.randn(5).equal(expected), "weights are drawn on the CPU, wherever tensors are made by default"
