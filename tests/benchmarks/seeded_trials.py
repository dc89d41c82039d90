"""Many short trials of the real strategies in virtual time, for what is claimed of a share of them.

Poisson arrivals, prompts of 16 to 48 tokens, lognormal outputs of median 16, at most 96; batches of 8, the simulated
engine's own step times. `gated` forms its batch anew at each step, `lockstep` runs it to its longest row.
"""

from dataclasses import replace
from functools import cache
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from deployments.virtual.driver import simulate
from deployments.virtual.iteration import Iteration
from deployments.virtual.lockstep import Lockstep
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.run import Run
from deployments.virtual.step_model import Linear
from deployments.virtual.tables import request_tables
from results.metrics import with_metrics
from results.verdicts import verdicts
from strategies.registry import create
from tests.results.made_sweep import make_trial, request_row

SIZE, LONGEST = 8, 96
KNOBS = {"naive": {}, "dynamic": {"max_wait_ms": 50}, "continuous": {}}
ALL_AT_ONCE = 2_000  # requests from which a capacity is taken

EngineName: TypeAlias = Literal["gated", "lockstep"]
Case: TypeAlias = tuple[str, EngineName]  # a strategy on an engine
CASES: tuple[Case, ...] = (
    ("naive", "lockstep"),
    ("naive", "gated"),
    ("dynamic", "gated"),
    ("continuous", "gated"),
)
JUDGED = make_trial([request_row(token_s=[1.0])])  # what verdicts ask of a trial beside its rows


def requests(rng: np.random.Generator, count: int, rate: float | None) -> RequestColumns:
    """One trial's; all at once without a rate (requests/s)."""
    gaps_s = rng.exponential(1 / rate, count) if rate else np.zeros(count)
    lengths = np.clip(np.rint(rng.lognormal(np.log(16), 1.0, count)), 1, LONGEST)
    return RequestColumns(
        planned_s=np.cumsum(gaps_s),
        prompt_tokens=rng.integers(16, 49, count),
        output_tokens=lengths.astype(np.int64),
        max_new_tokens=np.full(count, LONGEST),
    )


def serve(case: Case, columns: RequestColumns, *, slower: float = 1.0) -> Run:
    """Run them; `slower`: all costs of a step by this factor."""
    strategy, engine = case
    step = Linear()
    step = replace(
        step,
        fixed_s=slower * step.fixed_s,
        per_sequence_s=slower * step.per_sequence_s,
        per_prefill_token_s=slower * step.per_prefill_token_s,
    )
    settings = (
        Lockstep(step=step)
        if engine == "lockstep"
        else Iteration(step=step, max_num_seqs=SIZE, max_num_batched_tokens=None)
    )
    made = create(strategy, {"max_batch_size": SIZE, **KNOBS[strategy]})
    return simulate(columns, made, settings, max_batch_size=SIZE)


@cache
def capacity(case: Case) -> float:
    """Requests/s where all wait from the start."""
    return ALL_AT_ONCE / serve(case, requests(np.random.default_rng(0), ALL_AT_ONCE, None)).ended_s


def verdicts_of(run: Run) -> set[str]:
    """What results.verdicts says of such a trial, by name."""
    table = pa.concat_tables(request_tables(run, {"cell_id": "a", "attempt": 1}))
    return {one.name for one in verdicts(JUDGED, with_metrics(table), len(run.launches))}


def share_judged(verdict: str, case: Case, load: float, count: int, trials: int, seed: int = 7) -> float:
    """Share of so many trials of `count` arrivals, at a load (of the case's capacity), that have a verdict."""
    rng = np.random.default_rng(seed)
    rate = load * capacity(case)
    found = [verdicts_of(serve(case, requests(rng, count, rate))) for _ in range(trials)]
    return float(np.mean([verdict in names for names in found]))
