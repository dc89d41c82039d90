"""`batchyard schema`: what a config may say, for editors; or what the columns of the rows mean."""

from typing import Annotated

import typer

from experiments.console import emit, one_line_errors
from experiments.errors import ConfigError

EXAMPLES = (
    "Examples:  batchyard schema > experiments/configs/sweep.schema.json  ·  "
    "batchyard schema --keys > docs/CONFIG.md  ·  batchyard schema --rows > docs/SCHEMA.md"
)


def schema(
    rows: Annotated[
        bool, typer.Option("--rows", help="The columns of the result tables instead, as Markdown.")
    ] = False,
    keys: Annotated[bool, typer.Option("--keys", help="The same keys to read, as Markdown.")] = False,
) -> None:
    """Print the JSON Schema of a config, which editors complete and check it with."""
    with one_line_errors():
        if rows and keys:
            raise ConfigError("schema prints one of --rows and --keys, got both")
        if keys:
            from experiments.config_page import config_page

            print(config_page(), end="")
        elif rows:
            from results.schema_page import schema_page

            print(schema_page(), end="")
        else:
            from experiments.config_schema import config_schema

            emit(config_schema())
