"""The lockstep engine: a padded batch runs to its longest row, as Hugging Face's generate does.

With B rows, P the longest prompt and O the longest output: ⌈P ÷ prefill_chunk⌉ prefill steps charged at
B·P tokens, the last of which makes the first token of every row, then O − 1 decode steps of B rows. Rows
that are done and padding are charged to the end, and every row is returned at the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from deployments.virtual.engine import NEVER_S, Counters
from deployments.virtual.occupancy import OccupancyLog
from deployments.virtual.outcomes import FINISHED, Outcomes
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.step_log import StepLog
from deployments.virtual.step_model import StepModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Lockstep:
    """Settings. `prefill_chunk`: prompt tokens of a row in one step; None: the whole prompt."""

    step: StepModel
    prefill_chunk: int | None = None

    def __post_init__(self) -> None:
        """ValueError for a chunk of nothing."""
        if self.prefill_chunk is not None and self.prefill_chunk < 1:
            raise ValueError(f"prefill_chunk must be at least 1, got {self.prefill_chunk}")

    @property
    def joinable(self) -> bool:
        """Never."""
        return False

    def engine(
        self, requests: RequestColumns, outcomes: Outcomes, log: StepLog, occupancy: OccupancyLog | None
    ) -> "LockstepEngine":
        """An idle engine for these requests."""
        return LockstepEngine(self, requests, outcomes, log, occupancy)


class LockstepEngine:
    """Engine (see the protocol). Nothing changes between launch and end, so a batch is one event."""

    def __init__(
        self,
        settings: Lockstep,
        requests: RequestColumns,
        outcomes: Outcomes,
        log: StepLog,
        occupancy: OccupancyLog | None,
    ) -> None:
        self.end_s = NEVER_S
        self.counters = Counters()
        self._model, self._chunk = settings.step, settings.prefill_chunk
        self._prompts = requests.prompt_tokens.tolist()
        self._outputs = requests.output_tokens.tolist()
        self._outcomes, self._log, self._occupancy = outcomes, log, occupancy
        self._passes = 0  # steps before this batch
        self._rows: list[int] = []
        self._start_s = self._decode_start_s = 0.0
        self._longest_prompt = self._longest_output = 0

    def join(self, indices: Sequence[int], now_s: float) -> list[int]:
        """Launch the batch. Nothing is too large for an engine without a KV limit."""
        assert not self._rows, "a lockstep engine cannot be joined"
        self._rows = list(indices)
        self._start_s = now_s
        self._longest_prompt = max([self._prompts[index] for index in indices])
        self._longest_output = max([self._outputs[index] for index in indices])
        self._decode_start_s = now_s
        for tokens, squares in self._chunks():
            self._decode_start_s += self._prefill_s(tokens, squares)
        self.end_s = self._decode_start_s + self._decoding_s(self._longest_output - 1)
        return []

    def begin(self, now_s: float) -> list[int]:
        """Nothing to do: `join` began the batch."""
        return []

    def end(self, now_s: float) -> list[int]:
        """Return every row."""
        rows, outputs = self._rows, self._outputs
        made = [outputs[index] for index in rows]
        self._stamp(rows, made, self._chunk_count(), now_s)
        self._log_prefill(len(self._chunks()))
        self._log_decoding(self._longest_output - 1, now_s)
        if self._occupancy is not None:
            self._log_occupancy(self._occupancy, self._chunk_count(), self._longest_output - 1)
        self._passes += self._chunk_count() + self._longest_output - 1
        self._rows, self.end_s = [], NEVER_S
        return rows

    def abort(self, now_s: float) -> None:
        """Rows that are done are finished, the others keep what they have made; whole steps count."""
        if not self._rows:
            return
        prefilled, decoded = self._steps_until(now_s)
        made_at_most = decoded + 1 if prefilled == self._chunk_count() else 0
        made = [min(self._outputs[index], made_at_most) for index in self._rows]
        self._stamp(self._rows, made, prefilled, now_s)
        self._log_prefill(prefilled)
        if decoded:
            self._log_decoding(decoded, self._decode_start_s + self._decoding_s(decoded))
        if self._occupancy is not None:
            self._log_occupancy(self._occupancy, prefilled, decoded)
        self._passes += prefilled + decoded
        self._rows, self.end_s = [], NEVER_S

    def _chunks(self) -> list[tuple[int, int]]:
        """Tokens of each prefill step of a row, and their attention: (a + c)² − a² after a tokens."""
        longest = self._longest_prompt
        chunk = self._chunk or longest
        edges = [*range(0, longest, chunk), longest]
        return [(after - before, after * after - before * before) for before, after in pairwise(edges)]

    def _chunk_count(self) -> int:
        return 1 if self._chunk is None else -(-self._longest_prompt // self._chunk)

    def _prefill_s(self, tokens: int, squares: int) -> float:
        count = len(self._rows)
        return self._model.step_s(count, 0, count * tokens, count * squares)

    def _decoding_s(self, steps: int) -> float:
        """The first decode step reads every prompt and one token a row, padding included."""
        count = len(self._rows)
        return self._model.decode_s(count, count * (self._longest_prompt + 1), steps)

    def _stamp(self, rows: list[int], made: list[int], prefilled: int, returned_s: float) -> None:
        outcomes, first_s, first_step = self._outcomes, self._decode_start_s, self._passes + prefilled - 1
        last_s = {tokens: first_s + self._decoding_s(tokens - 1) for tokens in set(made) if tokens}
        for index, tokens in zip(rows, made, strict=True):
            outcomes.scheduled_s[index] = self._start_s
            outcomes.returned_s[index] = returned_s
            outcomes.output_tokens[index] = tokens
            if tokens:
                outcomes.first_token_s[index] = first_s
                outcomes.last_token_s[index] = last_s[tokens]
                outcomes.first_step[index] = first_step
                outcomes.last_step[index] = first_step + tokens - 1
            if tokens == self._outputs[index]:
                outcomes.status[index] = FINISHED

    def _log_prefill(self, steps: int) -> None:
        count, chunks = len(self._rows), self._chunks()
        end_s = self._start_s
        for number, (tokens, squares) in enumerate(chunks[:steps], start=1):
            start_s, end_s = end_s, end_s + self._prefill_s(tokens, squares)
            first_tokens = count if number == len(chunks) else 0
            self._log.add(start_s, end_s, 0, 1, count, 0, first_tokens, count * tokens, 0, 0, 0, count)

    def _log_decoding(self, steps: int, end_s: float) -> None:
        if steps:
            count, context_tokens = len(self._rows), len(self._rows) * (self._longest_prompt + 1)
            self._log.add(
                self._decode_start_s, end_s, context_tokens, steps, count, count, 0, 0, 0, 0, 0, count
            )

    def _log_occupancy(self, occupancy: OccupancyLog, prefilled: int, decoded: int) -> None:
        """Rows are padded on the left: whole chunks of padding come first."""
        chunk = self._chunk or self._longest_prompt
        first, decode, end = self._passes, self._passes + prefilled, self._passes + prefilled + decoded
        for index in self._rows:
            padding = first + min(prefilled, (self._longest_prompt - self._prompts[index]) // chunk)
            occupancy.hold(index, "padding" if padding > first else "prefill", first)
            occupancy.hold(index, "prefill", padding)
            if decoded:
                occupancy.hold(index, "decode", decode)
                done = decode + self._outputs[index] - 1
                if done < end:
                    occupancy.hold(index, "finished", done)
        occupancy.leave_all(end)

    def _steps_until(self, now_s: float) -> tuple[int, int]:
        """Whole prefill and decode steps that have ended by then."""
        chunks, end_s = self._chunks(), self._start_s
        for number, (tokens, squares) in enumerate(chunks):
            end_s += self._prefill_s(tokens, squares)
            if end_s > now_s:
                return number, 0
        low, high = 0, self._longest_output - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._decode_start_s + self._decoding_s(middle) <= now_s:
                low = middle
            else:
                high = middle - 1
        return len(chunks), low
