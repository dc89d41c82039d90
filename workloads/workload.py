"""A workload: from a recipe, a rate and a seed to the list of requests that every strategy is given.

One `SeedSequence([seed, repeat])` is spawned into a stream for each thing that is drawn, so changing one
leaves the others as they were: at equal seed and repeat, request i has the same prompt and the
same output length at every rate, and the arrivals are the same pattern, scaled. (A trace has rows in place of
draws: see replay.py.)
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from workloads import prompts
from workloads.errors import WorkloadError
from workloads.prompts import Encode, PromptSource
from workloads.request import Request
from workloads.shape import shape
from workloads.spec import PromptSpec, WorkloadSpec
from workloads.streams import Streams

__all__ = ["WorkloadSpec", "generate", "warmup", "workload_hash"]

HASH_VERSION = b"batchyard workload 1"


def generate(
    spec: WorkloadSpec,
    *,
    rate: float,
    duration_s: float,
    seed: int,
    repeat: int,
    vocabulary: int,
    encode: Encode | None,
) -> tuple[Request, ...]:
    """The requests planned in [0, duration_s) at `rate` per second, in order of arrival; may be none.

    `vocabulary` is the model's number of token ids; `encode` turns text into ids without special tokens
    and may be None where prompts are random ids. WorkloadError if the recipe cannot be followed.
    """
    source = prompt_source(spec.prompts, vocabulary, encode, Streams.of(seed, repeat).prompts)
    made = shape(spec, rate=rate, duration_s=duration_s, seed=seed, repeat=repeat)
    count = len(made)
    columns = (
        made.arrival_s.tolist(),
        made.prompt_tokens.tolist(),
        made.output_tokens.tolist(),
        [0] * count if made.priority is None else made.priority.tolist(),
        [None] * count if made.ttft_target_s is None else made.ttft_target_s.tolist(),
    )
    return tuple(
        Request(
            index=index,
            planned_s=planned_s,
            prompt_ids=source.prompt(index, prompt_length),
            output_tokens=output_length,
            max_new_tokens=made.max_new_tokens,
            priority=priority,
            ttft_target_s=target_s,
        )
        for index, (planned_s, prompt_length, output_length, priority, target_s) in enumerate(
            zip(*columns, strict=True)
        )
    )


def warmup(
    spec: WorkloadSpec, count: int, *, seed: int, repeat: int, vocabulary: int, encode: Encode | None
) -> tuple[Request, ...]:
    """`count` requests of the same laws, all planned at 0, for the time before the measured period.

    Their lengths are drawn anew and their prompts begin where no measured one of this seed and repeat
    does, until the source has no unused start left.
    """
    streams = Streams.of(seed, repeat)
    source = prompt_source(spec.prompts, vocabulary, encode, streams.prompts)
    prompt_tokens = spec.prompt_law().draw(streams.warmup, count).tolist()
    output_tokens = spec.output_law().draw(streams.warmup, count).tolist()
    limit = spec.limit_tokens
    return tuple(
        Request(
            index=index,
            planned_s=0.0,
            prompt_ids=source.prompt(-1 - index, prompt_tokens[index]),
            output_tokens=output_tokens[index],
            max_new_tokens=limit,
        )
        for index in range(count)
    )


def prompt_source(
    spec: PromptSpec, vocabulary: int, encode: Encode | None, rng: np.random.Generator
) -> PromptSource:
    """The source that `spec` names, seeded by `rng`."""
    if vocabulary < 1:
        raise WorkloadError(f"vocabulary must be at least 1, got {vocabulary}")
    if spec.source == "random":
        return prompts.random_ids(vocabulary, rng)
    if encode is None:
        raise WorkloadError(f"source must be random for a model without a tokenizer, got {spec.source}")
    if spec.source == "sharegpt":
        return prompts.sharegpt(spec.path or "", encode, vocabulary, rng)
    return prompts.english(encode, vocabulary, rng)


def workload_hash(requests: Sequence[Request]) -> str:
    """SHA-256 in hex over every request's planned time, prompt ids, lengths, class and target; the same anywhere.

    Times count in whole microseconds: finer than a client can send, coarser than the last bits in
    which the logarithms of two machines differ.
    """
    digest = hashlib.sha256(HASH_VERSION)
    for request in requests:
        head = (
            request.index,
            round(request.planned_s * 1e6),
            request.output_tokens,
            request.max_new_tokens,
            len(request.prompt_ids),
        )
        digest.update(np.array(head + request.prompt_ids, dtype="<i8").tobytes())
        if request.priority or request.ttft_target_s is not None:
            target_us = -1 if request.ttft_target_s is None else round(request.ttft_target_s * 1e6)
            digest.update(b"terms" + np.array([request.priority, target_us], dtype="<i8").tobytes())
    return digest.hexdigest()
