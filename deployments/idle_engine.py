"""What is measured on an idle engine: batches straight through it, past any strategy, which no trial counts."""

import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deployments.backends.backend import Backend, Output, TellsRoom, Work
from deployments.errors import BackendError
from deployments.reserve import NEW_TOKENS, Reserve, measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One timed batch of equal rows; seconds."""

    batch_size: int
    prompt_tokens: int
    prefill_s: float  # scheduled → first token of all rows
    step_s: float  # median gap between tokens


async def outputs_of(backend: Backend, works: Sequence[Work]) -> list[Output]:
    """The outputs of one batch. BackendError if a request fails, EngineDead if the engine is."""
    await backend.check()
    outputs: list[Output] = []
    await backend.run(works, outputs.append)
    if failed := [output for output in outputs if output.status != "finished"]:
        raise BackendError(f"a request failed before the trial: {failed[0].error}")
    backend.take_steps()
    return outputs


async def timed(backend: Backend, batch_size: int, prompt_tokens: int, output_tokens: int) -> Sample:
    """Time one batch of equal rows. A prompt that the context has no room for is cut; the sample says to what."""
    prompt_tokens = max(1, min(prompt_tokens, backend.limits.context_tokens - output_tokens))
    outputs = await outputs_of(backend, _equal_rows(backend, batch_size, prompt_tokens, output_tokens))
    begun = min(output.scheduled_s or math.inf for output in outputs)
    gaps = np.concatenate([np.diff(output.token_s) for output in outputs])
    return Sample(
        batch_size=batch_size,
        prompt_tokens=prompt_tokens,
        prefill_s=max(output.token_s[0] for output in outputs) - begun,
        step_s=float(np.median(gaps)),
    )


async def reserve_of(backend: Backend, prompt_tokens: int) -> Reserve | None:
    """What padded batches take beside their keys and values, by two small ones.

    None where the engine does not pad, or its memory or what a token takes is not known. BackendError.
    """
    each, limit = backend.setup.get("kv_bytes_per_token"), backend.limits.context_tokens
    if not isinstance(backend, TellsRoom) or each is None:
        return None
    backend.reset_memory()
    # What the first batch of all takes is not given back.
    await outputs_of(backend, _equal_rows(backend, 1, 1, 2))
    rest = backend.room()
    if rest is None or backend.memory().peak_bytes is None:
        return None

    async def peak(rows: int, prompt_tokens: int, new_tokens: int) -> int:
        backend.reset_memory()
        await outputs_of(backend, _equal_rows(backend, rows, prompt_tokens, new_tokens))
        return max(0, (backend.memory().peak_bytes or 0) - rest.used_bytes)

    return await measure(peak, min(prompt_tokens, limit - NEW_TOKENS), each)


def _equal_rows(backend: Backend, rows: int, prompt_tokens: int, output_tokens: int) -> list[Work]:
    """Of random ids: neither timing nor memory sees them."""
    rng = np.random.default_rng([rows, prompt_tokens])
    return [
        Work(
            request_id=f"measure-{uuid.uuid4().hex}",
            prompt_ids=rng.integers(0, backend.limits.vocabulary, prompt_tokens).tolist(),
            output_tokens=output_tokens,
        )
        for _ in range(rows)
    ]
