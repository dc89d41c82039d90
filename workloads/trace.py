"""Recorded traffic: when requests came and how long prompt and answer were, from a CSV file.

The form is that of the Azure LLM inference traces (Patel et al., Splitwise, ISCA 2024):

    TIMESTAMP,ContextTokens,GeneratedTokens
    2023-11-16 18:15:46.6805900,374,44

Times are kept as whole nanoseconds, so seven digits of a second, which `strptime` refuses, lose nothing. Rows
must be in order of time: an unordered file is refused rather than sorted, because a jump back is more
often two files joined or a wrong column than a late row. Equal times are requests that came together. A row
without prompt or output tokens is no request that an engine could be given: it is left out and counted.
"""

import csv
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from workloads.errors import WorkloadError
from workloads.lengths import LONGEST_TOKENS

TIME, PROMPT, OUTPUT = COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
EXAMPLE = "2023-11-16 18:15:46.6805900"
LONGEST_HEADER = 4096
ZONED = r"(Z|[+-]\d\d:?\d\d)$"

Whole: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """The rows of a file that are requests, in order; all arrays are equally long and may be empty."""

    arrival_ns: Whole  # after the first row of the file, never decreasing
    prompt_tokens: Whole  # at least 1
    output_tokens: Whole  # at least 1
    empty_rows: int  # left out: no prompt or no output tokens
    first_empty_line: int | None

    def __len__(self) -> int:
        return len(self.arrival_ns)

    @property
    def same_times(self) -> int:
        """How many requests have the time of the one before."""
        return int((np.diff(self.arrival_ns) == 0).sum())


def read_trace(path: str | Path, *, skip_rows: int = 0, rows: int | None = None) -> Trace:
    """The trace in a file, without its first `skip_rows` rows and with at most `rows` of the others.

    The whole file is checked, and read anew only if it changes: an unchanged file gives the very same object.
    WorkloadError, one line, names the file, the line and what must hold there.
    """
    table = _table(str(path))
    return _selected(table, skip_rows, len(table.lines) if rows is None else skip_rows + rows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Table:
    """Every row of a file, with the line on which it stands."""

    lines: Whole
    arrival_ns: Whole
    prompt_tokens: Whole
    output_tokens: Whole


@lru_cache(maxsize=16)
def _selected(table: _Table, begin: int, end: int) -> Trace:
    prompts, outputs = table.prompt_tokens[begin:end], table.output_tokens[begin:end]
    kept = (prompts > 0) & (outputs > 0)
    empty = table.lines[begin:end][~kept]
    return Trace(
        arrival_ns=table.arrival_ns[begin:end][kept],
        prompt_tokens=prompts[kept],
        output_tokens=outputs[kept],
        empty_rows=len(empty),
        first_empty_line=int(empty[0]) if len(empty) else None,
    )


def _table(path: str) -> _Table:
    """A file is read once for as long as it does not change: every cell of a sweep asks for it."""
    try:
        about = os.stat(path)
        return _read(path, about.st_mtime_ns, about.st_size)
    except OSError as exc:
        raise WorkloadError(f"{path}: must be a trace file that can be read, got: {exc.strerror}") from exc


@lru_cache(maxsize=4)
def _read(path: str, _changed_ns: int, _bytes: int) -> _Table:
    content = _content(path)
    lines, texts = _texts(path, content + b"\n", _header(path, content))
    if not len(lines):
        raise WorkloadError(f"{path}: must hold at least 1 row after the header, got none")
    times = texts[0]
    zoned = bool(pc.match_substring_regex(times[:1], ZONED)[0].as_py())
    kind = pa.timestamp("ns", tz="UTC" if zoned else None)
    arrival_ns = _converted(path, lines, TIME, times, kind, f"a time such as {EXAMPLE}")
    prompts, outputs = (
        _converted(path, lines, name, column, pa.int64(), "a whole number of tokens")
        for name, column in zip((PROMPT, OUTPUT), texts[1:], strict=True)
    )
    for name, tokens in ((PROMPT, prompts), (OUTPUT, outputs)):
        wrong = (tokens < 0) | (tokens > LONGEST_TOKENS)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise _fault(path, lines, at, f"{name} must be in 0..{LONGEST_TOKENS}, got {tokens[at]}")
    late = np.diff(arrival_ns) < 0
    if late.any():
        at = int(np.argmax(late)) + 1
        text = f"{TIME} must not be before the row above, {times[at - 1]}, got {times[at]}"
        raise _fault(path, lines, at, text)
    return _Table(
        lines=lines, arrival_ns=arrival_ns - arrival_ns[0], prompt_tokens=prompts, output_tokens=outputs
    )


def _content(path: str) -> bytes:
    content = Path(path).read_bytes()
    try:
        content.decode()
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        raise WorkloadError(f"{path}:{line}: must be UTF-8 text, got byte {exc.start} that is not") from exc
    return content


def _header(path: str, content: bytes) -> list[str]:
    """The names of the columns; the three must be among them, once each, in any order."""
    line = re.split(rb"[\r\n]", content, maxsplit=1)[0].decode("utf-8-sig")[:LONGEST_HEADER].strip()
    names = next(csv.reader([line]), [])
    if any(names.count(name) != 1 for name in COLUMNS):
        got = line[:80] or ("an empty line" if content else "an empty file")
        raise WorkloadError(f"{path}:1: must name the columns {','.join(COLUMNS)}, got {got}")
    return names


def _texts(path: str, content: bytes, names: list[str]) -> tuple[Whole, list[pa.ChunkedArray]]:
    """The three columns as text, and each row's line; blank lines are passed over."""
    uneven: list[pa.csv.InvalidRow] = []

    def note(row: pa.csv.InvalidRow) -> str:
        uneven.append(row)
        return "skip"

    try:
        table = pa.csv.read_csv(
            pa.BufferReader(content),
            read_options=pa.csv.ReadOptions(use_threads=False),  # rows have no numbers otherwise
            parse_options=pa.csv.ParseOptions(ignore_empty_lines=False, invalid_row_handler=note),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), include_columns=COLUMNS
            ),
        )
    except pa.ArrowInvalid as exc:
        raise WorkloadError(f"{path}: must be a CSV file, got: {str(exc).splitlines()[0]}") from exc
    if uneven:
        row = uneven[0]
        text = f"must have {row.expected_columns} values, got {row.actual_columns}"
        raise WorkloadError(f"{path}:{row.number}: {text}: {row.text.strip()[:80]!r}")
    texts = [pc.utf8_trim_whitespace(table[name]) for name in COLUMNS]
    filled = pc.not_equal(pc.binary_length(pc.binary_join_element_wise(*texts, "")), 0)
    return np.flatnonzero(filled) + 2, [column.filter(filled) for column in texts]


def _converted(
    path: str, lines: Whole, name: str, texts: pa.ChunkedArray, kind: pa.DataType, must_be: str
) -> Whole:
    try:
        return np.asarray(texts.cast(kind).cast(pa.int64()), dtype=np.int64)
    except pa.ArrowInvalid as exc:
        at = _first_refused(texts, kind)
        raise _fault(path, lines, at, f"{name} must be {must_be}, got {texts[at].as_py()!r}") from exc


def _first_refused(texts: pa.ChunkedArray, kind: pa.DataType) -> int:
    """The first value that cannot be converted, by halving: one that can't is in texts[:high]."""
    low, high = 0, len(texts)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            texts[low:middle].cast(kind)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def _fault(path: str, lines: Whole, at: int, text: str) -> WorkloadError:
    return WorkloadError(f"{path}:{lines[at]}: {text}")
