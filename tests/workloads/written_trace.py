"""Trace files as tests write them."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
BEGIN = datetime(2023, 11, 16, 18, 15, 46)
TICKS_PER_S = 10_000_000  # of 100 ns: the seven digits


def stamp(ticks: int) -> str:
    """The time `ticks` × 100 ns after BEGIN, with seven digits."""
    seconds, fraction = divmod(ticks, TICKS_PER_S)
    return f"{BEGIN + timedelta(seconds=seconds)}.{fraction:07}"


def write_trace(path: Path, rows: Iterable[tuple[int, int, int]], end: str = "\r\n") -> Path:
    """Rows of ticks, prompt tokens and output tokens; like the published files, no end on the last line."""
    lines = [f"{stamp(ticks)},{prompt},{output}" for ticks, prompt, output in rows]
    path.write_bytes(end.join([HEADER, *lines]).encode())
    return path
