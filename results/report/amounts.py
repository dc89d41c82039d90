"""Numbers in tables: as a reader wants them, and as they are stored, which is what a figure's CSV has.

The unit of a column's numbers stands in its heading there (scripts/downloads.js), and what is unknown is empty.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

from results.report import glossary, numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A number of a table: `text` is read, `number` is stored, in `unit`; None where it is unknown."""

    text: str
    number: float | None
    unit: str = ""

    def __str__(self) -> str:
        return self.text

    @property
    def stored(self) -> str:
        """The number in full; "" where it is unknown or infinite."""
        return "" if self.number is None or not math.isfinite(self.number) else repr(self.number)


Cell: TypeAlias = str | Value


def metric(name: str, value: float | None) -> Value:
    """Give the value of a metric, with or without a percentile: `ttft_s_p50`."""
    of, _ = glossary.metric_of(name)
    return Value(text=of.text(value), number=value, unit=of.unit)


def rate(value: float) -> Value:
    """Give an arrival rate."""
    return Value(text=numbers.rate(value), number=value, unit="req/s")


def duration(seconds: float | None) -> Value:
    """Give a time."""
    return Value(text=numbers.duration(seconds), number=seconds, unit="s")


def share(value: float | None) -> Value:
    """Give a share, shown in per cent and stored as the ratio that it is."""
    return Value(text=numbers.share(value), number=value, unit="ratio")


def ratio(value: float | None) -> Value:
    """Give how many times something is."""
    return Value(text=numbers.ratio(value), number=value, unit="ratio")


def count(value: int | None) -> Value:
    """Give a whole number."""
    return Value(text=numbers.NOTHING if value is None else f"{value:,}", number=value)


def number(value: float | None, unit: str = "") -> Value:
    """Give a number whose unit the column names."""
    return Value(text=numbers.number(value), number=value, unit=unit)


def size(value_bytes: int | None) -> Value:
    """Give bytes."""
    return Value(text=numbers.size(value_bytes), number=value_bytes, unit="bytes")
