"""The store of a sweep: immutable part files, and one small document that makes an attempt count.

    sweep.json
    cells/<cell id>/attempt-<k>/requests-00000.parquet, …   written during the trial
                               /batches-00000.parquet, …
                               /samples-00000.parquet
                               /lane.json                written when it has its lane
                               /done.json | failed.json      written last

Every file is written beside its place and moved there, so that a reader sees all of it or nothing. An
attempt with neither document was killed: readers pass it over and its number is never given again.
`done.json` lists its part files with their sizes, so that a lost or cut one is noticed without reading.
"""

import json
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import pyarrow as pa
from pydantic import ValidationError

from results.address import place
from results.attempt import LANE, Attempt
from results.done_documents import DONE, DoneDocuments
from results.errors import FutureVersion, StoreAway, StoreError, one_line
from results.records import (
    BATCHES,
    REQUESTS,
    SAMPLES,
    SCHEMA_VERSION,
    Failure,
    LaneTime,
    LeastLaneTime,
    Trial,
)
from results.store_files import StoreFiles
from results.sweep_document import check_kinds

FAILED = "failed.json"

Kind: TypeAlias = Literal["requests", "batches", "samples"]

_SCHEMAS: dict[Kind, pa.Schema] = {"requests": REQUESTS, "batches": BATCHES, "samples": SAMPLES}
_ORDER: dict[Kind, tuple[str, ...]] = {
    "requests": ("cell_id", "index"),
    "batches": ("cell_id", "kind", "batch_id", "launched_s"),
    "samples": ("cell_id", "at_s"),
}


class Store:
    """A sweep's folder. `problems` names what could not be read and was set aside, one line each."""

    def __init__(self, root: str | os.PathLike[str], *, wait_s: float = 0.0) -> None:
        """`wait_s`: of a folder that is there, and is never made again: how long it is waited for if it is away."""
        self.root = os.fspath(root)
        self.problems: list[str] = []
        self._set_aside: set[tuple[str, int]] = set()
        self.place = place(root)
        self._files = StoreFiles(self.place, wait_s=wait_s)
        self.patience = self._files.patience
        self._done = DoneDocuments(self._files)

    def create(self) -> None:
        """Make the folder, if it is not there. StoreError if it cannot be made."""
        self._files.create()

    def write_sweep(self, info: Mapping[str, Any]) -> None:
        """Write sweep.json: name, config as written, what was measured to resolve it, provenance."""
        if not self.patience.wait_s:
            self.create()
        text = json.dumps({"schema_version": SCHEMA_VERSION, **info}, indent=2, allow_nan=False)
        self._files.write(self._files.sweep_document, text.encode())

    def read_sweep(self) -> dict[str, Any] | None:
        """Give sweep.json, None if there is none. StoreError if unreadable, damaged or of a future version."""
        self._files.must_be_there()
        if not self._files.exists(self._files.sweep_document):
            return None
        document = self._files.read_document(self._files.sweep_document)
        check_kinds(document, self.root)
        return document

    def begin_attempt(self, cell_id: str) -> Attempt:
        """Begin the next free attempt of this cell; numbers begin at 1 and are never used twice."""
        sweep = self.read_sweep()
        number, folder = self._files.new_attempt(cell_id)
        return Attempt(self._files.filesystem, folder, cell_id, number, sweep=sweep, patience=self.patience)

    def open_attempt(self, cell_id: str) -> Attempt | None:
        """The newest attempt of this cell if it has not ended: for who knows that its process is gone, to fail it."""
        number, sizes = max(self._files.attempts({cell_id}).get(cell_id, {0: {}}).items())
        if not number or {DONE, FAILED} & sizes.keys():
            return None
        folder = self._files.folder(cell_id, number)
        return Attempt(self._files.filesystem, folder, cell_id, number, patience=self.patience)

    def done_cells(self, cell_ids: Collection[str] | None = None) -> dict[str, int]:
        """Give cell id → the attempt that counts: the lowest that is done and whole.

        Of some cells if `cell_ids` says so; no other folder is looked at then.
        """
        done: dict[str, int] = {}
        found = self._files.attempts(cell_ids)
        if self.patience.remote:
            keys = ((cell, number) for cell in found for number in found[cell] if DONE in found[cell][number])
            self._done.read_ahead(key for key in keys if key not in self._set_aside)
        for cell_id, attempts in found.items():
            for number, sizes in sorted(attempts.items()):
                if DONE in sizes and self._is_whole(cell_id, number, sizes):
                    done[cell_id] = number
                    break
        return done

    def failures(self, cell_ids: Collection[str] | None = None) -> list[Failure]:
        """Give what the attempts that failed left, by cell and attempt; of some cells if `cell_ids` says so."""
        failures: list[Failure] = []
        for cell_id, attempts in sorted(self._files.attempts(cell_ids).items()):
            for number, sizes in sorted(attempts.items()):
                if FAILED not in sizes or DONE in sizes:
                    continue
                path = f"{self._files.folder(cell_id, number)}/{FAILED}"
                try:
                    failures.append(Failure.model_validate(self._files.read_document(path)))
                except StoreAway:
                    raise
                except (StoreError, ValidationError) as error:
                    self._report(f"{path} cannot be read: {one_line(error)}")
        return failures

    def last_row_at(self) -> str | None:
        """When the newest part file was written: ISO 8601, UTC."""
        parts = [one.mtime for one in self._files.below(self._files.cells) if one.extension == "parquet"]
        return max(parts).isoformat(timespec="seconds") if parts else None

    def trials(self, cell_ids: Collection[str] | None = None) -> list[Trial]:
        """Give the trials that count, sorted by cell id."""
        done = self.done_cells(cell_ids)
        return [self._done[cell, done[cell]].trial for cell in sorted(done)]

    def lane_times(self, cell_ids: Collection[str] | None = None) -> dict[tuple[str, int], LaneTime | None]:
        """Give by cell id and attempt how long each had its lane, whatever became of it.

        A LeastLaneTime of one that runs or was killed; None where it had none yet, or is of a version that wrote none.
        """
        found: dict[tuple[str, int], LaneTime | None] = {}
        for cell_id, attempts in sorted(self._files.attempts(cell_ids).items()):
            for number, files in sorted(attempts.items()):
                found[cell_id, number] = self._lane_time(cell_id, number, files)
        return found

    def _lane_time(self, cell_id: str, number: int, files: Collection[str]) -> LaneTime | None:
        """What cannot be read is told where it is read for its rows, and its time is not known."""
        name = next((one for one in (DONE, FAILED, LANE) if one in files), None)
        if name is None:
            return None
        try:
            if name == LANE:
                return self._least_lane_time(self._files.folder(cell_id, number))
            if name == DONE and (known := self._done.get((cell_id, number))) is not None:
                return known.trial.lane_time
            document = self._files.read_document(f"{self._files.folder(cell_id, number)}/{name}")
            written = document.get("trial", document).get("lane_time")
            return None if written is None else LaneTime.model_validate(written)
        except StoreAway:
            raise
        except (StoreError, ValidationError, AttributeError, LookupError, TypeError):
            return None

    def _least_lane_time(self, folder: str) -> LeastLaneTime:
        """By the clock of who keeps the files, from when it had its lane to the newest of them."""
        at = {info.base_name: info.mtime for info in self._files.below(folder)}
        since = self._files.read_document(f"{folder}/{LANE}")["lane_time"]
        return LeastLaneTime.model_validate(
            {**since, "held_s": (max(at.values()) - at[LANE]).total_seconds()}
        )

    def requests(
        self, cell_ids: Collection[str] | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Give the request rows of attempts that count, each once, sorted by cell id and index.

        An attempt with a damaged part file is set aside whole and named in `problems`.
        """
        return self._rows("requests", cell_ids, columns)

    def batches(
        self, cell_ids: Collection[str] | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Give the batch and step rows in the same way, sorted by cell id, kind and batch id."""
        return self._rows("batches", cell_ids, columns)

    def samples(
        self, cell_ids: Collection[str] | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Give what was seen once a second in the same way, sorted by cell id and time; none in virtual time."""
        return self._rows("samples", cell_ids, columns)

    def partial_requests(self) -> pa.Table:
        """Give the request rows that failed attempts left, by cell, attempt and index; `failures` says why.

        None of them counts. Part files that cannot be read are named in `problems`.
        """
        tables = [REQUESTS.empty_table()]
        for failure in self.failures():
            folder = self._files.folder(failure.cell_id, failure.attempt)
            for name in sorted(self._files.attempts({failure.cell_id})[failure.cell_id][failure.attempt]):
                if name.startswith("requests-") and name.endswith(".parquet"):
                    try:
                        tables.append(self._files.read_part(f"{folder}/{name}", REQUESTS))
                    except StoreAway:
                        raise
                    except StoreError as error:
                        self._report(str(error))
        return pa.concat_tables(tables).sort_by(
            [(name, "ascending") for name in ("cell_id", "attempt", "index")]
        )

    def _rows(self, kind: Kind, cell_ids: Collection[str] | None, columns: Sequence[str] | None) -> pa.Table:
        schema, order = _SCHEMAS[kind], _ORDER[kind]
        wanted = list(schema.names if columns is None else columns)
        read = [name for name in schema.names if name in {*wanted, *order}]
        tables = []
        for cell_id, number in sorted(self.done_cells(cell_ids).items()):
            current: int | None = number
            while current is not None:
                try:
                    tables.append(self._read_parts(kind, cell_id, current, read))
                    break
                except StoreAway:
                    raise
                except StoreError as error:
                    self._put_aside(cell_id, current, str(error))
                    current = self.done_cells({cell_id}).get(cell_id)
        empty = pa.schema([schema.field(name) for name in read]).empty_table()
        table = pa.concat_tables([empty, *tables])
        return table.sort_by([(name, "ascending") for name in order]).select(wanted)

    def _read_parts(self, kind: Kind, cell_id: str, number: int, columns: Sequence[str]) -> pa.Table:
        schema = pa.schema([_SCHEMAS[kind].field(name) for name in columns])
        tables = [schema.empty_table()]
        done = self._done[cell_id, number]
        for name in done.parts:
            if name.startswith(f"{kind}-"):
                tables.append(self._files.read_part(f"{self._files.folder(cell_id, number)}/{name}", schema))
        table = pa.concat_tables(tables)
        planned = done.trial.planned_requests
        if kind == "requests" and table.num_rows != planned:
            folder = self._files.folder(cell_id, number)
            raise StoreError(f"{folder} must have {planned} request rows, has {table.num_rows}")
        return table

    def _is_whole(self, cell_id: str, number: int, sizes: Mapping[str, int]) -> bool:
        """Whether a done attempt can be used: its document is readable and its part files are there."""
        if (cell_id, number) in self._set_aside:
            return False
        try:
            done = self._done[cell_id, number]
        except (FutureVersion, StoreAway):
            raise  # running the cell again would hide newer results, or those that cannot be read now
        except StoreError as error:
            self._put_aside(cell_id, number, str(error))
            return False
        for name, size in done.parts.items():
            if sizes.get(name) != size:
                path = f"{self._files.folder(cell_id, number)}/{name}"
                has = f"{path} should have {size} bytes, has {sizes.get(name, 'none')}"
                self._put_aside(cell_id, number, has)
                return False
        return True

    def _put_aside(self, cell_id: str, number: int, why: str) -> None:
        self._set_aside.add((cell_id, number))
        self._report(f"cell {cell_id}, attempt {number} set aside: {why}")

    def _report(self, line: str) -> None:
        if line not in self.problems:
            self.problems.append(line)
