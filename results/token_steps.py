"""Token times that are not stored one by one: which steps of an engine made them, and when steps ended.

In virtual time a request has no `token_s` but `token_steps`: the first and the last of each run of engine
steps that each made one of its tokens. The steps themselves are rows of kind `step`, one for a run of
`steps` that are alike but for their context: what is said of times within a run takes them as equally
long. Counts, sums and means are exact all the same; so is everything where a step's cost does not depend
on the context.

A gap between tokens (inter-token latency) is one step, or from the token before a silence to the one after.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from results.percentiles import between

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Runs of steps, in order: the number of the first one, how many, and when they began and ended."""

    first: Ints
    count: Ints
    start_s: Floats
    end_s: Floats

    @classmethod
    def of_rows(cls, batches: pa.Table) -> "Steps":
        """From the rows of one trial (schema BATCHES), in order of `batch_id`."""
        rows = batches.filter(pc.equal(batches.column("kind"), "step"))
        return cls(
            first=_numbers(rows, "batch_id", np.int64),
            count=_numbers(rows, "steps", np.int64),
            start_s=_numbers(rows, "started_s", np.float64),
            end_s=_numbers(rows, "ended_s", np.float64),
        )

    @property
    def length_s(self) -> Floats:
        """Of one step of each run."""
        return np.asarray((self.end_s - self.start_s) / self.count)

    def ended_by(self, time_s: float) -> int:
        """How many steps have ended at this time."""
        place = int(np.searchsorted(self.end_s, time_s, "right"))
        if place == len(self.first):
            return int(self.first[-1] + self.count[-1]) if place else 0
        inside = max(0.0, time_s - self.start_s[place]) / self.length_s[place]
        return int(self.first[place]) + min(int(inside + 1e-9), int(self.count[place]) - 1)

    def ended_before(self, time_s: float) -> int:
        """How many steps have ended before this time."""
        place = int(np.searchsorted(self.end_s, time_s, "left"))
        if place == len(self.first):
            return int(self.first[-1] + self.count[-1]) if place else 0
        inside = max(0.0, time_s - self.start_s[place]) / self.length_s[place]
        return int(self.first[place]) + max(0, int(np.ceil(inside - 1e-9)) - 1)

    def end_of(self, step: Ints) -> Floats:
        """When these steps ended, in seconds."""
        place = np.searchsorted(self.first, step, "right") - 1
        done = step + 1 - self.first[place]
        whole = done == self.count[place]
        return np.where(whole, self.end_s[place], self.start_s[place] + done * self.length_s[place])


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRuns:
    """Runs of steps [first, end) that each made one token of the row `owner`, by owner and in order."""

    owner: Ints
    first: Ints
    end: Ints

    @classmethod
    def of(cls, counts: Ints, flat: Ints) -> "TokenRuns":
        """From a list column `token_steps`: how long each list is, and all of them in one."""
        return cls(owner=np.repeat(np.arange(len(counts)), counts // 2), first=flat[::2], end=flat[1::2] + 1)

    @classmethod
    def of_rows(cls, requests: pa.Table) -> "TokenRuns":
        """From rows of one trial (schema REQUESTS); the owner is the place of the row."""
        lists = requests.column("token_steps").combine_chunks()
        counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
        flat = pc.list_flatten(lists).to_numpy(zero_copy_only=False)
        return cls.of(np.asarray(counts, dtype=np.int64), np.asarray(flat, dtype=np.int64))

    def tokens_before(self, edges: Ints) -> Ints:
        """How many tokens were made in steps before each of these."""
        return _before(self.first, edges) - _before(self.end, edges)

    def gaps(self, steps: Steps) -> tuple[Floats, Ints]:
        """Every gap between consecutive tokens: lengths in seconds, and how many of each."""
        edges = np.append(steps.first, steps.first[-1:] + steps.count[-1:])
        weights = np.diff(_before(self.first + 1, edges) - _before(self.end, edges))
        silences_s = self._silences_s(steps)[1]
        some = np.flatnonzero(weights)
        return (
            np.concatenate([steps.length_s[some], silences_s]),
            np.concatenate([weights[some], np.ones(len(silences_s), dtype=np.int64)]),
        )

    def largest_gaps(self, steps: Steps, rows: int, *, share: float = 0.99) -> tuple[Floats, Floats]:
        """Per row, over its own gaps: the largest, and the percentile as numpy interpolates it; NaN without."""
        largest, percentile = np.full(rows, np.nan), np.full(rows, np.nan)
        owners, values, weights = self._gaps_of_rows(steps)
        order = np.lexsort((values, owners))
        owners, values, weights = owners[order], values[order], weights[order]
        has, starts = np.unique(owners, return_index=True)
        if not len(has):
            return largest, percentile
        ranks = np.cumsum(weights)  # gaps up to here, of all rows
        last = np.append(starts[1:], len(owners)) - 1
        before = ranks[starts] - weights[starts]
        count = ranks[last] - before
        largest[has] = values[last]
        place = share * (count - 1)
        below = np.floor(place).astype(np.int64)
        above = np.minimum(below + 1, count - 1)
        low = values[np.searchsorted(ranks, before + below, "right")]
        high = values[np.searchsorted(ranks, before + above, "right")]
        percentile[has] = between(low, high, place - below)
        return largest, percentile

    def _gaps_of_rows(self, steps: Steps) -> tuple[Ints, Floats, Ints]:
        """Owner, length and number of the gaps, a row's run of tokens cut at the edges of the steps' runs."""
        first, end = self.first + 1, self.end
        some = first < end
        owner, first, end = self.owner[some], first[some], end[some]
        low = np.searchsorted(steps.first, first, "right") - 1
        high = np.searchsorted(steps.first, end - 1, "right") - 1
        pieces = high - low + 1
        place = (
            np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces) + np.repeat(low, pieces)
        )
        begins = np.maximum(np.repeat(first, pieces), steps.first[place])
        ends = np.minimum(np.repeat(end, pieces), steps.first[place] + steps.count[place])
        silent_owner, silent_s = self._silences_s(steps)
        return (
            np.concatenate([np.repeat(owner, pieces), silent_owner]),
            np.concatenate([steps.length_s[place], silent_s]),
            np.concatenate([ends - begins, np.ones(len(silent_s), dtype=np.int64)]),
        )

    def _silences_s(self, steps: Steps) -> tuple[Ints, Floats]:
        """Owner and length of the gaps between one run of a row and its next."""
        same = np.flatnonzero(np.diff(self.owner) == 0)
        return self.owner[same], steps.end_of(self.first[same + 1]) - steps.end_of(self.end[same] - 1)


def _before(starts: Ints, edges: Ints) -> Ints:
    """Σ over the starts of max(0, edge − start), for each edge."""
    ordered = np.sort(starts)
    sums = np.concatenate([[0], np.cumsum(ordered)])
    count = np.searchsorted(ordered, edges)
    return np.asarray(count * edges - sums[count])


def in_steps(requests: pa.Table) -> bool:
    """Whether the token times of these rows are steps."""
    column = requests.column("token_steps")
    return bool(column.null_count < len(column))


def _numbers(rows: pa.Table, name: str, kind: type) -> npt.NDArray[Any]:
    return np.asarray(rows.column(name).to_numpy(), dtype=kind)
