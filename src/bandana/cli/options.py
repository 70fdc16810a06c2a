"""The command itself, and the options that several verbs share."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Node embeddings from a graph without labels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

DataRoot = Annotated[
    Path | None, typer.Option("--data-root", envvar="BANDANA_DATA", help="Folder with raw data sets, only read.")
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
