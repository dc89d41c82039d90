"""One file of the attempts that count, read back by programs that know nothing of batchyard."""

import csv
import io
import json
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq
import pytest

from results.export import CELLS_AT_A_TIME, TableName, export
from results.read import SCHEMAS, read
from results.store import Store

TABLES: list[TableName] = ["requests", "batches", "trials"]


def exported(store: Store, table: TableName, kind) -> io.BytesIO:
    sink = io.BytesIO()
    written = export(store, table, kind, sink, lambda done, of: None)
    assert written == getattr(read(store.root), table).num_rows
    return io.BytesIO(sink.getvalue())


@pytest.mark.parametrize("table", TABLES)
def test_parquet_holds_what_read_gives(made_store: Store, table: TableName):
    rows = pq.read_table(exported(made_store, table, "parquet"))
    assert rows.schema.equals(SCHEMAS[table])
    assert rows.equals(getattr(read(made_store.root), table))
    assert pq.read_schema(exported(made_store, table, "parquet")).field("rate").metadata[b"unit"]


@pytest.mark.parametrize("table", TABLES)
def test_csv_holds_the_same_values(made_store: Store, table: TableName):
    text = exported(made_store, table, "csv").getvalue().decode()
    header, *lines = csv.reader(io.StringIO(text))
    expected = getattr(read(made_store.root), table)
    assert header == expected.column_names
    assert len(lines) == expected.num_rows
    for line, row in zip(lines, expected.to_pylist(), strict=True):
        for given, (name, value) in zip(line, row.items(), strict=True):
            if value is None:
                assert given == "", name
            elif isinstance(value, list):
                assert json.loads(given) == value, name
            elif isinstance(value, bool):
                assert given == str(value).lower(), name
            else:
                assert type(value)(given) == value, name


def test_csv_tells_an_unknown_text_from_an_empty_one(made_sweep: ModuleType, tmp_path: Path):
    store = Store(tmp_path)
    store.write_sweep({"name": "odd"})
    attempt = store.begin_attempt("cell-000")
    odd = 'a "quoted", comma\nand a line'
    rows = [
        made_sweep.request_row(index=index, status="failed", error=error, token_s=None)
        for index, error in enumerate((None, "", odd))
    ]
    attempt.write_requests(rows)
    attempt.finish(made_sweep.make_trial(rows))
    text = exported(store, "requests", "csv").getvalue().decode()
    assert [row["error"] for row in csv.DictReader(io.StringIO(text))] == ["", "", odd]
    assert ',"failed",,' in text
    assert ',"failed","",' in text


def test_whoever_watches_sees_all_cells_go_by(made_store: Store):
    seen: list[tuple[int, int]] = []
    export(made_store, "batches", "csv", io.BytesIO(), lambda done, of: seen.append((done, of)))
    cells = len(made_store.done_cells())
    assert cells > CELLS_AT_A_TIME
    assert seen[0] == (0, cells)
    assert seen[-1] == (cells, cells)
    assert len(seen) == 1 + -(-cells // CELLS_AT_A_TIME)
