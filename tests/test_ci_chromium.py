"""CI installs Chromium where it can, and says why where it cannot, without ever stopping the rest."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "chromium"
TOOLS = ("bash", "env", "id", "timeout")


def run(tmp_path: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """The script among only these programs, each a line of shell."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS:
        found = next(Path(place) / name for place in os.get_exec_path() if (Path(place) / name).exists())
        (folder / name).symlink_to(found.resolve())
    for name, line in programs.items():
        program = folder / name.replace("_", "-")
        program.unlink(missing_ok=True)
        program.write_text(f"#!{folder / 'bash'}\n{line}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return subprocess.run(
        [folder / "bash", SCRIPT], env={"PATH": str(folder)}, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        ({"chromium": "", "chromedriver": ""}, ""),
        ({}, "no apt-get here"),
        ({"apt_get": "exit 100", "id": "echo 0"}, "apt-get update failed"),
        ({"apt_get": '[ "$2" = update ]', "id": "echo 0"}, "apt-get install failed"),
        ({"apt_get": "", "id": "echo 1000"}, "neither root nor sudo"),
        ({"apt_get": "", "id": "echo 1000", "sudo": "exit 1"}, "neither root nor sudo"),
        ({"apt_get": "", "id": "echo 1000", "sudo": 'shift; "$@"', "true": ""}, "installed, but not found"),
        ({"apt_get": "", "id": "echo 0"}, "installed, but not found"),
    ],
)
def test_it_says_why_and_goes_on(tmp_path: Path, programs: dict[str, str], said: str) -> None:
    done = run(tmp_path, **programs)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"chromium: {said}" if said else "")
    assert done.stdout.endswith("the browser tests will be skipped\n" if said else "")


def test_it_installs_what_is_missing(tmp_path: Path) -> None:
    place = tmp_path / "bin"
    install = f'[ "$2" = update ] || for name in chromium chromedriver; do {place}/ln -s bash {place}/$name; done'
    done = run(tmp_path, apt_get=install, id="echo 0", ln='exec /bin/ln "$@"')
    assert done.stdout.startswith("chromium: installed in ")
    assert (done.returncode, done.stderr) == (0, "")
