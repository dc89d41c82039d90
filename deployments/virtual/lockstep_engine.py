"""The lockstep engine as an object: one call a batch, and one for the columns when all have run."""

from collections.abc import Iterator, Sequence
from math import inf

import numpy as np

from deployments.virtual.engine import Counters, Record
from deployments.virtual.lockstep import Lockstep
from deployments.virtual.lockstep_batches import BATCH, CUT, LAUNCH, WRITE, Memory
from deployments.virtual.occupancy import DECODE, DONE, PADDING, PREFILL, Stretch, stretches_of
from deployments.virtual.outcomes import SILENCE, Outcomes
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.step_log import RUN
from deployments.virtual.step_times import costs_of


class LockstepEngine:
    """Engine (see the protocol)."""

    def __init__(
        self, settings: Lockstep, requests: RequestColumns, outcomes: Outcomes, occupancy: bool
    ) -> None:
        count = len(requests)
        self._memory = Memory(
            prompts=requests.prompt_tokens.astype(np.int64),
            outputs=requests.output_tokens.astype(np.int64),
            costs=costs_of(settings.step),
            rows=np.zeros(count, dtype=np.int64),
            batches=np.zeros(count, dtype=BATCH),  # at most; what is not touched takes no memory
            outcomes=outcomes.rows,
        )
        self._launch = LAUNCH.point(self._memory, 0, 0, 0, 0, 0.0)
        self._chunk, self._occupancy = settings.prefill_chunk or 0, occupancy
        self._end_s, self._batches, self._launched = inf, 0, 0
        self._rows: list[int] = []  # of the batch that runs

    def join(self, indices: Sequence[int], now_s: float) -> list[int]:
        """Launch the batch. Nothing is too large for an engine without a KV limit."""
        assert not self._rows, "a lockstep engine cannot be joined"
        self._rows = list(indices)
        first, self._launched = self._launched, self._launched + len(self._rows)
        self._memory.rows[first : self._launched] = self._rows
        self._end_s = self._launch(self._memory, self._batches, first, len(self._rows), self._chunk, now_s)
        self._batches += 1
        return []

    def run(self, now_s: float, last_s: float, pause_s: float, stop: bool) -> tuple[float, list[int]]:
        """See the protocol. `join` began the batch."""
        if self._end_s > last_s or not self._rows:
            return now_s, []
        now_s, rows = self._end_s, self._rows
        self._end_s, self._rows = inf, []
        return now_s, rows

    def abort(self, now_s: float) -> None:
        """Rows that are done are finished, the others keep what they have made; whole steps count."""
        if self._rows:
            CUT.point(self._memory, 0, 0.0)(self._memory, self._batches - 1, now_s)

    def close(self) -> Record:
        """See the protocol."""
        batches = self._memory.batches[: self._batches]
        runs = np.zeros(int(batches["prefilled"].sum() + (batches["decoded"] > 0).sum()), dtype=RUN)
        WRITE.point(self._memory, 0, runs)(self._memory, self._batches, runs)
        ended = self._batches - bool(self._rows)
        return Record(
            runs=runs,
            silences=np.zeros(0, dtype=SILENCE),
            stretches=self._stretches() if self._occupancy else None,
            left_s=np.repeat(batches["returned_s"][:ended], batches["rows"][:ended]),
            counters=Counters(),
        )

    def _stretches(self) -> tuple[Stretch, ...]:
        return stretches_of(sorted(self._held(), key=lambda row: row[-1]))

    def _held(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Every row has the slot of its place. Rows are padded on the left: whole chunks of padding come first."""
        first = 0
        for batch in self._memory.batches[: self._batches].tolist():
            _, rows, longest, _, chunk, *_, prefilled, decoded = batch
            decode, end = first + prefilled, first + prefilled + decoded
            for slot, index in enumerate(self._memory.rows[batch[0] : batch[0] + rows].tolist()):
                padding = min(prefilled, (longest - int(self._memory.prompts[index])) // chunk)
                done = min(end, decode + int(self._memory.outputs[index]) - 1) if decoded else decode
                edges = (first, first + padding, decode, done, end)
                for holding, place in ((PADDING, 0), (PREFILL, 1), (DECODE, 2), (DONE, 3)):
                    if edges[place] < edges[place + 1]:
                        yield slot, index, holding, edges[place], edges[place + 1]
            first = end
