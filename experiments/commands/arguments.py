"""The arguments that several commands take, and how a command is written so that it can be typed again."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from experiments.commands.completion import DEFAULT_RESULTS, configs, sweeps

RESULTS = Path(DEFAULT_RESULTS)

Config = Annotated[Path, typer.Argument(help="The sweep's YAML config.", autocompletion=configs)]
Folder = Annotated[Path, typer.Argument(help="A sweep's results folder.", autocompletion=sweeps)]
Results = Annotated[Path, typer.Option(help="Folder that holds the sweeps' results.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="One JSON document on standard output; all else on standard error.")
]


def command(*arguments: object) -> str:
    """The command as it was typed, so that what is shown can be typed again."""
    typed = Path(sys.argv[0])
    name = str(typed) if typed.name == "batchyard" else "batchyard"
    return " ".join([name, *(shlex.quote(str(argument)) for argument in arguments)])
