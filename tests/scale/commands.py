"""The command line, called in this process."""

import sys

import pytest

from bandana.__main__ import main


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["bandana", *words])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0
