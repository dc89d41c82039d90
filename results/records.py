"""The rows: one per request, one per batch or engine step, one document per trial.

Every request and batch row repeats its cell's settings, so that any plot can be made from one flat table.
Times are seconds from trial start (the first moment of the measured period) on the client's clock;
a value that is unknown or does not exist is null, never 0.
"""

from typing import Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 1

SETTINGS: list[pa.Field] = [
    pa.field("cell_id", pa.string(), nullable=False),
    pa.field("attempt", pa.int32(), nullable=False),
    pa.field("strategy", pa.string(), nullable=False),
    pa.field("setting", pa.string(), nullable=False),  # strategy and knobs as text: "dynamic · 8 · 200 ms"
    pa.field("max_batch_size", pa.int32()),
    pa.field("max_wait_ms", pa.float64()),
    pa.field("timer", pa.string()),
    pa.field("backend", pa.string(), nullable=False),
    pa.field("model", pa.string(), nullable=False),
    pa.field("device", pa.string(), nullable=False),
    pa.field("rate", pa.float64(), nullable=False),  # planned arrivals per second
    pa.field("seed", pa.int64(), nullable=False),
    pa.field("repeat", pa.int32(), nullable=False),
]

REQUESTS = pa.schema(
    [
        *SETTINGS,
        pa.field("request_id", pa.string(), nullable=False),  # cell id and index: the same in every attempt
        pa.field("index", pa.int32(), nullable=False),
        pa.field("status", pa.string(), nullable=False),  # finished | failed | unfinished | rejected
        pa.field("error", pa.string()),
        pa.field("cause", pa.string()),
        pa.field("prompt_tokens", pa.int32(), nullable=False),
        pa.field("target_output_tokens", pa.int32(), nullable=False),
        pa.field("output_tokens", pa.int32(), nullable=False),
        pa.field("planned_s", pa.float64(), nullable=False),
        pa.field("sent_s", pa.float64()),
        pa.field("arrived_s", pa.float64()),
        pa.field("scheduled_s", pa.float64()),
        pa.field("first_token_s", pa.float64()),
        pa.field("last_token_s", pa.float64()),
        pa.field("returned_s", pa.float64()),
        pa.field("received_s", pa.float64()),
        pa.field("batch_id", pa.int32()),
        pa.field("preemptions", pa.int32()),
        pa.field("token_s", pa.list_(pa.float64())),
        pa.field("output_hash", pa.string()),  # of the output ids
    ]
)

BATCHES = pa.schema(
    [
        *SETTINGS,
        pa.field(
            "kind", pa.string(), nullable=False
        ),  # "batch" = released together; "step" = one engine step
        pa.field("batch_id", pa.int32(), nullable=False),
        pa.field("size", pa.int32(), nullable=False),  # requests released, or resident in the step
        pa.field("trigger", pa.string()),  # size | age | memory | flush | join; null for a step
        pa.field("cap", pa.int32()),
        pa.field("longest_prompt_tokens", pa.int32()),
        pa.field("prompt_tokens", pa.int32()),  # of a step: tokens prefilled in it
        pa.field("longest_output_tokens", pa.int32()),
        pa.field("output_tokens", pa.int32()),
        pa.field("padding_waste", pa.float64()),  # 1 − Σp ÷ (B·P_max); null where nothing is padded
        pa.field("lockstep_waste", pa.float64()),  # 1 − Σo ÷ (B·max o); null where rows leave early
        pa.field("waiting", pa.int32()),  # requests left waiting
        pa.field("launched_s", pa.float64()),
        pa.field("ended_s", pa.float64()),
        pa.field("out_of_memory", pa.bool_()),
        pa.field("kv_use", pa.float64()),
        pa.field("preemptions", pa.int32()),
    ]
)


class Clock(BaseModel):
    """The replica's clock mapped to the client's: replica − client, the sample with the least round trip."""

    model_config = ConfigDict(frozen=True)

    offset_s: float
    uncertainty_s: float  # half of that sample's round trip
    drift_s: float | None = None  # offset at the end − offset at the start


class Trial(BaseModel):
    """One attempt that counts: settings, what surrounded it, and how it went."""

    model_config = ConfigDict(frozen=True)

    schema_version: int = SCHEMA_VERSION
    cell_id: str
    attempt: int
    strategy: str
    setting: str
    knobs: dict[str, Any]
    backend: str
    engine: dict[str, Any]  # engine arguments as resolved
    model: str
    device: str
    rate: float
    seed: int
    repeat: int
    lane: str
    incarnation: str  # replica and engine at start
    incarnation_end: str | None  # and at the end; another one means `replica-changed`
    workload_hash: str
    planned_requests: int
    duration_s: float  # of the arrivals
    drain_limit_s: float
    cut_off: bool  # what was left at the drain limit was aborted
    min_cap: int | None  # the smallest cap that out-of-memory forced, null without
    clock: Clock
    step_probe_s: float | None  # the one-request step time measured just before
    memory_bytes: int | None
    memory_kind: Literal["allocated", "kv-cache", "resident", "none"]
    started_at: str  # ISO 8601, UTC
    prepare_s: float  # handshake, warm-up, probe; not the loading of a lane
    measured_s: float  # first planned arrival → last completion
    total_s: float
    setup: dict[str, Any]  # provenance: versions, device, dtype, threads, git commit


class Failure(BaseModel):
    """One attempt that failed."""

    model_config = ConfigDict(frozen=True)

    schema_version: int = SCHEMA_VERSION
    cell_id: str
    attempt: int
    cause: str
    error: str
    permanent: bool = False
    failed_at: str
