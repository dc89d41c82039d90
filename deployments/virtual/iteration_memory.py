"""What the compiled iteration engine reads and writes, in arrays."""

from typing import NamedTuple

import numpy as np

from deployments.virtual.block_growth import Counts
from deployments.virtual.end_heap import ABSENT, MOST_SEQUENCES, Entries, Places
from deployments.virtual.iteration import Iteration
from deployments.virtual.occupancy import STRETCH
from deployments.virtual.outcomes import SILENCE, Records
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.sequence_lists import Links, empty_lists
from deployments.virtual.slots import Slots, empty_slots
from deployments.virtual.step_log import RUN
from deployments.virtual.step_times import Costs, costs_of

UNLIMITED = 1 << 60
NEVER = -1
ON_HOST = -1  # tokens of a decoding sequence that was swapped out

_SETTINGS = (
    "slots",
    "budget",
    "chunk",
    "prefill_first",
    "paged",
    "optimistic",
    "swaps",
    "block_tokens",
    "pool",
)
_NOW = (
    "clock",  # a tick is a step in which sequences decode
    "passes",  # steps that have ended
    "free",  # blocks
    "waiting",  # sequences in each list
    "residents",
    "prefilling",
    "decoding",
    "origins",  # Σ(prompt − origin) over the decoding sequences
)
_UNDER_WAY = (
    "steps",  # 0: nothing is under way
    "jump",  # only decoding
    "decodes",  # sequences that make a token by decoding in each of these steps
    "context",
    "prompts",  # sequences that compute a part of their prompt
    "prompt_tokens",
    "prompt_squares",  # their attention
    "completing",  # prompts that are done at the end of the step
    "late",  # decoding sequences that are put off in this step
    "queued",
    "preempted",
)
_COUNTED = (
    "preemptions",
    "unlogged_preemptions",
    "recomputed_tokens",
    "ended",
    "runs",
    "silences",
    "stretches",
)
STATE = np.dtype(
    [
        *((name, "<i8") for name in (*_SETTINGS, *_NOW, *_UNDER_WAY, *_COUNTED, "watched")),
        ("bytes_per_token", "<f8"),
        ("swap_bytes_per_s", "<f8"),
        ("start_s", "<f8"),  # of what is under way
        ("end_s", "<f8"),
        ("transfer_s", "<f8"),  # of what is swapped out or in, added to the next step
        ("swapped_bytes", "<f8"),
    ]
)
SEQUENCE = np.dtype(
    [
        ("prompt", "<i8"),
        ("output", "<i8"),
        ("limit", "<i8"),
        ("origin", "<i8"),  # a decoding sequence has made clock − origin tokens
        ("done", "<i8"),  # prompt tokens; ON_HOST
        ("on_host", "<i8"),  # tokens that were swapped out
        ("stopped", "<i8"),  # since which step a preempted sequence has made no token
        ("silence", "<i8"),  # its last one
    ]
)
ENDED = np.dtype([("index", "<i8"), ("at_s", "<f8")])


class Memory(NamedTuple):
    """All of one engine. Sequences go by the index of their request."""

    state: Records  # one entry
    sequences: Records
    outcomes: Records
    phases: Links  # three lists, of which a sequence is in one at most: see below
    residents: Links  # in order of arrival: the queue is first in, first out
    ends: Entries  # of the decoding ones
    places: Places
    due: Counts
    costs: Costs
    joins: Entries  # who joins at the next call
    ended: Records  # in order of the end
    runs: Records
    silences: Records
    stretches: Records
    slots: Slots


def heads(sequences: int) -> tuple[int, int, int]:
    """The heads of the phases: the queue, those with a prompt under way by age, those that decode by their first step."""
    return sequences, sequences + 1, sequences + 2


def memory_of(settings: Iteration, requests: RequestColumns, outcomes: Records, occupancy: bool) -> Memory:
    """Of an idle engine."""
    count = len(requests)
    assert count <= MOST_SEQUENCES, f"{count} requests are more than {MOST_SEQUENCES}"
    sequences = np.zeros(count, dtype=SEQUENCE)
    for name, column in (
        ("prompt", requests.prompt_tokens),
        ("output", requests.output_tokens),
        ("limit", requests.max_new_tokens),
        ("stopped", NEVER),
        ("silence", NEVER),
    ):
        sequences[name] = column
    state, slots = _state_of(settings, occupancy), min(settings.max_num_seqs, count)
    return Memory(
        state=state,
        sequences=sequences,
        outcomes=outcomes,
        phases=empty_lists(count, 3),
        residents=empty_lists(count, 1),
        ends=np.zeros(slots, dtype=np.int64),
        places=np.full(count, ABSENT, dtype=np.int64),
        due=np.zeros(state["block_tokens"][0], dtype=np.int64),
        costs=costs_of(settings.step),
        joins=np.zeros(count, dtype=np.int64),
        ended=np.zeros(count, dtype=ENDED),
        runs=np.zeros(4096, dtype=RUN),
        silences=np.zeros(256 + 4 * slots, dtype=SILENCE),
        stretches=np.zeros(256 + 8 * slots if occupancy else 0, dtype=STRETCH),
        slots=empty_slots(count if occupancy else 0, slots),
    )


def _state_of(settings: Iteration, occupancy: bool) -> Records:
    state, kv = np.zeros(1, dtype=STATE), settings.kv
    state["slots"] = settings.max_num_seqs
    state["budget"] = settings.max_num_batched_tokens or UNLIMITED
    state["chunk"] = settings.prefill_chunk or UNLIMITED
    state["prefill_first"] = settings.order == "prefill-first"
    state["watched"] = occupancy
    state["block_tokens"], state["end_s"] = 1, np.inf
    if kv is not None:
        state["paged"] = True
        state["optimistic"], state["swaps"] = kv.admission == "optimistic", kv.preemption == "swap"
        state["block_tokens"], state["pool"], state["free"] = kv.block_tokens, kv.blocks, kv.blocks
        state["bytes_per_token"], state["swap_bytes_per_s"] = kv.bytes_per_token, kv.swap_bytes_per_s
    return state
