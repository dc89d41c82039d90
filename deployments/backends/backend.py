"""The backend protocol: an engine that starts, runs what it is given, aborts and closes.

All stamps are seconds of `time.monotonic` in the backend's process (vLLM stamps with that clock).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

Status: TypeAlias = Literal["finished", "failed", "unfinished", "rejected"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One request as the engine sees it: generate exactly `output_tokens` tokens, greedily."""

    request_id: str
    prompt_ids: Sequence[int]
    output_tokens: int
    priority: int = 0  # this and the next for the strategy, on the same way
    ttft_target_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The end of one request. Stamps that do not exist are None, never 0."""

    request_id: str
    status: Status
    scheduled_s: float | None = None  # the engine began this request
    token_s: tuple[float, ...] = ()  # one stamp per output token
    output_ids: tuple[int, ...] = ()
    returned_s: float | None = None  # when a caller could have it (batch end for a lockstep batch)
    preemptions: int | None = None  # None where the engine does not say
    error: str | None = None
    cause: str | None = None  # class of the error: exception name, "invalid-request", "wrong-length", …


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStep:
    """One iteration of an engine that re-forms its batch at each step (its own statistics)."""

    end_s: float
    running: int
    waiting: int
    tokens: int  # output tokens of this iteration
    prefill_tokens: int
    kv_use: float | None  # share of the KV cache in use, 0..1
    preemptions: int
    cached_tokens: int | None = None  # of prompts, from a prefix cache; None where the engine does not say


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What must hold before a request may reach the engine: 0 ≤ id < vocabulary, p + o ≤ context."""

    vocabulary: int
    context_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Peak memory since the last reset, with what it means: kinds are never compared as equals."""

    peak_bytes: int | None
    kind: Literal["allocated", "kv-cache", "resident", "none"]
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Memory at one moment: what is in use, as `Memory` counts it, and what more may be taken for batches."""

    used_bytes: int
    free_bytes: int


@runtime_checkable
class TellsRoom(Protocol):
    """A backend that pads and knows the memory that its batches have."""

    def room(self) -> Room | None:
        """How it is now; None where the system does not say."""
        ...


class Backend(Protocol):
    """Runs batches. Invariants, for every member (tests/contracts/test_backends.py):

    one Output per Work; exactly `output_tokens` ids and stamps per finished request, stamps never
    decreasing and not before `scheduled_s`; an error on one request leaves the others alone; after
    `abort` the backend is usable; `close` leaves no process or thread behind.
    """

    joinable: bool

    async def start(self) -> None:
        """Load the model without blocking the event loop. ModelError if it can never load."""
        ...

    @property
    def limits(self) -> Limits:
        """The bounds for prompts and outputs, known after `start`."""
        ...

    @property
    def setup(self) -> Mapping[str, Any]:
        """Provenance after `start`: model, revision, dtype, device, threads, versions, engine arguments."""
        ...

    async def run(self, batch: Sequence[Work], done: Callable[[Output], None]) -> None:
        """Run the batch; call `done` once per request as soon as its caller could have it.

        Returns when all are done. May be called while another batch runs if `joinable`.
        OutOfMemory: nothing of the batch was delivered, all of it may be run again. Of batches that share
        an engine each raises the same object, which says how many requests were in it.
        EngineDead: the engine is gone. Any other failure is an Output with status `failed`.
        """
        ...

    async def abort(self) -> None:
        """Stop what runs: every open `run` delivers its rest as `unfinished`, and returns."""
        ...

    async def check(self) -> None:
        """EngineDead unless the engine is alive."""
        ...

    def take_steps(self) -> list[EngineStep]:
        """The engine's own steps since the last call; empty where it has none."""
        ...

    def reset_memory(self) -> None:
        """Start a new period for `memory`."""
        ...

    def memory(self) -> Memory:
        """Peak memory since `reset_memory`."""
        ...

    async def close(self) -> None:
        """End everything that `start` began."""
        ...


def invalid(work: Work, limits: Limits) -> str | None:
    """Why this request must not reach the engine, or None. Engines die or cut silently otherwise."""
    if not work.prompt_ids:
        return "the prompt must have at least 1 token, got 0"
    if work.output_tokens < 1:
        return f"output_tokens must be at least 1, got {work.output_tokens}"
    low, high = min(work.prompt_ids), max(work.prompt_ids)
    if low < 0 or high >= limits.vocabulary:
        wrong = low if low < 0 else high
        return f"token ids must be in 0..{limits.vocabulary - 1}, got {wrong}"
    total = len(work.prompt_ids) + work.output_tokens
    if total > limits.context_tokens:
        return f"prompt + output must be at most {limits.context_tokens} tokens, got {total}"
    return None


def refused(work: Work, reason: str) -> Output:
    """The end of a request that `invalid` kept from the engine."""
    return Output(
        request_id=work.request_id,
        status="failed",
        returned_s=time.monotonic(),
        error=reason,
        cause="invalid-request",
    )
