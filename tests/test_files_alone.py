"""Two commands never work on one output at the same time, and whoever dies leaves no lock behind."""

import errno
import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from bandana.errors import UserError
from bandana.files import alone, refuse_fixed, unwritable, write_text


def test_another_is_refused_until_the_first_is_done(tmp_path: Path) -> None:
    place = tmp_path / "out"
    with alone(place):
        with pytest.raises(UserError, match=r"out: another command is writing there; wait"), alone(place):
            pass
        with alone(tmp_path / "other"):
            pass
    with alone(place):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_the_place_that_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out")
    with alone(tmp_path / "link"), pytest.raises(UserError, match="another command"), alone(tmp_path / "out"):
        pass


def hold(place: Path, held: Any) -> None:
    with alone(place):
        held.set()
        time.sleep(60)


def test_a_killed_process_lets_go(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    held = context.Event()
    holder = context.Process(target=hold, args=(tmp_path / "out", held))
    holder.start()
    assert held.wait(30)
    with pytest.raises(UserError, match="another command"), alone(tmp_path / "out"):
        pass
    assert holder.pid is not None
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    with alone(tmp_path / "out"):
        pass
    assert list(tmp_path.iterdir()) == []


def contend(place: Path, inside: Path, until: float, wrong: Any) -> None:
    while time.monotonic() < until:
        try:
            with alone(place):
                try:
                    inside.mkdir()  # fails if somebody is in there
                except FileExistsError:
                    wrong.set()
                else:
                    inside.rmdir()
        except UserError:
            pass


def test_never_two_at_once(tmp_path: Path) -> None:
    """Many short holders: a lock that its holder has just removed is never taken for one that counts."""
    context = multiprocessing.get_context("fork")
    wrong, until = context.Event(), time.monotonic() + 1
    some = [
        context.Process(target=contend, args=(tmp_path / "out", tmp_path / "inside", until, wrong)) for _ in range(4)
    ]
    for one in some:
        one.start()
    for one in some:
        one.join()
    assert all(one.exitcode == 0 for one in some)
    assert not wrong.is_set()


def test_where_nobody_may_write_nothing_is_kept_and_the_writer_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with alone(tmp_path / "file" / "out"):
        pass


def test_the_advice_fits_the_cause(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot be written \(.*\)\. Choose another place\.$"):
        write_text(tmp_path / "file" / "inside.txt", "")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match=r"cannot be written \(Is a directory\)\. Choose another place\.$"):
        write_text(tmp_path / "folder", "")
    full, forbidden = (
        OSError(errno.ENOSPC, "No space left on device"),
        PermissionError(errno.EACCES, "Permission denied"),
    )
    assert str(unwritable(tmp_path, full)).endswith("Free space or choose another folder.")
    assert str(unwritable(tmp_path, full, resumable=True)).endswith("Free space, and the same command goes on.")
    assert str(unwritable(tmp_path, OSError(errno.ENOENT, "as in /proc"))).endswith("Choose another place.")
    assert str(unwritable(tmp_path, forbidden, resumable=True)).endswith("(Permission denied). Choose another place.")


def test_the_folder_one_stands_in_cannot_be_exchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"\.: is the folder that this command runs in"):
        refuse_fixed(Path())
    with pytest.raises(UserError, match="another disk begins"):
        refuse_fixed(Path("/"))
    refuse_fixed(tmp_path / "below")
