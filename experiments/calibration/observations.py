"""What took how long in one trial: batches of a lockstep engine, or steps of one that re-forms its batch.

Each row has a duration and what each cost of `Linear` is multiplied by in it, so that duration = terms · costs.

lockstep    a batch of B rows, longest prompt P and longest output O, from launch to end: O forward passes,
            B·O sequences, B·P prompt tokens and B·P² of attention, and Σ B·(P + i) over i = 1 … O − 1 of context
iteration   a step: its decoding sequences and their contexts are those requests that got a token in it which
            was not their first, and its prompts those that get one by it

An engine reports when a step ended. It began when the one before ended if somebody stayed in it, else when the
first of its requests was scheduled. A prompt that takes several steps is cut in the order of first tokens, as
vLLM does. What cannot be told is left out and counted: batches that were cut off or ran out of memory, steps
whose start is not known, and steps with a prompt in a trial where something was preempted (it is computed
again) or whose prompts do not add up to what the engine reported.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from results.metrics import column

Array = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

TERMS = (  # the columns of `terms`, and the costs of `Linear` that they are multiplied with
    "fixed_s",
    "per_sequence_s",
    "per_context_token_s",
    "per_prefill_token_s",
    "per_prefill_token_sq_s",
)
SAME_MOMENT_S = 1e-9  # two stamps of one moment differ by rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Rows of one trial or of many. `trial`: a number for each row's trial; `left_out`: rows that cannot be told."""

    duration_s: Array
    terms: Array  # rows × TERMS
    trial: Places
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.duration_s)

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Of several trials, numbered in this order."""
        numbers = [np.full(len(part), number, dtype=np.int64) for number, part in enumerate(parts)]
        return cls(
            duration_s=np.concatenate([part.duration_s for part in parts]),
            terms=np.concatenate([part.terms for part in parts]),
            trial=np.concatenate(numbers),
            left_out=sum(part.left_out for part in parts),
        )

    def some(self, rows: npt.NDArray[np.bool_] | Places) -> "Observations":
        """Of these rows."""
        return Observations(duration_s=self.duration_s[rows], terms=self.terms[rows], trial=self.trial[rows])

    def a_step(self, term: str) -> Array:
        """What a cost is multiplied with, on average over the row's forward passes."""
        mean: Array = self.terms[:, TERMS.index(term)] / self.terms[:, 0]
        return mean


def lockstep_rows(requests: pa.Table, batches: pa.Table) -> Observations:
    """The batches of one trial of an engine that runs a batch to its longest row."""
    released = batches.filter(pc.equal(batches.column("kind"), "batch"))
    broken = requests.filter(pc.not_equal(requests.column("status"), "finished")).column("batch_id")
    whole = pc.invert(
        pc.or_(
            pc.fill_null(released.column("out_of_memory"), False),
            pc.is_in(released.column("batch_id"), value_set=broken.drop_null().combine_chunks()),
        )
    )
    kept = released.filter(whole)
    rows, prompt, output = (
        column(kept, name) for name in ("size", "longest_prompt_tokens", "longest_output_tokens")
    )
    read_tokens = rows * ((output - 1) * prompt + (output - 1) * output / 2)
    terms = np.column_stack([output, rows * output, read_tokens, rows * prompt, rows * prompt**2])
    duration_s = column(kept, "ended_s") - column(kept, "launched_s")
    return _told(duration_s, terms, released.num_rows)


def iteration_rows(requests: pa.Table, batches: pa.Table) -> Observations:
    """The steps of one trial of an engine that re-forms its batch; in virtual time a row may be many steps."""
    steps = batches.filter(pc.equal(batches.column("kind"), "step")).sort_by("batch_id")
    served = requests.filter(pc.is_valid(requests.column("scheduled_s")))
    if not steps.num_rows or not served.num_rows:
        return _told(np.empty(0), np.empty((0, len(TERMS))), steps.num_rows)
    ended_s, prefill = column(steps, "ended_s"), np.nan_to_num(column(steps, "prompt_tokens"))
    count = np.nan_to_num(column(steps, "steps"), nan=1.0)
    step, owner, made = _tokens(served, steps)
    decoded = made > 0
    prompt, scheduled_s = column(served, "prompt_tokens"), column(served, "scheduled_s")
    decodes = np.bincount(step[decoded], minlength=len(ended_s)).astype(np.float64)
    context = np.bincount(step[decoded], (prompt[owner] + made)[decoded], minlength=len(ended_s))
    first = np.full(served.num_rows, len(ended_s), dtype=np.int64)
    first[owner[~decoded]] = step[~decoded]
    prompts = _Prompts.of(prefill, prompt, scheduled_s, first)
    before_s = np.concatenate([[np.nan], ended_s[:-1]])
    goes_on = (decodes > 0) | (prompts.scheduled_s < before_s - SAME_MOMENT_S)
    start_s = column(steps, "started_s")
    start_s = np.where(np.isnan(start_s), np.where(goes_on, before_s, prompts.scheduled_s), start_s)
    duration_s = ended_s - start_s
    preempted = np.nan_to_num(column(steps, "preemptions")).any()
    unclear = (prefill > 0) & (prompts.unclear | preempted)
    duration_s[unclear | (decodes + prompts.sequences == 0)] = np.nan
    terms = np.column_stack([count, decodes + prompts.sequences, context, prefill, prompts.squares])
    return _told(duration_s, terms, steps.num_rows)


def _tokens(served: pa.Table, steps: pa.Table) -> tuple[Places, Places, Places]:
    """Of every token: the row of its step, whose it is, and how many that request had made before."""
    in_steps = served.column("token_steps").null_count < served.num_rows
    lists = served.column("token_steps" if in_steps else "token_s").combine_chunks()
    flat = pc.list_flatten(lists).to_numpy(zero_copy_only=False)
    owner = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    if in_steps:  # first and last of each run of steps
        first, last = flat[0::2].astype(np.int64), flat[1::2].astype(np.int64)
        lengths = last - first + 1
        owner = np.repeat(owner[0::2], lengths)
        place = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        number = np.repeat(first, lengths) + place
        row = np.searchsorted(column(steps, "batch_id"), number, "right") - 1
    else:
        row = np.searchsorted(column(steps, "ended_s"), flat - SAME_MOMENT_S)
    each = np.bincount(owner, minlength=served.num_rows)
    made = np.arange(len(owner)) - np.repeat(np.cumsum(each) - each, each)
    inside = row < steps.num_rows
    return row[inside].astype(np.int64), owner[inside], made[inside]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prompts:
    """What of prompts was computed in each step."""

    sequences: Array
    squares: Array  # Σ over the parts of prompts: (done + part)² − done²
    scheduled_s: Array  # the earliest among these requests, infinity without one
    unclear: npt.NDArray[np.bool_]  # they do not add up to what the engine said

    @classmethod
    def of(cls, prefill: Array, prompt: Array, scheduled_s: Array, first: Places) -> Self:
        """Lay the prompts end to end, in order of first tokens, over the prompt tokens of all steps.

        `prefill`: prompt tokens of each step; the others by request: `first` is the step of its first token.
        """
        order = np.lexsort((scheduled_s, first))
        ends, filled = np.cumsum(prompt[order]), np.cumsum(prefill)
        cuts = np.union1d(np.concatenate([[0.0], ends]), filled)
        cuts = cuts[cuts <= min(ends[-1], filled[-1])]
        low, high = cuts[:-1], cuts[1:]
        place, step = np.searchsorted(ends, high), np.searchsorted(filled, high)
        begins = ends[place] - prompt[order][place]
        squares = (high - begins) ** 2 - (low - begins) ** 2
        earliest_s = np.full(len(prefill), np.inf)
        np.minimum.at(earliest_s, step, scheduled_s[order][place])
        known = first[order] < len(prefill)
        done = np.searchsorted(filled, ends)  # in this step its last part was computed
        unclear = np.bincount(step, high - low, minlength=len(prefill)) != prefill
        for wrong in (done[known & (done != first[order])], first[order][known & (done != first[order])]):
            unclear[wrong[wrong < len(prefill)]] = True
        return cls(
            sequences=np.bincount(step, minlength=len(prefill)).astype(np.float64),
            squares=np.bincount(step, squares, minlength=len(prefill)).astype(np.float64),
            scheduled_s=earliest_s,
            unclear=unclear,
        )


def _told(duration_s: Array, terms: Array, rows: int) -> Observations:
    known = np.isfinite(duration_s) & (duration_s > 0)
    return Observations(
        duration_s=duration_s[known],
        terms=terms[known],
        trial=np.zeros(int(known.sum()), dtype=np.int64),
        left_out=rows - int(known.sum()),
    )
