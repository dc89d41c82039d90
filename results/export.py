"""One file of the attempts that count: CSV or Parquet, a group of cells at a time so that memory stays small.

CSV has no nulls and no lists: a null is an empty field (an empty text is ""), a list is JSON text.
"""

import json
from collections.abc import Callable, Iterator
from typing import BinaryIO, Literal, TypeAlias

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from results.cost import with_cost
from results.price import price_of
from results.read import SCHEMAS, sweep_name, with_sweep
from results.store import Store
from results.summary import summarise_all, what_counts, with_metrics_by_cell
from results.trial_table import trial_table

TableName: TypeAlias = Literal["requests", "batches", "samples", "trials"]
CELLS_AT_A_TIME = 8

Watch: TypeAlias = Callable[[int, int], None]  # cells written, cells in all


def export(
    store: Store, table: TableName, kind: Literal["csv", "parquet"], sink: BinaryIO, watch: Watch
) -> int:
    """Write the table to an open file; the number of rows. What could not be read is in `store.problems`."""
    schema = SCHEMAS[table]
    written = 0
    writer = (
        _csv_writer(sink, schema) if kind == "csv" else pq.ParquetWriter(sink, schema, compression="zstd")
    )
    with writer:
        for rows in _groups(store, table, watch):
            named = with_sweep(rows, sweep_name(store)).cast(schema)
            writer.write_table(_lists_as_text(named) if kind == "csv" else named)
            written += named.num_rows
    return written


def _groups(store: Store, table: TableName, watch: Watch) -> Iterator[pa.Table]:
    if table == "trials":
        trials, requests, batches = what_counts(store)
        watch(0, len(trials))
        price = price_of(store.read_sweep() or {})
        yield trial_table([with_cost(one, price) for one in summarise_all(trials, requests, batches)])
        watch(len(trials), len(trials))
        return
    cells = sorted(store.done_cells())
    watch(0, len(cells))
    for first in range(0, len(cells), CELLS_AT_A_TIME):
        group = cells[first : first + CELLS_AT_A_TIME]
        yield _rows(store, table, group)
        watch(first + len(group), len(cells))


def _rows(store: Store, table: TableName, group: list[str]) -> pa.Table:
    if table == "requests":
        return with_metrics_by_cell(store.requests(group), store.batches(group))
    return store.batches(group) if table == "batches" else store.samples(group)


def _csv_writer(sink: BinaryIO, schema: pa.Schema) -> pc_csv.CSVWriter:
    text = pa.schema(
        [pa.field(field.name, pa.string()) if pa.types.is_list(field.type) else field for field in schema]
    )
    return pc_csv.CSVWriter(sink, text)


def _lists_as_text(table: pa.Table) -> pa.Table:
    for index, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            values = [
                None if value is None else json.dumps(value) for value in table.column(index).to_pylist()
            ]
            table = table.set_column(index, field.name, pa.array(values, pa.string()))
    return table
