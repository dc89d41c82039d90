"""What queueing theory and a step model say of a strategy before anything runs: pure functions, a formula each.

B is a batch size, λ the arrival rate and μ the capacity (both requests/s), ρ = λ ÷ μ; p and o are the prompt
and output tokens of a request, drawn independently of each other. step(B) is a forward pass with B sequences
in it (deployments/virtual/step_model.py). Means go into it as they are, so where a model is not linear
these are approximations; where a knee was is for results/ to say.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from deployments.virtual.step_model import StepModel
from workloads.lengths import LengthLaw
from workloads.workload import WorkloadSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The laws of what one request asks for."""

    prompts: LengthLaw
    outputs: LengthLaw

    @classmethod
    def of(cls, workload: WorkloadSpec) -> Self:
        """The laws that a config names."""
        return cls(prompts=workload.prompt_law(), outputs=workload.output_law())

    @property
    def context_tokens(self) -> float:
        """KV entries that a slot reads in a step, on average over a slot's time: step i of o reads p + i − 1.

        (E[p]·(E[o] − 1) + E[o·(o−1)] ÷ 2) ÷ E[o]; the prefill step computes its own and reads none.
        """
        prompt, output = self.prompts.mean(), self.outputs.mean()
        pairs = _mean_of_squares(self.outputs) - output
        return (prompt * (output - 1) + pairs / 2) / output

    @property
    def held_tokens(self) -> float:
        """KV entries that a slot holds, on average over a slot's time: E[p] + (E[o²] + E[o]) ÷ 2·E[o]."""
        output = self.outputs.mean()
        return self.prompts.mean() + (_mean_of_squares(self.outputs) + output) / (2 * output)

    @property
    def most_tokens(self) -> int:
        """The longest prompt and the longest output together: what a request may come to hold."""
        return self.prompts.maximum + self.outputs.maximum

    def held_in_blocks(self, block_tokens: int) -> float:
        """`held_tokens`, and the part of the last block that is free: half of one on average."""
        return self.held_tokens + (block_tokens - 1) / 2

    def reserved_tokens(self, limit_tokens: int, block_tokens: int) -> float:
        """What whole blocks for the prompt and a declared limit of output take, on average."""
        blocks = -(-(self.prompts.values + limit_tokens) // block_tokens)
        return block_tokens * float(blocks @ np.diff(self.prompts.cumulative, prepend=0.0))


def lockstep_batch_s(work: Work, model: StepModel, batch: int) -> float:
    """A whole batch, padded and run to its longest row.

    step(B, prefill B·P) + (O − 1)·step(B), with P = E[max p of B], O = E[max o of B].
    """
    prompt, output = work.prompts.mean_of_maximum(batch), work.outputs.mean_of_maximum(batch)
    first_s = model.step_s(batch, prefill_tokens=batch * prompt, prefill_squares=batch * prompt**2)
    return first_s + (output - 1) * model.step_s(batch, batch * (prompt + output / 2))


def gated_batch_s(work: Work, model: StepModel, batch: int, room: int | None = None) -> float:
    """A batch that is launched whole on an engine whose finished rows leave: Σ over steps k of step(rows with o ≥ k).

    The first step computes the B prompts, and the E[max o of B] − 1 others have B·(E[o] − 1) rows in them
    altogether. So it is exact in expectation for a model that is a line, where a step takes all prompts.
    Of more than `room` rows the others wait in the engine: `room` slots are kept full until so many are left.
    """
    if room is not None and batch > room:
        turns = (batch - room) / room * work.outputs.mean()
        return turns * iteration_step_s(work, model, room) + gated_batch_s(work, model, room)
    first_s = gated_first_step_s(work, model, batch)
    output, others = work.outputs.mean(), work.outputs.mean_of_maximum(batch) - 1
    if others <= 0:
        return first_s
    rows, context = batch * (output - 1) / others, batch * output * work.context_tokens / others
    return first_s + others * model.step_s(rows, context)


def gated_first_step_s(work: Work, model: StepModel, batch: int) -> float:
    """The step that computes B prompts, none of them padded."""
    prompts, squares = batch * work.prompts.mean(), batch * _mean_of_squares(work.prompts)
    return model.step_s(batch, prefill_tokens=prompts, prefill_squares=squares)


def rows_beside(outputs: LengthLaw, batch: int) -> float:
    """How many rows of a gated batch are there at a decode step of one of them: 1 + (B − 1)·E[min o of 2] ÷ E[o]."""
    return 1 + (batch - 1) * (2 - outputs.mean_of_maximum(2) / outputs.mean())


def iteration_step_s(work: Work, model: StepModel, batch: int) -> float:
    """A step of an engine whose B slots are taken: B ÷ E[o] requests join in it, each with its prompt."""
    joining = batch / work.outputs.mean()
    return model.step_s(
        batch,
        batch * work.context_tokens,
        prefill_tokens=joining * work.prompts.mean(),
        prefill_squares=joining * _mean_of_squares(work.prompts),
    )


def lockstep_capacity(work: Work, model: StepModel, cap: int) -> float:
    """μ of full, padded batches that run to their longest row: B ÷ (time of a batch).

    With the linear model B ÷ (B·E[max p of B]·c + E[max o of B]·step(B)), c the cost of a prompt token.
    """
    return cap / lockstep_batch_s(work, model, cap)


def gated_capacity(work: Work, model: StepModel, cap: int, room: int | None = None) -> float:
    """μ of naive and dynamic on an engine that re-forms its batch: they too wait for the longest row, B ÷ `gated_batch_s`.

    Prompts that take several steps, because a step has a budget of tokens, make it a few per cent less.
    """
    return cap / gated_batch_s(work, model, cap, room)


def iteration_capacity(work: Work, model: StepModel, cap: int) -> float:
    """μ of an engine that keeps B slots filled: B ÷ (E[o]·step), a finished row frees its slot.

    With the linear model B ÷ (B·E[p]·c + E[o]·step(B)); without the cost of prompts that is the saturated
    throughput B ÷ step(B) tokens/s.
    """
    return cap / (work.outputs.mean() * iteration_step_s(work, model, cap))


def mm1_wait_s(rate: float, capacity: float) -> float:
    """Mean wait in queue of M/M/1: ρ ÷ (μ − λ); infinite from ρ = 1 on."""
    return rate / capacity / (capacity - rate) if rate < capacity else math.inf


def mm1_wait_quantile_s(rate: float, capacity: float, share: float) -> float:
    """The wait in queue that a `share` of requests does not exceed: max(0, ln(ρ ÷ (1 − share)) ÷ (μ − λ)).

    From P(W > t) = ρ·exp(−(μ − λ)·t); infinite from ρ = 1 on.
    """
    if rate >= capacity:
        return math.inf
    return max(0.0, math.log(rate / capacity / (1 - share)) / (capacity - rate))


def fill_wait_s(batch: int, rate: float) -> float:
    """How long a request of naive waits until its batch is full, on average: (N − 1) ÷ 2λ."""
    return (batch - 1) / (2 * rate)


def idle_batch(rate: float, wait_s: float, cap: int) -> float:
    """E[B] of dynamic whose engine is always free: 1 + Σ_{k=1}^{cap−1} P(Pois(λ·w) ≥ k)."""
    from scipy.stats import poisson  # slow to import, and every trial process imports this module

    return 1.0 + float(poisson.sf(np.arange(cap - 1), rate * wait_s).sum())


def batch_at(rate: float, cap: int, capacity: Callable[[int], float]) -> int:
    """The smallest batch whose capacity is at least λ, `cap` if none is.

    For slots it is Little's law, the requests in flight N = λ·E[o]·step(N); for a server that takes what waits
    it is the fixed point B = λ·t(B), because B requests arrive while B are served.
    """
    if capacity(cap) < rate:
        return cap
    return 1 + bisect_left(range(1, cap), True, key=lambda batch: capacity(batch) >= rate)


def kv_batch(kv_tokens: int, tokens_each: float) -> int:
    """How many requests of so many tokens a KV cache holds."""
    return int(kv_tokens // tokens_each)


def lockstep_efficiency(outputs: LengthLaw, batch: int) -> float:
    """The share of a lockstep batch's decode work that is useful: E[o] ÷ E[max o of B]."""
    return outputs.mean() / outputs.mean_of_maximum(batch)


def ideal_tokens_per_s(rate: float, capacity: float, output_tokens: float) -> float:
    """What can be delivered: min(λ, μ)·E[o]."""
    return min(rate, capacity) * output_tokens


def _mean_of_squares(law: LengthLaw) -> float:
    return float(np.square(law.values, dtype=np.float64) @ np.diff(law.cumulative, prepend=0.0))
