"""The verbs of the command line: each parses its options and hands over. No decision is made here.

Everything heavy is imported inside the verbs, so that ``bandana --help`` answers at once.
"""

from bandana.cli import own, paper, research, scale, tune
from bandana.cli.options import app

__all__ = ["app", "own", "paper", "research", "scale", "tune"]
