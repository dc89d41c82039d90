"""What theory says of one setting on the step times of its backend: capacity, room, waits and batches at a rate."""

import math
from dataclasses import dataclass
from functools import cached_property

from experiments.capacity import formula
from experiments.explain.basis import Basis
from experiments.grid import Setting
from experiments.simulation.kv_pool import KVPool, kv_pool
from experiments.simulation.padding import padded_budget
from experiments.simulation.premise import Premise
from experiments.simulation_entry import SimulationEntry
from experiments.theory import (
    Work,
    batch_at,
    fill_wait_s,
    gated_capacity,
    gated_first_step_s,
    ideal_tokens_per_s,
    idle_batch,
    iteration_step_s,
    kv_batch,
    lockstep_batch_s,
    mm1_wait_s,
    rows_beside,
)
from strategies.kv_budget import KVBudget


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One setting at one rate. None: does not apply, or (waits) there is none because the queue grows."""

    rate: float
    utilisation: float
    tokens_per_s: float
    wait_s: float | None  # M/M/1, a rough guide
    fill_wait_s: float | None  # naive
    idle_batch: float | None  # dynamic on an engine that is always free
    batch: int  # taken together when busy: of dynamic the batch, of continuous the requests in flight


@dataclass(frozen=True)
class Theory:
    """One setting on the step times of its backend."""

    setting: Setting
    work: Work
    basis: Basis
    entry: SimulationEntry  # what the config says of engines in virtual time
    limit_tokens: int  # the declared limit of an output

    @cached_property
    def held(self) -> KVBudget | KVPool | None:
        """What the engine keeps keys and values in, as virtual time has it; None where no limit is known."""
        room = padded_budget if self.setting.pads else kv_pool
        return room(self.setting, Premise.of(self.basis, self.setting), self.entry)

    @property
    def kv_tokens(self) -> int | None:
        """What the KV cache holds, or the budget of a padded batch; None where no limit is known."""
        if isinstance(self.held, KVBudget):
            return self.held.budget_bytes // self.held.bytes_per_token
        return None if self.held is None else self.held.tokens

    @cached_property
    def kv_limit(self) -> int | None:
        """The most requests that it holds: padded rows all at their most; in slots on average, or at their limit."""
        if isinstance(self.held, KVBudget):
            return self.held.rows(self.work.prompts.maximum, self.limit_tokens)
        if self.held is None:
            return None
        block_tokens = self.held.block_tokens
        if self.entry.admission == "reserve":
            return kv_batch(self.held.tokens, self.work.reserved_tokens(self.limit_tokens, block_tokens))
        return kv_batch(self.held.tokens, self.work.held_in_blocks(block_tokens))

    @property
    def room(self) -> int:
        """How many of a full batch the engine runs at once: all, unless the cache holds fewer."""
        most = self.setting.max_batch_size
        return most if self.kv_limit is None else max(1, min(most, self.kv_limit))

    @property
    def gated(self) -> bool:
        """Launched batch by batch on an engine that re-forms its own: what has no room waits in the engine."""
        return self.setting.lockstep_bound and not self.setting.pads

    @property
    def cap(self) -> int:
        """The most that are launched together, or in flight."""
        return self.setting.max_batch_size if self.gated else self.room

    def capacity_of(self, batch: int) -> float:
        """μ if never more than `batch` were taken together."""
        if self.gated:
            return gated_capacity(self.work, self.basis.model, batch, self.room)
        return formula(self.setting)(self.work, self.basis.model, batch)

    @cached_property
    def capacity(self) -> float:
        """μ, in requests/s."""
        return self.capacity_of(self.cap)

    @property
    def tokens_per_s(self) -> float:
        """μ·E[o]."""
        return self.capacity * self.work.outputs.mean()

    def batch_at(self, rate: float) -> int:
        """Taken together when busy: naive its N, the others what arrives while as many are served."""
        if self.setting.strategy == "naive":
            return self.cap
        return batch_at(rate, self.cap, self.capacity_of)

    def at(self, rate: float) -> Point:
        """Everything at one rate."""
        knobs, wait_s = self.setting.knobs, mm1_wait_s(rate, self.capacity)
        gathers_s = knobs.get("max_wait_ms")
        return Point(
            rate=rate,
            utilisation=rate / self.capacity,
            tokens_per_s=ideal_tokens_per_s(rate, self.capacity, self.work.outputs.mean()),
            wait_s=wait_s if math.isfinite(wait_s) else None,
            fill_wait_s=fill_wait_s(self.cap, rate) if self.setting.strategy == "naive" else None,
            idle_batch=None if gathers_s is None else idle_batch(rate, gathers_s / 1e3, self.cap),
            batch=self.batch_at(rate),
        )

    def service_at(self, rate: float) -> tuple[float, float]:
        """`service_s` in the batch that the rate makes, between two sizes in proportion: a smooth line."""
        batch = self.batch_at(rate)
        above = self.service_s(batch)
        if batch == 1 or self.setting.strategy == "naive":
            return above
        low, high = self.capacity_of(batch - 1), self.capacity_of(batch)
        share = min(1.0, (rate - low) / (high - low)) if high > low else 1.0
        below = self.service_s(batch - 1)
        first_s, last_s = (b + share * (a - b) for a, b in zip(above, below, strict=True))
        return first_s, last_s

    def service_s(self, batch: int) -> tuple[float, float]:
        """Until the first token and until the last of a mean request, in a batch of so many; no wait."""
        model, output = self.basis.model, self.work.outputs.mean()
        if self.gated:
            return self._gated_service_s(batch)
        step_s = model.step_s(batch, batch * self.work.context_tokens)
        if self.setting.lockstep_bound:
            rest_s = (self.work.outputs.mean_of_maximum(batch) - 1) * step_s
            first_s = max(step_s, lockstep_batch_s(self.work, model, batch) - rest_s)
        else:
            prompt = self.work.prompts.mean()
            first_s = model.step_s(batch, prefill_tokens=prompt, prefill_squares=prompt**2)
        return first_s, first_s + (output - 1) * step_s

    def _gated_service_s(self, batch: int) -> tuple[float, float]:
        """Rows beyond the room leave the engine's queue one by one, E[o] ÷ room steps apart."""
        model, output = self.basis.model, self.work.outputs.mean()
        together = min(batch, self.room)
        beyond, apart_s = batch - together, output / together * iteration_step_s(self.work, model, together)
        first_s = gated_first_step_s(self.work, model, together) + beyond / batch * (beyond + 1) / 2 * apart_s
        rows = rows_beside(self.work.outputs, together)
        return first_s, first_s + (output - 1) * model.step_s(rows, rows * self.work.context_tokens)
