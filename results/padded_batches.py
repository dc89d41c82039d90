"""The batches of one trial, for the figures of memory and padding: wastes, caps, and what memory did to them.

A skip of a request: a younger one was launched while it waited. Counted here from the rows, not taken from the
dispatcher that keeps the bound. Launches that ran out of memory are not counted: who was in them is not in the rows.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from results.metrics import column
from results.records import Trial

BINS = 20  # of a waste, each of 5 %
MOST_POINTS = 400  # of one kind, of one trial


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedBatches:
    """Points are (seconds from trial start, requests), evenly thinned where there are too many to draw."""

    padding: tuple[int, ...]  # batches by padding waste, in `BINS` equal bins from 0 to 1
    lockstep: tuple[int, ...]  # batches by lockstep waste, likewise
    caps: tuple[tuple[float, int], ...]  # the cap at the first launch, and at each launch that found another
    by_memory: tuple[tuple[float, int], ...]  # batches that memory launched
    out_of_memory: tuple[tuple[float, int], ...]  # batches that did not fit
    ends_s: float  # the last launch
    most_skips: int | None  # of any request that was launched; None where the order is that of arrival

    @property
    def cap_fell(self) -> bool:
        """Whether out-of-memory changed the cap."""
        return len(self.caps) > 1 or bool(self.out_of_memory)


def padded_batches(trial: Trial, requests: pa.Table, batches: pa.Table) -> PaddedBatches | None:
    """None where nothing is padded and memory did nothing. `requests` and `batches` are the trial's rows."""
    told = pc.and_(pc.is_valid(batches.column("cap")), pc.is_valid(batches.column("launched_s")))
    released = batches.filter(pc.and_(pc.equal(batches.column("kind"), "batch"), told)).sort_by("batch_id")
    failed = pc.fill_null(released.column("out_of_memory"), False)
    by_memory = pc.fill_null(pc.equal(released.column("trigger"), "memory"), False)
    pads = pc.is_valid(released.column("padding_waste"))
    if not any(pc.any(mask).as_py() for mask in (failed, by_memory, pads)):
        return None
    served = released.filter(pc.invert(failed))
    caps, launched_s = column(released, "cap"), column(released, "launched_s")
    changes = np.flatnonzero(np.diff(caps, prepend=-1))
    ordered = trial.knobs.get("order", "fifo") != "fifo"
    return PaddedBatches(
        padding=_binned(served, "padding_waste"),
        lockstep=_binned(served, "lockstep_waste"),
        caps=tuple((float(launched_s[place]), int(caps[place])) for place in changes),
        by_memory=_points(released.filter(pc.and_(by_memory, pc.invert(failed)))),
        out_of_memory=_points(released.filter(failed)),
        ends_s=float(launched_s[-1]),
        most_skips=most_skips(requests, served) if ordered else None,
    )


def most_skips(requests: pa.Table, batches: pa.Table) -> int | None:
    """How often at most a younger request was launched while one waited; None without a launch.

    `batches` are releases in order of launch; requests that are in none of them are passed over.
    """
    numbers = column(batches, "batch_id").astype(np.int64)
    launched_s = column(batches, "launched_s")
    rows = requests.filter(pc.is_in(requests.column("batch_id"), pa.array(numbers, pa.int32())))
    if not rows.num_rows:
        return None
    arrived_s = column(rows, "arrived_s")
    order = np.argsort(arrived_s, kind="stable")
    age = np.empty(len(order), np.int64)
    age[order] = np.arange(len(order))
    batch = np.searchsorted(numbers, column(rows, "batch_id").astype(np.int64))
    youngest = np.full(len(numbers), -1)
    np.maximum.at(youngest, batch, age)
    first = np.searchsorted(launched_s, arrived_s)  # the first launch that the request could see
    return max(
        int(np.count_nonzero(youngest[begin:end] > own))
        for begin, end, own in zip(first, batch, age, strict=True)
    )


def _binned(batches: pa.Table, name: str) -> tuple[int, ...]:
    values = column(batches, name)
    counts, _ = np.histogram(values[~np.isnan(values)], bins=BINS, range=(0.0, 1.0))
    return tuple(int(count) for count in counts)


def _points(batches: pa.Table) -> tuple[tuple[float, int], ...]:
    found = list(zip(column(batches, "launched_s"), column(batches, "size"), strict=True))
    if len(found) > MOST_POINTS:
        found = [found[place] for place in np.linspace(0, len(found) - 1, MOST_POINTS).astype(int)]
    return tuple((float(at_s), int(size)) for at_s, size in found)
