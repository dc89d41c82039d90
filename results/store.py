"""The store of a sweep: immutable part files, and one small document that makes an attempt count.

    sweep.json
    cells/<cell id>/attempt-<k>/requests-00000.parquet, …   written during the trial
                               /batches-00000.parquet, …
                               /samples-00000.parquet
                               /done.json | failed.json      written last

Every file is written beside its place and moved there, so that a reader sees all of it or nothing. An
attempt with neither document was killed: readers pass it over and its number is never given again.
`done.json` lists its part files with their sizes, so that a lost or cut one is noticed without reading.
A store that a sweep writes to may be out of reach for a while: `wait_s` says for how long it is tried again.
The folder may be on a disk or in an object store that pyarrow opens ("s3://…", "gs://…": results/address.py), where
a file is an object that appears whole when it is written.
"""

import contextlib
import errno
import json
import os
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pydantic import ValidationError

from results.address import Address, opened, place
from results.attempt import Attempt, move_into_place
from results.errors import FutureVersion, StoreError, cannot_write, one_line, said
from results.patience import Patience
from results.records import BATCHES, LATER, REQUESTS, SAMPLES, SCHEMA_VERSION, Failure, LaneTime, Trial
from results.sweep_document import check_kinds

AT_A_TIME = 16  # requests to an object store
MANY_ROWS = 100_000  # of a part file: below it threads cost more than they save

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
        self._done: dict[tuple[str, int], dict[str, Any]] = {}  # immutable once written
        self.place = place(root)
        self._filesystem, self._path = opened(self.place)
        self.patience = Patience(wait_s=wait_s, remote=isinstance(self.place, Address))

    def create(self) -> None:
        """Make the folder, if it is not there. StoreError if it cannot be made."""
        self._create(self._path)

    def write_sweep(self, info: Mapping[str, Any]) -> None:
        """Write sweep.json: name, config as written, what was measured to resolve it, provenance."""
        if not self.patience.wait_s:
            self.create()
        text = json.dumps({"schema_version": SCHEMA_VERSION, **info}, indent=2, allow_nan=False)
        path = f"{self._path}/sweep.json"
        self.patience.ask(lambda: move_into_place(self._filesystem, path, text.encode()))

    def read_sweep(self) -> dict[str, Any] | None:
        """Give sweep.json, None if there is none. StoreError if unreadable, damaged or of a future version."""
        self.patience.ask(self._must_be_there)
        path = f"{self._path}/sweep.json"
        if self._look(path).type == fs.FileType.NotFound:
            return None
        document = self._read_document(path)
        check_kinds(document, self.root)
        return document

    def begin_attempt(self, cell_id: str) -> Attempt:
        """Begin the next free attempt of this cell; numbers begin at 1 and are never used twice."""
        sweep = self.read_sweep()
        number, folder = self.patience.ask(lambda: self._new_attempt(cell_id))
        return Attempt(self._filesystem, folder, cell_id, number, sweep=sweep, patience=self.patience)

    def open_attempt(self, cell_id: str) -> Attempt | None:
        """The newest attempt of this cell if it has not ended: for who knows that its process is gone, to fail it."""
        number, sizes = max(self._attempts({cell_id}).get(cell_id, {0: {}}).items())
        if not number or {"done.json", "failed.json"} & sizes.keys():
            return None
        folder = self._folder(cell_id, number)
        return Attempt(self._filesystem, folder, cell_id, number, patience=self.patience)

    def done_cells(self, cell_ids: Collection[str] | None = None) -> dict[str, int]:
        """Give cell id → the attempt that counts: the lowest that is done and whole.

        Of some cells if `cell_ids` says so; no other folder is looked at then.
        """
        done: dict[str, int] = {}
        found = self._attempts(cell_ids)
        if self.patience.remote:
            self._read_ahead(found)
        for cell_id, attempts in found.items():
            for number, sizes in sorted(attempts.items()):
                if "done.json" in sizes and self._is_whole(cell_id, number, sizes):
                    done[cell_id] = number
                    break
        return done

    def failures(self, cell_ids: Collection[str] | None = None) -> list[Failure]:
        """Give what the attempts that failed left, by cell and attempt; of some cells if `cell_ids` says so."""
        failures: list[Failure] = []
        for cell_id, attempts in sorted(self._attempts(cell_ids).items()):
            for number, sizes in sorted(attempts.items()):
                if "failed.json" not in sizes or "done.json" in sizes:
                    continue
                path = f"{self._folder(cell_id, number)}/failed.json"
                try:
                    failures.append(Failure.model_validate(self._read_document(path)))
                except (StoreError, ValidationError) as error:
                    self._report(f"{path} cannot be read: {one_line(error)}")
        return failures

    def last_row_at(self) -> str | None:
        """When the newest part file was written: ISO 8601, UTC."""
        parts = [one.mtime for one in self._files(f"{self._path}/cells") if one.extension == "parquet"]
        return max(parts).isoformat(timespec="seconds") if parts else None

    def trials(self, cell_ids: Collection[str] | None = None) -> list[Trial]:
        """Give the trials that count, sorted by cell id."""
        done = self.done_cells(cell_ids)
        return [Trial.model_validate(self._done[cell, done[cell]]["trial"]) for cell in sorted(done)]

    def lane_times(self, cell_ids: Collection[str] | None = None) -> dict[tuple[str, int], LaneTime | None]:
        """Give by cell id and attempt how long each had its lane, whatever became of it.

        None of one that left no record of that: it runs, was killed, or is of a version that wrote none.
        """
        found: dict[tuple[str, int], LaneTime | None] = {}
        for cell_id, attempts in sorted(self._attempts(cell_ids).items()):
            for number, files in sorted(attempts.items()):
                found[cell_id, number] = self._lane_time(cell_id, number, files)
        return found

    def _lane_time(self, cell_id: str, number: int, files: Collection[str]) -> LaneTime | None:
        """What cannot be read is told where it is read for its rows, and its time is not known."""
        name = next((one for one in ("done.json", "failed.json") if one in files), None)
        if name is None:
            return None
        try:
            known = self._done.get((cell_id, number)) if name == "done.json" else None
            document = known or self._read_document(f"{self._folder(cell_id, number)}/{name}")
            written = document.get("trial", document).get("lane_time")
            return None if written is None else LaneTime.model_validate(written)
        except (StoreError, ValidationError, AttributeError):
            return None

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
            folder = self._folder(failure.cell_id, failure.attempt)
            for name in sorted(self._attempts({failure.cell_id})[failure.cell_id][failure.attempt]):
                if name.startswith("requests-") and name.endswith(".parquet"):
                    try:
                        tables.append(self._read_part(f"{folder}/{name}", REQUESTS))
                    except StoreError as error:
                        self._report(str(error))
        return pa.concat_tables(tables).sort_by(
            [(name, "ascending") for name in ("cell_id", "attempt", "index")]
        )

    def _new_attempt(self, cell_id: str) -> tuple[int, str]:
        number = max(self._attempts({cell_id}).get(cell_id, {0: {}}), default=0) + 1
        folder = f"{self._path}/cells/{cell_id}/attempt-{number}"
        if self.patience.remote or not self.patience.wait_s:
            self._create(folder)
        else:  # a level at a time: one that was made in place of a folder that is away would keep it from its place
            for part in (f"{self._path}/cells", f"{self._path}/cells/{cell_id}", folder):
                self._create(part, recursive=False)
        return number, folder

    def _create(self, folder: str, *, recursive: bool = True) -> None:
        try:
            self._filesystem.create_dir(folder, recursive=recursive)
        except OSError as error:
            raise cannot_write(folder, error) from error

    def _must_be_there(self) -> None:
        """FileNotFoundError if a folder that would be waited for is not there."""
        if self.patience.wait_s and not self.patience.remote and not os.path.isdir(self._path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._path)

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
                except StoreError as error:
                    self._put_aside(cell_id, current, str(error))
                    current = self.done_cells({cell_id}).get(cell_id)
        empty = pa.schema([schema.field(name) for name in read]).empty_table()
        table = pa.concat_tables([empty, *tables])
        return table.sort_by([(name, "ascending") for name in order]).select(wanted)

    def _read_parts(self, kind: Kind, cell_id: str, number: int, columns: Sequence[str]) -> pa.Table:
        schema = pa.schema([_SCHEMAS[kind].field(name) for name in columns])
        tables = [schema.empty_table()]
        for name in self._done[cell_id, number]["parts"]:
            if name.startswith(f"{kind}-"):
                tables.append(self._read_part(f"{self._folder(cell_id, number)}/{name}", schema))
        table = pa.concat_tables(tables)
        planned = self._done[cell_id, number]["trial"]["planned_requests"]
        if kind == "requests" and table.num_rows != planned:
            folder = self._folder(cell_id, number)
            raise StoreError(f"{folder} must have {planned} request rows, has {table.num_rows}")
        return table

    def _read_part(self, path: str, schema: pa.Schema) -> pa.Table:
        """The columns of `schema` from one part file; null where an older one does not have them."""
        return self.patience.ask(lambda: self._read_part_once(path, schema))

    def _read_part_once(self, path: str, schema: pa.Schema) -> pa.Table:
        try:
            with self._filesystem.open_input_file(path) as file:
                if self.patience.remote:  # one request, instead of one for each thing that is looked up in it
                    file = pa.BufferReader(file.read())
                part = pq.ParquetFile(file, page_checksum_verification=True)
                many = part.metadata.num_rows > MANY_ROWS
                table = part.read(columns=schema.names, use_threads=many)
            for added in LATER.intersection(schema.names).difference(table.column_names):
                table = table.append_column(
                    schema.field(added), pa.nulls(len(table), schema.field(added).type)
                )
            return table.select(schema.names).cast(schema)
        except (OSError, pa.ArrowException, KeyError, ValueError) as error:
            raise StoreError(f"{path} is damaged: {one_line(error)}") from error

    def _attempts(self, cell_ids: Collection[str] | None = None) -> dict[str, dict[int, dict[str, int]]]:
        """List cell id → attempt number → file name → size in bytes."""
        self.patience.ask(self._must_be_there)
        base = f"{self._path}/cells"
        folders = [base] if cell_ids is None else [f"{base}/{cell_id}" for cell_id in cell_ids]
        found: dict[str, dict[int, dict[str, int]]] = {}
        for info in chain.from_iterable(map(self._files, folders)):
            parts = info.path.removeprefix(base).strip("/").split("/")
            if len(parts) < 2 or not parts[1].removeprefix("attempt-").isdecimal():
                continue
            attempt = found.setdefault(parts[0], {}).setdefault(int(parts[1].removeprefix("attempt-")), {})
            if len(parts) == 3 and info.type == fs.FileType.File:
                attempt[parts[2]] = info.size
        return found

    def _files(self, folder: str) -> list[fs.FileInfo]:
        found: list[fs.FileInfo] = self._look(fs.FileSelector(folder, allow_not_found=True, recursive=True))
        return found

    def _look(self, what: str | fs.FileSelector) -> Any:
        """What is there of a path, or all that is below one."""

        def look() -> Any:
            try:
                return self._filesystem.get_file_info(what)
            except OSError as error:
                path = what if isinstance(what, str) else what.base_dir
                raise StoreError(f"{path} cannot be looked at: {said(error)}") from error

        return self.patience.ask(look)

    def _read_ahead(self, found: Mapping[str, Mapping[int, Mapping[str, int]]]) -> None:
        """Documents that will be asked for, side by side: in an object store each is a request."""
        wanted = [
            (cell_id, number)
            for cell_id, attempts in found.items()
            for number, sizes in attempts.items()
            if "done.json" in sizes and not {(cell_id, number)} & (self._done.keys() | self._set_aside)
        ]

        def read(key: tuple[str, int]) -> None:
            with contextlib.suppress(StoreError):  # whoever asks for it says so
                self._done[key] = self._read_done(f"{self._folder(*key)}/done.json", *key)

        with ThreadPoolExecutor(AT_A_TIME) as threads:
            list(threads.map(read, wanted))

    def _is_whole(self, cell_id: str, number: int, sizes: Mapping[str, int]) -> bool:
        """Whether a done attempt can be used: its document is readable and its part files are there."""
        key = (cell_id, number)
        if key in self._set_aside:
            return False
        if key not in self._done:
            path = f"{self._folder(cell_id, number)}/done.json"
            try:
                self._done[key] = self._read_done(path, cell_id, number)
            except FutureVersion:
                raise  # running the cell again would hide newer results
            except StoreError as error:
                self._put_aside(cell_id, number, str(error))
                return False
        for name, size in self._done[key]["parts"].items():
            if sizes.get(name) != size:
                path = f"{self._folder(cell_id, number)}/{name}"
                self._put_aside(
                    cell_id, number, f"{path} should have {size} bytes, has {sizes.get(name, 'none')}"
                )
                return False
        return True

    def _read_done(self, path: str, cell_id: str, number: int) -> dict[str, Any]:
        """StoreError unless it is the document of this attempt, whole."""
        document = self._read_document(path)
        try:
            json.dumps(document["trial"], allow_nan=False)  # Python reads NaN, which is no rate and no time
            trial = Trial.model_validate(document["trial"])
            if not isinstance(trial.knobs.get("max_batch_size", 1), int):
                raise TypeError(f"max_batch_size must be a number, is {trial.knobs['max_batch_size']!r}")
            document["parts"] = {str(name): int(size) for name, size in document["parts"].items()}
        except (ValidationError, LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise StoreError(f"{path} must hold a trial and its parts: {one_line(error)}") from error
        if (trial.cell_id, trial.attempt) != (cell_id, number):
            other = f"cell {trial.cell_id}, attempt {trial.attempt}"
            raise StoreError(f"{path} must be of this attempt, is of {other}")
        return document

    def _read_document(self, path: str) -> dict[str, Any]:
        return self.patience.ask(lambda: self._read_document_once(path))

    def _read_document_once(self, path: str) -> dict[str, Any]:
        try:
            with self._filesystem.open_input_file(path) as file:
                document = dict(json.loads(file.read()))
            # Half a surrogate pair can be read, but not shown.
            json.dumps(document, ensure_ascii=False).encode()
            version = int(document["schema_version"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise StoreError(f"{path} must be JSON with a schema_version: {one_line(error)}") from error
        if version > SCHEMA_VERSION:
            known = f"this program reads up to {SCHEMA_VERSION}"
            raise FutureVersion(f"{path} has schema version {version}, {known}: use the newer one")
        return document

    def _folder(self, cell_id: str, number: int) -> str:
        return f"{self._path}/cells/{cell_id}/attempt-{number}"

    def _put_aside(self, cell_id: str, number: int, why: str) -> None:
        self._set_aside.add((cell_id, number))
        self._report(f"cell {cell_id}, attempt {number} set aside: {why}")

    def _report(self, line: str) -> None:
        if line not in self.problems:
            self.problems.append(line)
