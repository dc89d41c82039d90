"""`batchyard export`: one file of the rows that count, for programs that know nothing of batchyard."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from experiments.commands.arguments import Folder, Force, Given, some_path
from experiments.console import one_line_errors, tell
from experiments.errors import ConfigError
from results.address import Place

if TYPE_CHECKING:
    from results.export import Watch

EXAMPLES = (
    "Examples:  batchyard export results/data/local-0123456789ab --parquet rows.parquet  ·  "
    "batchyard export results/data/local-0123456789ab --csv trials.csv --table trials  ·  "
    "batchyard export results/data/local-0123456789ab --csv - | head"
)
STANDARD_OUTPUT = Path("-")


class Table(StrEnum):
    """What a row is; docs/SCHEMA.md has the columns."""

    REQUESTS = "requests"
    BATCHES = "batches"
    SAMPLES = "samples"
    TRIALS = "trials"


def export(
    folder: Folder,
    csv: Annotated[
        Given | None,
        typer.Option(
            "--csv",
            help="Write CSV to this file; - is standard output.",
            parser=some_path,
            metavar="<path>",
        ),
    ] = None,
    parquet: Annotated[
        Given | None,
        typer.Option("--parquet", help="Write Parquet to this file.", parser=some_path, metavar="<path>"),
    ] = None,
    table: Annotated[Table, typer.Option(help="What a row is.")] = Table.REQUESTS,
    force: Force = False,
) -> None:
    """Write the rows of the attempts that count to one file, all settings in each row.

    The columns and their units: `batchyard schema --rows`, or docs/SCHEMA.md.
    """
    with one_line_errors():
        if (csv is None) == (parquet is None):
            raise ConfigError("export needs one of --csv FILE and --parquet FILE")
        if parquet == STANDARD_OUTPUT:
            raise ConfigError("--parquet must be a file, got -; only --csv writes to standard output")
        from results.export import export as write
        from results.read import open_sweep

        store = open_sweep(folder)
        path = csv or parquet
        assert path is not None
        with _sink(path, force=force) as sink, _progress() as watch:
            rows = write(store, table.value, "csv" if csv is not None else "parquet", sink, watch)
        for problem in store.problems:
            tell(f"warning: {problem}")
        if path != STANDARD_OUTPUT:
            tell(f"{rows} rows ({table.value}): {path}")


@contextmanager
def _sink(path: Place, *, force: bool) -> Iterator[BinaryIO]:
    from results.output_file import check_output, new_file

    if path == STANDARD_OUTPUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    else:
        check_output(path, force=force)
        with new_file(path) as file:
            yield file


@contextmanager
def _progress() -> Iterator["Watch"]:
    """A bar on standard error, where that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("cells", total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)
