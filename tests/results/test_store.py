"""The store: what counts, and what a crash, damage or a newer version leaves readable."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from results.attempt import Attempt
from results.errors import StoreError
from results.records import BATCHES, LATER, REQUESTS, Failure
from results.store import Store


def write(made: ModuleType, attempt: Attempt, count: int = 4, parts: int = 2) -> list[dict[str, Any]]:
    rows = [
        made.request_row(
            cell_id=attempt.cell_id,
            attempt=attempt.number,
            index=k,
            planned_s=0.1 * k,
            token_s=[1.0, 2.0 + k],
        )
        for k in range(count)
    ]
    for first in range(0, count, count // parts):
        attempt.write_requests(rows[first : first + count // parts])
    return rows


def complete(made: ModuleType, store: Store, cell_id: str) -> Attempt:
    attempt = store.begin_attempt(cell_id)
    rows = write(made, attempt)
    attempt.write_batches([made.batch_row(cell_id=cell_id, attempt=attempt.number, batch_id=0, size=4)])
    attempt.finish(made.make_trial(rows))
    return attempt


def folder(store: Store, cell_id: str, number: int) -> Path:
    return Path(store.root) / "cells" / cell_id / f"attempt-{number}"


def failure(attempt: Attempt) -> Failure:
    return Failure(
        cell_id=attempt.cell_id,
        attempt=attempt.number,
        cause="EngineDead",
        error="gone",
        failed_at="2026-11-01T10:00:00Z",
    )


def test_an_empty_folder_has_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "new")
    assert store.read_sweep() is None
    assert store.done_cells() == {}
    assert store.trials() == []
    assert store.failures() == []
    assert store.requests().schema.equals(REQUESTS)
    assert store.batches().schema.equals(BATCHES)
    assert store.problems == []


def test_part_files_from_before_a_column_was_added_have_null_in_it(
    tmp_path: Path, made_sweep: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, schema in (("REQUESTS", REQUESTS), ("BATCHES", BATCHES)):
        older = pa.schema([field for field in schema if field.name not in LATER])
        monkeypatch.setattr(f"results.attempt.{name}", older)
    complete(made_sweep, Store(tmp_path), "a")
    store = Store(tmp_path)
    requests, batches = store.requests(), store.batches()
    assert (requests.schema, batches.schema) == (REQUESTS, BATCHES)
    for column in (requests["token_steps"], batches["steps"], batches["started_s"]):
        assert column.null_count == len(column) > 0
    assert store.requests(columns=["token_steps"]).num_rows == len(requests)
    assert store.problems == []


def test_what_is_written_is_read(tmp_path: Path, made_sweep: ModuleType) -> None:
    store = Store(tmp_path)
    store.write_sweep({"name": "one", "rates": [1.0]})
    attempt = store.begin_attempt("a")
    rows = write(made_sweep, attempt)
    trial = made_sweep.make_trial(rows)
    attempt.finish(trial)
    again = Store(tmp_path)
    assert again.read_sweep() == {"schema_version": 1, "name": "one", "rates": [1.0]}
    assert again.done_cells() == {"a": 1}
    assert again.trials() == [trial]
    read = again.requests().to_pylist()
    assert [{name: row[name] for name in rows[0]} for row in read] == rows


def test_a_uri_opens_the_same_store(tmp_path: Path, made_sweep: ModuleType) -> None:
    complete(made_sweep, Store(tmp_path), "a")
    assert Store(f"file://{tmp_path}").requests().num_rows == 4


def test_rows_can_be_had_by_cell_and_column(tmp_path: Path, made_sweep: ModuleType) -> None:
    store = Store(tmp_path)
    for cell_id in ("b", "a"):
        complete(made_sweep, store, cell_id)
    assert store.requests(columns=["index"]).to_pydict() == {"index": [0, 1, 2, 3, 0, 1, 2, 3]}
    assert store.requests(cell_ids={"b"}, columns=["cell_id"]).to_pydict() == {"cell_id": ["b"] * 4}
    assert store.batches(columns=["cell_id", "size"]).to_pydict() == {"cell_id": ["a", "b"], "size": [4, 4]}


def test_asked_for_some_cells_it_looks_at_no_other(tmp_path: Path, made_sweep: ModuleType) -> None:
    for cell_id in ("a", "b"):
        complete(made_sweep, Store(tmp_path), cell_id)
    (folder(Store(tmp_path), "b", 1) / "done.json").write_text("{")
    store = Store(tmp_path)
    assert store.done_cells({"a", "unknown"}) == {"a": 1}
    assert [trial.attempt for trial in store.trials({"a"})] == [1]
    assert store.requests({"a"}).num_rows == 4
    assert store.begin_attempt("a").number == 2
    assert store.problems == []


def test_a_killed_attempt_is_passed_over_and_its_number_not_used_again(
    tmp_path: Path, made_sweep: ModuleType
) -> None:
    store = Store(tmp_path)
    write(made_sweep, store.begin_attempt("a"))
    assert store.done_cells() == {}
    assert store.requests().num_rows == 0
    assert complete(made_sweep, Store(tmp_path), "a").number == 2
    assert store.done_cells() == {"a": 2}
    assert store.requests().column("attempt").unique().to_pylist() == [2]


def test_an_attempt_killed_before_its_first_row_keeps_its_number(tmp_path: Path) -> None:
    assert Store(tmp_path).begin_attempt("a").number == 1
    assert Store(tmp_path).begin_attempt("a").number == 2


def test_a_failed_attempt_keeps_its_error_and_its_rows_do_not_count(
    tmp_path: Path, made_sweep: ModuleType
) -> None:
    store = Store(tmp_path)
    attempt = store.begin_attempt("a")
    write(made_sweep, attempt)
    attempt.fail(failure(attempt))
    assert store.failures() == [failure(attempt)]
    assert store.done_cells() == {}
    assert store.requests().num_rows == 0
    assert store.begin_attempt("a").number == 2


def test_a_half_written_part_is_not_a_part(tmp_path: Path, made_sweep: ModuleType) -> None:
    store = Store(tmp_path)
    attempt = complete(made_sweep, store, "a")
    (folder(store, "a", attempt.number) / "requests-00002.parquet.tmp").write_bytes(b"PAR1 half of it")
    (folder(store, "a", attempt.number) / "requests-00003.parquet").write_bytes(b"PAR1 of somebody else")
    assert store.requests().num_rows == 4
    assert store.problems == []


def test_of_two_done_attempts_the_lowest_counts(tmp_path: Path, made_sweep: ModuleType) -> None:
    store = Store(tmp_path)
    complete(made_sweep, store, "a")
    complete(made_sweep, store, "a")
    assert store.done_cells() == {"a": 1}
    assert store.requests().num_rows == 4
    assert len(store.trials()) == 1


@pytest.mark.parametrize("kind", ["requests", "batches"])
def test_a_damaged_part_sets_its_attempt_aside_and_the_rest_is_read(
    tmp_path: Path, made_sweep: ModuleType, kind: str
) -> None:
    store = Store(tmp_path)
    complete(made_sweep, store, "a")
    complete(made_sweep, store, "b")
    part = folder(store, "a", 1) / f"{kind}-00000.parquet"
    content = bytearray(part.read_bytes())
    content[20:40] = bytes(20)
    part.write_bytes(content)
    table = store.requests() if kind == "requests" else store.batches()
    assert table.column("cell_id").unique().to_pylist() == ["b"]
    assert len(store.problems) == 1
    assert str(part) in store.problems[0]
    assert store.done_cells() == {"b": 1}


@pytest.mark.parametrize("left", [None, 30])
def test_a_lost_or_cut_part_is_noticed_without_reading(
    tmp_path: Path, made_sweep: ModuleType, left: int | None
) -> None:
    store = Store(tmp_path)
    complete(made_sweep, store, "a")
    part = folder(store, "a", 1) / "requests-00001.parquet"
    content = part.read_bytes()
    part.unlink()
    if left is not None:
        part.write_bytes(content[:left])
    assert store.done_cells() == {}
    assert str(part) in store.problems[0]


def test_a_second_done_attempt_takes_the_place_of_a_damaged_first(
    tmp_path: Path, made_sweep: ModuleType
) -> None:
    store = Store(tmp_path)
    complete(made_sweep, store, "a")
    complete(made_sweep, store, "a")
    part = folder(store, "a", 1) / "requests-00000.parquet"
    part.write_bytes(bytes(part.stat().st_size))
    assert store.requests().column("attempt").to_pylist() == [2, 2, 2, 2]
    assert store.trials()[0].attempt == 2


def test_an_unreadable_done_document_is_set_aside(tmp_path: Path, made_sweep: ModuleType) -> None:
    store = Store(tmp_path)
    complete(made_sweep, store, "a")
    (folder(store, "a", 1) / "done.json").write_text("{")
    assert store.done_cells() == {}
    assert "done.json" in store.problems[0]


@pytest.mark.parametrize("name", ["sweep.json", "cells/a/attempt-1/done.json"])
def test_a_future_version_is_refused_not_run_again(tmp_path: Path, made_sweep: ModuleType, name: str) -> None:
    store = Store(tmp_path)
    store.write_sweep({"name": "one"})
    complete(made_sweep, store, "a")
    path = tmp_path / name
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 2}))
    fresh = Store(tmp_path)
    with pytest.raises(StoreError, match=r"schema version 2.*reads up to 1"):
        fresh.read_sweep() if name == "sweep.json" else fresh.done_cells()


def test_an_unreadable_sweep_document_is_named(tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text('{"name": ')
    with pytest.raises(StoreError, match=r"sweep\.json must be JSON"):
        Store(tmp_path).read_sweep()


def test_each_part_carries_its_provenance(tmp_path: Path, made_sweep: ModuleType) -> None:
    store = Store(tmp_path)
    store.write_sweep({"name": "one", "provenance": {"git_commit": "abc"}})
    complete(made_sweep, store, "a")
    metadata = pq.read_schema(folder(store, "a", 1) / "requests-00000.parquet").metadata
    carried = json.loads(metadata[b"batchyard"])
    assert (carried["cell_id"], carried["attempt"]) == ("a", 1)
    assert carried["sweep"]["provenance"] == {"git_commit": "abc"}


def test_threads_that_write_at_once_lose_nothing(tmp_path: Path, made_sweep: ModuleType) -> None:
    store = Store(tmp_path)
    attempt = store.begin_attempt("a")
    rows = [made_sweep.request_row(cell_id="a", index=k, token_s=[1.0, 2.0]) for k in range(60)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda row: attempt.write_requests([row]), rows))
    attempt.finish(made_sweep.make_trial(rows))
    assert store.requests().column("index").to_pylist() == list(range(60))
    assert store.problems == []


def test_rows_that_do_not_fit_are_refused(tmp_path: Path, made_sweep: ModuleType) -> None:
    attempt = Store(tmp_path).begin_attempt("a")
    row = made_sweep.request_row(cell_id="a", token_s=[1.0])
    with pytest.raises(StoreError, match="unknown columns: colour"):
        attempt.write_requests([{**row, "colour": "red"}])
    with pytest.raises(StoreError, match="column planned_s must have a value"):
        attempt.write_requests([{**row, "planned_s": None}])
    with pytest.raises(StoreError, match="does not fit"):
        attempt.write_requests([{**row, "planned_s": "soon"}])
    with pytest.raises(StoreError, match="must have attempt=1"):
        attempt.write_requests([{**row, "attempt": 2}])
    attempt.write_requests([row])
    with pytest.raises(StoreError, match="only one row"):
        attempt.write_requests([row])


def test_an_attempt_cannot_finish_with_a_request_missing_or_as_another(
    tmp_path: Path, made_sweep: ModuleType
) -> None:
    store = Store(tmp_path)
    attempt = store.begin_attempt("a")
    rows = write(made_sweep, attempt)
    with pytest.raises(StoreError, match="5 requests were planned, 4 have a row"):
        attempt.finish(made_sweep.make_trial(rows, planned_requests=5))
    with pytest.raises(StoreError, match="got a record of attempt 2"):
        attempt.finish(made_sweep.make_trial(rows, attempt=2))
    attempt.finish(made_sweep.make_trial(rows))
    with pytest.raises(StoreError, match="has ended"):
        attempt.fail(failure(attempt))
