"""The command itself, and the options that several verbs share."""

import errno
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bandana import __version__
from bandana.errors import UserError

_WHAT_TO_DO = {
    errno.ENAMETOOLONG: "no file can have a name as long as this; shorten it",
    errno.EACCES: "permission is denied; choose another place, or change who may use it",
}


class Verbs(TyperGroup):
    """All verbs, with one answer to names that are too long for any file, and one to places that may not be seen."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except OSError as problem:
            if problem.filename is None or problem.errno not in _WHAT_TO_DO:
                raise
            raise UserError(f"{problem.filename}: {_WHAT_TO_DO[problem.errno]}.") from None


app = typer.Typer(
    cls=Verbs,
    help="Node embeddings from a graph without labels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"bandana {__version__}")
        raise typer.Exit


@app.callback()
def of_all_verbs(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Take the options that stand before a verb."""


LARGEST_SEED = 2**32 - 1
"""As in `bandana.engine.streams`, which would load torch before the first word of help."""
DataRoot = Annotated[
    Path | None, typer.Option("--data-root", envvar="BANDANA_DATA", help="Folder with raw data sets, only read.")
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Estimate = Annotated[
    bool, typer.Option("--estimate", help="Only say what it would cost: time, memory, disk and traffic.")
]
Processes = Annotated[int | None, typer.Option(min=1, help="With --estimate: processes that would work together.")]
