"""The ``bandana`` command, also as ``python -m bandana``. A user's mistake ends in one sentence and exit code 2."""

import sys

from bandana.cli import app
from bandana.errors import UserError


def main() -> None:
    """Run the command line."""
    try:
        app()
    except UserError as mistake:
        sys.stderr.write(f"Error: {mistake}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
