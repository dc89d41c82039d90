"""`batchyard schema`: what a config may say, for editors; or what the columns of the rows mean."""

from typing import Annotated

import typer

from experiments.console import emit, one_line_errors

EXAMPLES = (
    "Examples:  batchyard schema > experiments/configs/sweep.schema.json  ·  "
    "batchyard schema --rows > docs/SCHEMA.md"
)


def schema(
    rows: Annotated[
        bool, typer.Option("--rows", help="The columns of the result tables instead, as Markdown.")
    ] = False,
) -> None:
    """Print the JSON Schema of a config, which editors complete and check it with."""
    with one_line_errors():
        if rows:
            from results.schema_page import schema_page

            print(schema_page(), end="")
        else:
            from experiments.config_schema import config_schema

            emit(config_schema())
