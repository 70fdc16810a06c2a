"""No flipped byte gets past the checksums, and what is damaged is named."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bandana.errors import UserError
from bandana.scale import seal as sealing
from bandana.scale.seal import COL, DESCRIPTION, FEATURES, damaged_blocks, read_description
from bandana.scale.store import write_store


@pytest.fixture(scope="module")
def folder(random_graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose digests are taken of few bytes, so that its files have many blocks."""
    place = tmp_path_factory.mktemp("verify") / "store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealing, "BLOCK_BYTES", 256)
        write_store(place, random_graph(40, 120), torch.arange(40) % 3)
    return place


def test_a_sound_store_has_no_damage(folder: Path) -> None:
    read: list[int] = []
    assert list(damaged_blocks(folder, read.append)) == []
    assert sum(read) == sum(path.stat().st_size for path in folder.iterdir() if path.name != DESCRIPTION)


@given(data=st.data())
def test_any_flipped_bit_is_found_and_named(folder: Path, data: st.DataObject) -> None:
    path = folder / data.draw(st.sampled_from(sorted(item.name for item in folder.iterdir())))
    sound = path.read_bytes()
    place, bit = data.draw(st.integers(0, len(sound) - 1)), data.draw(st.integers(0, 7))
    broken = bytearray(sound)
    broken[place] ^= 1 << bit
    path.write_bytes(broken)
    try:
        if path.name == DESCRIPTION:
            with pytest.raises(UserError, match=DESCRIPTION):
                read_description(folder)
        else:
            assert list(damaged_blocks(folder)) == [(path.name, place // 256)]
    finally:
        path.write_bytes(sound)


def test_every_byte_of_the_description_counts(folder: Path) -> None:
    path = folder / DESCRIPTION
    sound = path.read_bytes()
    for place in range(0, len(sound), 37):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        with pytest.raises(UserError, match=DESCRIPTION):
            read_description(folder)
    path.write_bytes(sound)


def test_the_command_names_file_and_block(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from bandana.terminal.scale import verify_and_show

    verify_and_show(folder)
    assert "are as written" in " ".join(capsys.readouterr().out.split())
    sound = {name: (folder / name).read_bytes() for name in (COL, FEATURES)}
    for name, content in sound.items():
        (folder / name).write_bytes(content[:600] + bytes([content[600] ^ 4]) + content[601:])
    with pytest.raises(UserError, match=f"{COL}, block 2 .*; {FEATURES}, block 2"):
        verify_and_show(folder)
    for name, content in sound.items():
        (folder / name).write_bytes(content)
