"""docs/SCHEMA.md: every column of every table with its meaning and unit, made from the schemas themselves."""

import pyarrow as pa

from results.read import SCHEMAS

_TABLES = {
    "requests": "One row per request of the attempts that count.",
    "batches": "One row per batch that a strategy released, and per step of an engine that reports them.",
    "samples": "One row per second of a trial that counts, one at its start; none in virtual time.",
    "trials": "One row per trial that counts, with its metrics and verdicts.",
    "failures": "One row per attempt that failed.",
    "partial": "One row per request that had ended in an attempt that failed. `export` does not write it.",
}

_HEAD = """\
# Columns

The tables of `results.read.read(folder)` and of `batchyard export`. Made by `batchyard schema --rows`
from the schemas in the code; a test keeps it so.

Times that end in `_s` are seconds from trial start (the first moment of the measured period) on the
client's clock, or lengths of time in seconds. A value that is unknown or does not exist is null, never 0.
*Always*: the column has a value in every row.
"""


def schema_page() -> str:
    """The page as Markdown."""
    sections = [
        f"## {name}\n\n{_TABLES[name]}\n\n"
        "| column | type | unit | always | meaning |\n|---|---|---|---|---|\n"
        + "".join(f"{_line(field)}\n" for field in schema)
        for name, schema in SCHEMAS.items()
    ]
    return "\n".join([_HEAD, *sections])


def _line(field: pa.Field) -> str:
    says = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    kind = f"list of {field.type.value_type}" if pa.types.is_list(field.type) else field.type
    cells = (f"`{field.name}`", str(kind), says.get("unit", ""), "" if field.nullable else "yes")
    meaning = says["description"].replace("|", r"\|")
    return f"| {' | '.join(cells)} | {meaning} |"
