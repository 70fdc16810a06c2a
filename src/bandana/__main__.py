"""The ``bandana`` command, also as ``python -m bandana``. A user's mistake ends in one sentence and exit code 2."""

import sys

from bandana.errors import UserError, wants_memory


def main() -> None:
    """Run the command line."""
    try:
        from bandana.cli import app  # here, so that an impatient Ctrl-C finds somebody who answers

        app()
    except UserError as mistake:
        sys.stderr.write(f"Error: {mistake}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except (MemoryError, RuntimeError) as problem:
        if not wants_memory(problem):
            raise
        reason = str(problem).partition("\n")[0] or type(problem).__name__
        sys.stderr.write(
            f"Error: memory did not suffice ({reason}). Use smaller widths or batches, or another device.\n"
        )
        sys.exit(2)


if __name__ == "__main__":
    main()
