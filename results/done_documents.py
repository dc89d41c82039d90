"""The `done.json` of attempts: which trial it was, and the part files that it wrote with their sizes in bytes.

It lists them so that a lost or cut one is noticed without reading.
"""

import contextlib
import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import ValidationError

from results.errors import StoreError, one_line
from results.records import Trial
from results.store_files import StoreFiles
from results.unanswered import interruptibly

DONE = "done.json"
AT_A_TIME = 16  # requests to an object store

Key: TypeAlias = tuple[str, int]  # cell id and attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneDocument:
    """What one says."""

    trial: Trial
    parts: Mapping[str, int]  # file name → bytes


class DoneDocuments:
    """By cell id and attempt, each read once: they do not change."""

    def __init__(self, files: StoreFiles) -> None:
        self._files = files
        self._known: dict[Key, DoneDocument] = {}

    def __getitem__(self, key: Key) -> DoneDocument:
        """StoreError unless it is the document of this attempt, whole; FutureVersion of a newer one."""
        if key not in self._known:
            self._known[key] = self._read(*key)
        return self._known[key]

    def get(self, key: Key) -> DoneDocument | None:
        """The document, if it has been read."""
        return self._known.get(key)

    def read_ahead(self, keys: Iterable[Key]) -> None:
        """Those that will be asked for, side by side: in an object store each is a request."""

        def read(key: Key) -> None:
            with contextlib.suppress(StoreError):  # whoever asks for it says so
                self._known[key] = self._read(*key)

        def read_all() -> None:
            with ThreadPoolExecutor(AT_A_TIME) as threads:
                list(threads.map(read, [key for key in keys if key not in self._known]))

        interruptibly(read_all)

    def _read(self, cell_id: str, number: int) -> DoneDocument:
        path = f"{self._files.folder(cell_id, number)}/{DONE}"
        document = self._files.read_document(path)
        try:
            json.dumps(document["trial"], allow_nan=False)  # Python reads NaN, which is no rate and no time
            trial = Trial.model_validate(document["trial"])
            if not isinstance(trial.knobs.get("max_batch_size", 1), int):
                raise TypeError(f"max_batch_size must be a number, is {trial.knobs['max_batch_size']!r}")
            parts = {str(name): int(size) for name, size in document["parts"].items()}
        except (ValidationError, LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise StoreError(f"{path} must hold a trial and its parts: {one_line(error)}") from error
        if (trial.cell_id, trial.attempt) != (cell_id, number):
            other = f"cell {trial.cell_id}, attempt {trial.attempt}"
            raise StoreError(f"{path} must be of this attempt, is of {other}")
        return DoneDocument(trial=trial, parts=parts)
