"""The rows: one per request, one per batch or engine step, one document per trial; what each column means.

Every request and batch row repeats its cell's settings, so that any plot can be made from one flat table.
Times are seconds from trial start (the first moment of the measured period) on the client's clock;
a value that is unknown or does not exist is null, never 0. `docs/SCHEMA.md` is made from this.
"""

from typing import Any, Literal, TypeAlias

import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from results.definitions import DEFINITIONS
from results.errors import first_line

SCHEMA_VERSION = 1

SIMULATED = "simulated"  # the backend that sleeps, and what stands before the name of any in virtual time
VIRTUAL = "virtual"  # the device of what ran in virtual time

Unit: TypeAlias = Literal["s", "ms", "requests/s", "tokens/s", "tokens", "requests", "bytes", "ratio"]


def column(
    name: str, kind: pa.DataType, description: str, *, unit: Unit | None = None, nullable: bool = True
) -> pa.Field:
    """A column that says what it is: `description` and `unit` are its metadata, in every part file too."""
    says = {"description": description} | ({"unit": unit} if unit else {})
    return pa.field(name, kind, nullable=nullable, metadata=says)


def always(name: str, kind: pa.DataType, description: str, *, unit: Unit | None = None) -> pa.Field:
    """A column that has a value in every row."""
    return column(name, kind, description, unit=unit, nullable=False)


SWEEP = always(
    "sweep",
    pa.string(),
    "Name of the sweep's folder, with those above it where two that are read have one name.",
)

SETTINGS: list[pa.Field] = [
    always("cell_id", pa.string(), "The cell: a hash of everything that was resolved for it."),
    always("attempt", pa.int32(), "Which attempt to run the cell this is, from 1."),
    always("strategy", pa.string(), "naive, dynamic, continuous, or one that was added."),
    always("setting", pa.string(), "Strategy and knobs as text: dynamic · 8 · 200 ms."),
    column("max_batch_size", pa.int32(), "naive's N, dynamic's cap, continuous' slots.", unit="requests"),
    column("max_wait_ms", pa.float64(), "How long dynamic lets the oldest request wait.", unit="ms"),
    column("timer", pa.string(), "From when that wait counts: arrival, or idle (of the engine)."),
    always(
        "backend",
        pa.string(),
        "What ran the requests; of a simulated sweep (device virtual) what virtual time stood in for.",
    ),
    always("model", pa.string(), "Hugging Face id, folder or preset; none on a backend without one."),
    always(
        "device",
        pa.string(),
        "The GPU's name, or cpu; none where nothing is computed; virtual where no row was measured: "
        "`batchyard simulate` made it.",
    ),
    always("rate", pa.float64(), "Planned arrivals.", unit="requests/s"),
    always("seed", pa.int64(), "Of the sweep; with `repeat` it seeds the workload."),
    always("repeat", pa.int32(), "From 0. Cells of one rate and repeat were sent the same requests."),
]

REQUESTS = pa.schema(
    [
        *SETTINGS,
        always("request_id", pa.string(), "Cell id and index: the same in every attempt."),
        always("index", pa.int32(), "Place in the workload; a request's twin in other cells has the same."),
        always("status", pa.string(), "finished, failed, unfinished (cut off at the drain limit), rejected."),
        column("error", pa.string(), "What went wrong, in one line; null if nothing did."),
        column("cause", pa.string(), "The class of that error."),
        always("prompt_tokens", pa.int32(), "Length of the prompt.", unit="tokens"),
        always("target_output_tokens", pa.int32(), "Output length that was asked for.", unit="tokens"),
        always("output_tokens", pa.int32(), "Output tokens that were made.", unit="tokens"),
        column("priority", pa.int32(), "Its class: 0 is the most urgent, and the only one without classes."),
        column(
            "ttft_target_s",
            pa.float64(),
            "How soon its first token was wanted; null without a target.",
            unit="s",
        ),
        always("planned_s", pa.float64(), "When it was to arrive; latencies count from here.", unit="s"),
        column("sent_s", pa.float64(), "When the client sent it.", unit="s"),
        column("arrived_s", pa.float64(), "When the replica had it.", unit="s"),
        column("scheduled_s", pa.float64(), "When the engine began it.", unit="s"),
        column("first_token_s", pa.float64(), "When its first token was made.", unit="s"),
        column("last_token_s", pa.float64(), "When its last token was made.", unit="s"),
        column(
            "returned_s", pa.float64(), "When its caller could have it: at batch end if lockstep.", unit="s"
        ),
        column("received_s", pa.float64(), "When the client had the reply.", unit="s"),
        column("batch_id", pa.int32(), "The batch (kind batch) that it was released in."),
        column(
            "preemptions", pa.int32(), "How often the engine put it off; null if the engine does not say."
        ),
        column("token_s", pa.list_(pa.float64()), "When each token was made.", unit="s"),
        column(
            "token_steps",
            pa.list_(pa.int32()),
            "In place of token_s in virtual time: first and last of each run of steps (kind step) that each "
            "made one of its tokens.",
        ),
        column("output_hash", pa.string(), "Of the output's token ids: equal hashes, equal outputs."),
    ]
)

# What results/metrics.py computes of a request row when it is read; not stored.
COMPUTED = (
    "queue_wait_s",
    "ttft_s",
    "tpot_s",
    "e2e_s",
    "held_s",
    "delivered_s",
    "dispatch_lag_s",
    "transport_s",
)
METRICS: list[pa.Field] = [
    *(
        column(key, pa.float64(), DEFINITIONS[key].said, unit="s")
        for key in (*COMPUTED, "itl_max_s", "itl_p99_s")
    ),
]

BATCHES = pa.schema(
    [
        *SETTINGS,
        always("kind", pa.string(), "batch: requests released together; step: one step of the engine."),
        always("batch_id", pa.int32(), "Place among the trial's batches, or among its steps, from 0."),
        column(
            "steps",
            pa.int32(),
            "How many equal steps of the engine the row stands for, from `batch_id` on; null: one.",
        ),
        always("size", pa.int32(), "Requests released, or resident in the step.", unit="requests"),
        column(
            "trigger", pa.string(), "Why it was released: size, age, memory, flush, join; null for a step."
        ),
        column("cap", pa.int32(), "The largest batch that was allowed then.", unit="requests"),
        column("longest_prompt_tokens", pa.int32(), "The longest prompt of the batch.", unit="tokens"),
        column("prompt_tokens", pa.int32(), "Of all prompts; of a step: prefilled in it.", unit="tokens"),
        column("longest_output_tokens", pa.int32(), "The longest output of the batch.", unit="tokens"),
        column("output_tokens", pa.int32(), "Of all outputs; of a step: made in it.", unit="tokens"),
        column(
            "padding_waste", pa.float64(), "1 − Σp ÷ (B·P_max); null where nothing is padded.", unit="ratio"
        ),
        column(
            "lockstep_waste", pa.float64(), "1 − Σo ÷ (B·max o); null where rows leave early.", unit="ratio"
        ),
        column("waiting", pa.int32(), "Requests left waiting.", unit="requests"),
        column("launched_s", pa.float64(), "When it was released; null for a step.", unit="s"),
        column("started_s", pa.float64(), "When the step began; null if not reported.", unit="s"),
        column("ended_s", pa.float64(), "When its last row, or the step, ended.", unit="s"),
        column("out_of_memory", pa.bool_(), "Whether it ran out of memory: its requests ran again."),
        column("kv_use", pa.float64(), "Share of the KV cache in use; null if not reported.", unit="ratio"),
        column("preemptions", pa.int32(), "Requests that the engine put off in the step.", unit="requests"),
    ]
)

SAMPLES = pa.schema(
    [
        *SETTINGS,
        always("at_s", pa.float64(), "When the sample was taken.", unit="s"),
        always("sent", pa.int32(), "Requests that the client had sent.", unit="requests"),
        always("ended", pa.int32(), "Requests whose reply the client had.", unit="requests"),
        always("waiting", pa.int32(), "Queue length, the engine's own list included.", unit="requests"),
        always("running", pa.int32(), "Requests that the engine worked on.", unit="requests"),
        always(
            "tokens",
            pa.int64(),
            "Output tokens made so far; of an engine without steps (huggingface) those of requests that had ended.",
            unit="tokens",
        ),
        column(
            "kv_use",
            pa.float64(),
            "Share of the engine's KV cache in use at its last step; null if not reported.",
            unit="ratio",
        ),
        column(
            "device_bytes", pa.int64(), "Memory in use on the GPU, by whomever; null without.", unit="bytes"
        ),
        column(
            "device_utilisation",
            pa.float64(),
            "Share of the last moment during which the GPU computed (NVML); null without.",
            unit="ratio",
        ),
        always(
            "replica_cpu_s",
            pa.float64(),
            "CPU time of the replica and the processes of its engine since the trial began.",
            unit="s",
        ),
        always("client_cpu_s", pa.float64(), "CPU time of the client's process since then.", unit="s"),
    ]
)

LATER = frozenset(
    {"token_steps", "steps", "started_s", "priority", "ttft_target_s"}
)  # columns that older part files do not have

FAILURES = pa.schema(
    [
        always("cell_id", pa.string(), "The cell: a hash of everything that was resolved for it."),
        always("attempt", pa.int32(), "Which attempt to run the cell failed, from 1."),
        always("cause", pa.string(), "The class of the error."),
        always("error", pa.string(), "What went wrong, in one line."),
        always("permanent", pa.bool_(), "Whether it was not tried again, because it would end the same way."),
        always("failed_at", pa.string(), "When it failed: ISO 8601, UTC."),
    ]
)


class Clock(BaseModel):
    """The replica's clock mapped to the client's: replica − client, the sample with the least round trip."""

    model_config = ConfigDict(frozen=True)

    offset_s: float
    uncertainty_s: float  # half of that sample's round trip
    drift_s: float | None = None  # offset at the end − offset at the start


class LaneTime(BaseModel):
    """How long an attempt had its lane: with what was cleared away and loaded for it, to the end."""

    model_config = ConfigDict(frozen=True)

    held_s: float
    gpus: int = 1  # of the lane; one without, on processors, counts as one
    kind: str = ""  # of these GPUs, as Ray or the driver names it; empty where it is not known

    @property
    def gpu_s(self) -> float:
        """GPU seconds."""
        return self.held_s * self.gpus


class LeastLaneTime(LaneTime):
    """Of an attempt that runs or was killed: until the last that it wrote."""


class WarmUp(BaseModel):
    """How what a lane has loaded was warmed up, once, before the first trial on it."""

    model_config = ConfigDict(frozen=True)

    took_s: float
    batches: int
    settled: bool  # the step times of its last two batches agree within 5 %
    step_s: float  # of its last batch


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
    step_probe_s: float | None  # the one-request step time measured just before: median of several probes
    memory_bytes: int | None
    memory_kind: Literal["allocated", "kv-cache", "resident", "none"]
    started_at: str  # ISO 8601, UTC
    prepare_s: float  # handshake, warm-up, probe; not the loading of a lane
    measured_s: float  # first planned arrival → last completion
    total_s: float
    setup: dict[str, Any]  # provenance: versions, device, dtype, threads, git commit
    counters: dict[str, int] = {}  # what an engine in virtual time counted: preemptions, recomputed tokens, …
    warm_up: WarmUp | None = None  # null where nothing was run, or not recorded
    prefix_cache_share: float | None = None  # of prompt tokens that came from a prefix cache
    gpu_strangers: tuple[str, ...] = ()  # who else computed on its GPU when it began or ended
    lane_time: LaneTime | None = None  # null in virtual time, which no lane is taken for, or not recorded


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
    lane_time: LaneTime | None = None

    @property
    def in_words(self) -> str:
        """Its cause, and the first line of the error."""
        return f"{self.cause}: {first_line(self.error)}"
