"""One file of the attempts that count, read back by programs that know nothing of batchyard."""

import csv
import io
import json
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq
import pytest

from results.export import CELLS_AT_A_TIME, TableName, export
from results.read import SCHEMAS, Rows, read
from results.store import Store

TABLES: list[TableName] = ["requests", "batches", "trials"]


@pytest.fixture(scope="module")
def whole(made_store: Store) -> Rows:
    """What `read` gives of the made sweep, read once."""
    return read(made_store.root)


def exported(store: Store, table: TableName, kind, rows: int) -> io.BytesIO:
    sink = io.BytesIO()
    assert export(store, table, kind, sink, lambda done, of: None) == rows
    return io.BytesIO(sink.getvalue())


@pytest.mark.parametrize("table", TABLES)
def test_parquet_holds_what_read_gives(made_store: Store, whole: Rows, table: TableName):
    expected = getattr(whole, table)
    file = exported(made_store, table, "parquet", expected.num_rows)
    rows = pq.read_table(file)
    file.seek(0)
    assert rows.schema.equals(SCHEMAS[table])
    assert rows.equals(expected)
    assert pq.read_schema(file).field("rate").metadata[b"unit"]


@pytest.mark.parametrize("table", TABLES)
def test_csv_holds_the_same_values(made_store: Store, whole: Rows, table: TableName):
    expected = getattr(whole, table)
    text = exported(made_store, table, "csv", expected.num_rows).getvalue().decode()
    header, *lines = csv.reader(io.StringIO(text))
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
    text = exported(store, "requests", "csv", len(rows)).getvalue().decode()
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
