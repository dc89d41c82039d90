"""The iteration engine again, as a plain loop over steps and sequences: slow, and easy to believe.

Requests join the queue when they arrive, as under `continuous`. Every sequence is an object that counts
its own tokens and blocks, and every step looks at all of them.
"""

import math
from dataclasses import dataclass, field

from deployments.virtual.iteration import Iteration
from deployments.virtual.request_columns import RequestColumns


@dataclass(eq=False)
class Sequence:
    index: int
    arrived_s: float
    prompt: int
    output: int
    limit: int
    token_s: list[float] = field(default_factory=list)
    scheduled_s: float = math.nan
    computed: int = 0  # tokens in the KV cache
    decodes: bool = False
    blocks: int = 0
    on_host: int = 0  # tokens that were swapped out
    preemptions: int = 0
    failed: bool = False
    ended_s: float = math.nan

    @property
    def known(self) -> int:
        return self.prompt + len(self.token_s)


@dataclass
class Outcome:
    sequences: list[Sequence]
    steps: int = 0
    preemptions: int = 0
    recomputed_tokens: int = 0
    swapped_bytes: float = 0.0
    peak_blocks: int = 0
    ended_s: float = 0.0


class StepByStep:
    def __init__(self, settings: Iteration, requests: RequestColumns) -> None:
        self.settings, self.kv = settings, settings.kv
        self.free = settings.kv.blocks if settings.kv else math.inf
        self.pool = self.free
        columns = (
            requests.planned_s,
            requests.prompt_tokens,
            requests.output_tokens,
            requests.max_new_tokens,
        )
        rows = zip(*(column.tolist() for column in columns), strict=True)
        self.outcome = Outcome([Sequence(index, *row) for index, row in enumerate(rows)])
        self.queue: list[Sequence] = []
        self.residents: list[Sequence] = []
        self.began_to_decode: list[Sequence] = []

    def run(self, until_s: float = math.inf) -> Outcome:
        coming = list(self.outcome.sequences)
        now_s = 0.0
        while True:
            while coming and coming[0].arrived_s <= now_s:
                self.arrive(coming.pop(0))
            if not (self.queue or self.residents):
                if not coming:
                    self.outcome.ended_s = now_s
                    return self.outcome
                now_s = coming[0].arrived_s
                continue
            end_s = self.step(now_s, until_s)
            if end_s > until_s:
                for one in coming:
                    self.arrive(one)
                return self.outcome
            now_s = end_s

    def arrive(self, one: Sequence) -> None:
        if self.kv and self.blocks(self.wanted(one)) > self.pool:
            one.failed, one.ended_s = True, one.arrived_s
        else:
            self.queue.append(one)

    def blocks(self, tokens: int) -> int:
        return math.ceil(tokens / self.kv.block_tokens) if self.kv else 0

    def wanted(self, one: Sequence) -> int:
        """Tokens that there must be room for before it is admitted."""
        if self.kv and self.kv.admission == "reserve":
            return one.prompt + one.limit - 1
        return one.known

    def hold(self, one: Sequence, blocks: int) -> None:
        self.free -= blocks - one.blocks
        one.blocks = blocks
        assert 0 <= self.free <= self.pool

    def step(self, now_s: float, until_s: float) -> float:
        settings = self.settings
        grows = self.kv is not None and self.kv.admission == "optimistic"
        transfer_s, preempted = 0.0, False
        decoding = self.began_to_decode
        # room for the next token of everyone who decodes
        while grows and sum(self.blocks(one.known) - one.blocks for one in decoding) > self.free:
            youngest = self.residents[-1]
            if len(self.residents) == 1:
                youngest.failed, youngest.ended_s = True, now_s
                self.leave(youngest)
                return now_s
            transfer_s += self.preempt(youngest)
            preempted = True
        if grows:
            for one in decoding:
                self.hold(one, self.blocks(one.known))
        # the budget
        budget = settings.max_num_batched_tokens or math.inf
        left = budget if settings.order == "prefill-first" else budget - len(decoding)
        chunks: list[tuple[Sequence, int]] = []
        for one in self.residents:
            if not one.decodes and left > 0:
                chunks.append((one, min(one.known - one.computed, left, settings.prefill_chunk or math.inf)))
                left -= chunks[-1][1]
        while self.queue and len(self.residents) < settings.max_num_seqs and left > 0 and not preempted:
            one = self.queue[0]
            if self.kv and self.blocks(self.wanted(one)) > self.free:
                break
            self.queue.pop(0)
            self.residents.append(one)
            self.hold(one, self.blocks(self.wanted(one)))
            if math.isnan(one.scheduled_s):
                one.scheduled_s = now_s
            if one.on_host:
                transfer_s += self.move(one.on_host)
                one.computed, one.on_host = one.on_host, 0
            if one.token_s and one.computed == one.known - 1:
                one.decodes = True
                decoding.append(one)
                left -= 0 if settings.order == "prefill-first" else 1
            else:
                chunks.append((one, min(one.known - one.computed, left, settings.prefill_chunk or math.inf)))
                left -= chunks[-1][1]
        going = decoding[: int(min(left, len(decoding)))] if settings.order == "prefill-first" else decoding
        for one in decoding[len(going) :]:
            if grows:
                self.hold(one, self.blocks(one.computed))
        # the step
        end_s = now_s + transfer_s
        end_s += settings.step.step_s(
            len(going) + len(chunks),
            sum(one.known for one in going),
            sum(tokens for _, tokens in chunks),
            sum((one.computed + tokens) ** 2 - one.computed**2 for one, tokens in chunks),
        )
        if end_s > until_s:
            return end_s
        self.outcome.steps += 1
        if self.kv:
            self.outcome.peak_blocks = max(self.outcome.peak_blocks, int(self.pool - self.free))
        for one in list(going):
            one.computed += 1
            one.token_s.append(end_s)
        for one, tokens in chunks:
            one.computed += tokens
            if one.computed == one.known:
                one.token_s.append(end_s)
                one.decodes = True
                decoding.append(one)
        for one in list(self.residents):
            if len(one.token_s) == one.output:
                one.ended_s = end_s
                self.leave(one)
        return end_s

    def preempt(self, one: Sequence) -> float:
        self.leave(one)
        self.queue.insert(0, one)
        one.preemptions += 1
        self.outcome.preemptions += 1
        if self.kv.preemption == "recompute":
            self.outcome.recomputed_tokens += one.computed
            one.computed = 0
            return 0.0
        one.on_host, one.computed = one.computed, 0
        return self.move(one.on_host) if one.on_host else 0.0

    def move(self, tokens: int) -> float:
        moved = self.blocks(tokens) * self.kv.block_tokens * self.kv.bytes_per_token
        self.outcome.swapped_bytes += moved
        return moved / self.kv.swap_bytes_per_s

    def leave(self, one: Sequence) -> None:
        self.residents.remove(one)
        if one.decodes:
            self.began_to_decode.remove(one)
        one.decodes = False
        self.hold(one, 0)
