"""One attempt to run a cell: it writes part files while the trial runs, and one document at its end."""

import contextlib
import io
import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from results.address import shown
from results.errors import DiskFull, StoreError, cannot_write
from results.patience import Patience
from results.records import BATCHES, REQUESTS, SAMPLES, SCHEMA_VERSION, Failure, LaneTime, Trial

LANE = "lane.json"  # in an attempt's folder from when it had its lane on


class Attempt:
    """Made by `Store.begin_attempt`. Nothing that it wrote counts before `finish`.

    Threads may write at once: a part file is always one call's rows.
    """

    def __init__(
        self,
        filesystem: fs.FileSystem,
        folder: str,
        cell_id: str,
        number: int,
        *,
        sweep: Mapping[str, Any] | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.cell_id = cell_id
        self.number = number
        self._identity = {"cell_id": cell_id, "attempt": number}
        self._filesystem = filesystem
        self._folder = folder
        self._patience = patience or Patience()
        self._parts: dict[str, int] = {}  # file name → bytes
        self._request_ids: set[str] = set()
        self._rows, self._last_index = 0, -1  # of requests that came as tables
        self._ended = False
        self._writing = threading.Lock()
        self._provenance = {
            "schema_version": SCHEMA_VERSION,
            "cell_id": cell_id,
            "attempt": number,
            "sweep": sweep,
        }

    def record(self, setup: Mapping[str, Any]) -> None:
        """The set-up of this attempt (versions, commit, device, dtype, engine), for every file from now on."""
        self._provenance["setup"] = setup

    def took_lane(self, lane: LaneTime) -> None:
        """It has its lane from now on: what is known of its time if it is killed."""
        text = json.dumps({"schema_version": SCHEMA_VERSION, "lane_time": lane.model_dump(mode="json")})
        with self._writing:
            self._put(LANE, text.encode())

    def write_requests(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write one part file of request rows (schema REQUESTS); `cell_id` and `attempt` may be left out.

        StoreError on an unknown or missing column, or on a request that was written before.
        """
        ids = [str(row.get("request_id")) for row in rows]
        with self._writing:
            if len(set(ids)) < len(ids) or not self._request_ids.isdisjoint(ids):
                raise StoreError(f"cell {self.cell_id}: a request may have only one row in an attempt")
            self._write("requests", rows, REQUESTS)
            self._request_ids.update(ids)

    def write_batches(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write one part file of batch or step rows (schema BATCHES), in the same way."""
        with self._writing:
            self._write("batches", rows, BATCHES)

    def write_samples(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write one part file of samples (schema SAMPLES), in the same way."""
        with self._writing:
            self._write("samples", rows, SAMPLES)

    def write_request_tables(self, tables: Iterable[pa.Table]) -> None:
        """The same for rows that come as tables of schema REQUESTS, whole and in order of `index`.

        StoreError on a request that was written before, or on a table that has not that schema.
        """
        with self._writing:
            for table in tables:
                index = np.asarray(table.column("index"))
                if len(index) and (index[0] <= self._last_index or (np.diff(index) <= 0).any()):
                    raise StoreError(f"cell {self.cell_id}: a request may have only one row in an attempt")
                self._write_table("requests", table, REQUESTS)
                self._last_index = int(index[-1]) if len(index) else self._last_index
                self._rows += len(index)

    def write_batch_tables(self, tables: Iterable[pa.Table]) -> None:
        """Batch and step rows (schema BATCHES), in the same way."""
        with self._writing:
            for table in tables:
                self._write_table("batches", table, BATCHES)

    def finish(self, trial: Trial) -> None:
        """Write done.json, which makes this attempt count.

        StoreError unless every planned request has its row: nothing is dropped, whatever became of it.
        """
        with self._writing:
            rows = self._rows + len(self._request_ids)
            if rows != trial.planned_requests or not rows:
                raise StoreError(
                    f"cell {self.cell_id}: {trial.planned_requests} requests were planned, {rows} have a row"
                )
            document = {"trial": trial.model_dump(mode="json"), "parts": self._parts}
            self._end("done.json", trial, document)

    def fail(self, failure: Failure) -> None:
        """Write failed.json: the attempt is over, its rows do not count.

        On a full disk they make room for it.
        """
        document = failure.model_dump(mode="json")
        with self._writing:
            try:
                self._end("failed.json", failure, document)
            except DiskFull:
                for name in self._parts:
                    self._filesystem.delete_file(f"{self._folder}/{name}")
                self._parts.clear()
                self._end("failed.json", failure, document)

    def _write(self, kind: str, rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> None:
        self._must_be_open()
        if not rows:
            return
        self._write_table(kind, _table([{**self._identity, **row} for row in rows], schema), schema)

    def _write_table(self, kind: str, table: pa.Table, schema: pa.Schema) -> None:
        self._must_be_open()
        if not table.num_rows:
            return
        if table.schema.names != schema.names:
            raise StoreError(f"a table of {kind} must have the columns of its schema")
        for name, value in self._identity.items():
            if table.column(name).unique().to_pylist() != [value]:
                raise StoreError(
                    f"rows of cell {self.cell_id}, attempt {self.number} must have {name}={value}"
                )
        sink = io.BytesIO()
        pq.write_table(
            table.replace_schema_metadata({"batchyard": json.dumps(self._provenance)}),
            sink,
            compression="zstd",
            use_dictionary=False,  # times do not repeat, and zstd sees what does: 25 % smaller, and quicker
            write_page_checksum=True,
        )
        index = sum(name.startswith(f"{kind}-") for name in self._parts)
        name = f"{kind}-{index:05d}.parquet"
        self._put(name, sink.getvalue())
        self._parts[name] = len(sink.getvalue())

    def _end(self, name: str, record: Trial | Failure, document: Mapping[str, Any]) -> None:
        self._must_be_open()
        if (record.cell_id, record.attempt) != (self.cell_id, self.number):
            raise StoreError(
                f"this is attempt {self.number} of cell {self.cell_id}, "
                f"got a record of attempt {record.attempt} of cell {record.cell_id}"
            )
        text = json.dumps({"schema_version": SCHEMA_VERSION, **document}, indent=2)
        self._put(name, text.encode())
        self._ended = True

    def _put(self, name: str, content: bytes) -> None:
        path = f"{self._folder}/{name}"
        self._patience.ask(lambda: move_into_place(self._filesystem, path, content))

    def _must_be_open(self) -> None:
        if self._ended:
            raise StoreError(f"attempt {self.number} of cell {self.cell_id} has ended")


def move_into_place(filesystem: fs.FileSystem, path: str, content: bytes) -> None:
    """Write `content` beside `path`, then move it there: a reader sees all of it or nothing.

    An object store shows an object when it is whole, and cannot move one.
    """
    temporary = f"{path}.tmp" if isinstance(filesystem, fs.LocalFileSystem) else path
    try:
        with filesystem.open_output_stream(temporary) as stream:
            stream.write(content)
        if temporary != path:
            filesystem.move(temporary, path)
    except OSError as error:
        if temporary != path:
            with contextlib.suppress(OSError):  # what there is of it takes the room of something else
                filesystem.delete_file(temporary)
        raise cannot_write(shown(filesystem, path), error) from error


def _table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    unknown = {name for row in rows for name in row} - set(schema.names)
    if unknown:
        raise StoreError(f"unknown columns: {', '.join(sorted(unknown))}")
    try:
        table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise StoreError(f"a row does not fit the schema: {error}") from error
    for field in schema:
        if not field.nullable and table.column(field.name).null_count:
            raise StoreError(f"column {field.name} must have a value in every row")
    return table
