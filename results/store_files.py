"""The files of a store: where they lie, and how they are looked at, listed, read and made, with patience.

    sweep.json
    cells/<cell id>/attempt-<k>/<name>

The folder may be on a disk or in an object store that pyarrow opens ("s3://…", "gs://…": results/address.py), where
a file is an object that appears whole when it is written. A store that a sweep writes to may be out of reach for a
while: `wait_s` says for how long everything here is tried again.
"""

import errno
import json
import os
from collections.abc import Collection
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from results.address import Address, Place, opened, shown
from results.attempt import move_into_place
from results.errors import FutureVersion, StoreError, cannot_write, said
from results.patience import Patience
from results.records import LATER, SCHEMA_VERSION
from results.sweep_folder import SWEEP

MANY_ROWS = 100_000  # of a part file: below it threads cost more than they save


class StoreFiles:
    """`filesystem` and `path` are what pyarrow works with. StoreError of what cannot be looked at, read or made."""

    def __init__(self, where: Place, *, wait_s: float = 0.0) -> None:
        """`wait_s`: of a folder that is there, and is never made again: how long it is waited for if it is away."""
        self.filesystem, self.path = opened(where)
        self.patience = Patience(wait_s=wait_s, remote=isinstance(where, Address))

    @property
    def sweep_document(self) -> str:
        """The path of sweep.json."""
        return f"{self.path}/{SWEEP}"

    @property
    def cells(self) -> str:
        """The folder of all attempts."""
        return f"{self.path}/cells"

    def folder(self, cell_id: str, number: int) -> str:
        """The folder of an attempt."""
        return f"{self.cells}/{cell_id}/attempt-{number}"

    def create(self) -> None:
        """Make the folder, if it is not there."""
        self._create(self.path)

    def new_attempt(self, cell_id: str) -> tuple[int, str]:
        """Make the folder of the next free attempt of this cell; its number and path."""
        return self.patience.ask(lambda: self._new_attempt(cell_id))

    def write(self, path: str, content: bytes) -> None:
        """A reader sees all of it or nothing."""
        self.patience.ask(lambda: move_into_place(self.filesystem, path, content))

    def must_be_there(self) -> None:
        """StoreAway if a folder that is waited for is not there."""
        if not self.patience.remote:
            self.patience.ask(self._must_be_there)

    def attempts(self, cell_ids: Collection[str] | None = None) -> dict[str, dict[int, dict[str, int]]]:
        """List cell id → attempt number → file name → size in bytes; of some cells if `cell_ids` says so."""
        self.must_be_there()
        folders = [self.cells] if cell_ids is None else [f"{self.cells}/{cell_id}" for cell_id in cell_ids]
        found: dict[str, dict[int, dict[str, int]]] = {}
        for info in chain.from_iterable(map(self.below, folders)):
            parts = info.path.removeprefix(self.cells).strip("/").split("/")
            if len(parts) < 2 or not parts[1].removeprefix("attempt-").isdecimal():
                continue
            attempt = found.setdefault(parts[0], {}).setdefault(int(parts[1].removeprefix("attempt-")), {})
            if len(parts) == 3 and info.type == fs.FileType.File:
                attempt[parts[2]] = info.size
        return found

    def below(self, folder: str) -> list[fs.FileInfo]:
        """All that is below a folder; nothing where there is none."""
        found: list[fs.FileInfo] = self._look(fs.FileSelector(folder, allow_not_found=True, recursive=True))
        return found

    def exists(self, path: str) -> bool:
        """Whether there is anything of this path."""
        return bool(self._look(path).type != fs.FileType.NotFound)

    def read_document(self, path: str) -> dict[str, Any]:
        """A JSON document of a version that is known. FutureVersion of a newer one."""
        return self.patience.ask(lambda: self._read_document(path))

    def read_part(self, path: str, schema: pa.Schema) -> pa.Table:
        """The columns of `schema` from one part file; null where an older one does not have them."""
        return self.patience.ask(lambda: self._read_part(path, schema))

    def _new_attempt(self, cell_id: str) -> tuple[int, str]:
        number = max(self.attempts({cell_id}).get(cell_id, {0: {}}), default=0) + 1
        folder = self.folder(cell_id, number)
        if self.patience.remote or not self.patience.wait_s:
            self._create(folder)
        else:  # a level at a time: one that was made in place of a folder that is away would keep it from its place
            for part in (self.cells, f"{self.cells}/{cell_id}", folder):
                self._create(part, recursive=False)
        return number, folder

    def _create(self, folder: str, *, recursive: bool = True) -> None:
        try:
            self.filesystem.create_dir(folder, recursive=recursive)
        except OSError as error:
            raise cannot_write(self._shown(folder), error) from error

    def _shown(self, path: str) -> str:
        return shown(self.filesystem, path)

    def _must_be_there(self) -> None:
        if self.patience.wait_s and not os.path.isdir(self.path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)

    def _look(self, what: str | fs.FileSelector) -> Any:
        """What is there of a path, or all that is below one."""

        def look() -> Any:
            try:
                return self.filesystem.get_file_info(what)
            except (OSError, pa.ArrowException) as error:  # the latter of credentials
                path = what if isinstance(what, str) else what.base_dir
                raise StoreError(f"{self._shown(path)} cannot be looked at: {said(error)}") from error

        return self.patience.ask(look)

    def _read_document(self, path: str) -> dict[str, Any]:
        try:
            with self.filesystem.open_input_file(path) as file:
                document = dict(json.loads(file.read()))
            # Half a surrogate pair can be read, but not shown.
            json.dumps(document, ensure_ascii=False).encode()
            version = int(document["schema_version"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise StoreError(
                f"{self._shown(path)} must be JSON with a schema_version: {said(error)}"
            ) from error
        if version > SCHEMA_VERSION:
            known = f"this program reads up to {SCHEMA_VERSION}"
            raise FutureVersion(
                f"{self._shown(path)} has schema version {version}, {known}: use the newer one"
            )
        return document

    def _read_part(self, path: str, schema: pa.Schema) -> pa.Table:
        try:
            with self.filesystem.open_input_file(path) as file:
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
            raise StoreError(f"{self._shown(path)} is damaged: {said(error)}") from error
