"""One request of a workload: a prompt, its exact output length and its planned arrival."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client sends, and what only the backend may know (`output_tokens`).

    Strategies see the prompt's length, `max_new_tokens`, the workload's declared limit, its class and target; never
    `output_tokens`, the true output length, which every backend enforces exactly.
    """

    index: int  # position in the workload, from 0, in order of arrival
    planned_s: float  # seconds after the first moment of the measured period
    prompt_ids: tuple[int, ...]
    output_tokens: int
    max_new_tokens: int
    priority: int = 0  # its class; 0 is the most urgent
    ttft_target_s: float | None = None  # how soon its first token is wanted; None: no target
