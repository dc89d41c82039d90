"""Model bandwidth utilisation by hand, in virtual time, and null where something about it is not known."""

from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deployments.virtual.driver import simulate
from deployments.virtual.engine import EngineSettings
from deployments.virtual.iteration import Iteration
from deployments.virtual.kv_cache import KVCache
from deployments.virtual.lockstep import Lockstep
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.step_model import Roofline
from deployments.virtual.tables import batch_tables, request_tables
from results.bandwidth import Decoding, decode_steps, lockstep_steps, of_trial, utilisation
from results.records import BATCHES
from strategies.registry import create

ENGINE = {"weight_bytes": 1_000, "kv_cache_bytes": 4_000, "bandwidth_bytes_per_s": 10_000.0}
PADDED = {"weight_bytes": 1_000, "kv_bytes_per_token": 10, "bandwidth_bytes_per_s": 10_000.0}
NO_REQUESTS = ({"token_s": [1.0], "batch_id": None},)


def steps(made: ModuleType, *rows: dict[str, Any]) -> pa.Table:
    full = [made.batch_row(kind="step", **{"batch_id": k, **row}) for k, row in enumerate(rows)]
    return pa.Table.from_pylist(full, schema=BATCHES)


def requests(made: ModuleType, *rows: dict[str, Any]) -> pa.Table:
    return made.request_table([made.request_row(index=k, **row) for k, row in enumerate(rows)])


def share(made: ModuleType, engine: dict[str, Any], rows: pa.Table, batches: pa.Table) -> float | None:
    return of_trial(
        made.make_trial([made.request_row(token_s=[1.0])], setup={"engine": engine}), rows, batches
    )


def test_bytes_moved_over_what_the_device_could_have_moved() -> None:
    """Two steps of 0.5 s that read 0.25 and 0.75 of a cache of 4,000 bytes, and 1,000 bytes of weights each."""
    found = utilisation(1_000, 4_000, Decoding(steps=2, busy_s=1.0, read=1.0), 10_000)
    assert found == (2 * 1_000 + 4_000) / (1.0 * 10_000)
    assert utilisation(1_000, 4_000, Decoding(steps=0, busy_s=0.0, read=0.0), 10_000) is None


def test_a_trial_counts_its_decode_steps_alone(made_sweep: ModuleType) -> None:
    """Left out: the first step and the one after idling, whose start is not known, and one that prefills."""
    table = steps(
        made_sweep,
        {"size": 2, "ended_s": 1.0, "kv_use": 0.1},
        {"size": 2, "ended_s": 1.5, "kv_use": 0.25},
        {"size": 3, "ended_s": 2.5, "kv_use": 0.5, "prompt_tokens": 16},
        {"size": 0, "ended_s": 3.0, "kv_use": 0.0},
        {"size": 1, "ended_s": 9.0, "kv_use": 0.5},
    )
    found = share(made_sweep, ENGINE, requests(made_sweep, *NO_REQUESTS), table)
    assert found == pytest.approx((1_000 + 0.25 * 4_000) / (0.5 * 10_000))


def test_a_row_for_several_steps_counts_as_many(made_sweep: ModuleType) -> None:
    table = steps(made_sweep, {"size": 1, "steps": 4, "started_s": 0.0, "ended_s": 2.0, "kv_use": 0.25})
    assert decode_steps(table) == Decoding(steps=4, busy_s=2.0, read=1.0)
    found = share(made_sweep, ENGINE, requests(made_sweep, *NO_REQUESTS), table)
    assert found == pytest.approx(4 * 2_000 / (2 * 10_000))


def test_a_padded_batch_reads_its_longest_prompt_in_every_row_and_a_token_more_each_step(
    made_sweep: ModuleType,
) -> None:
    """Two rows, longest prompt 8, longest output 3: steps that read 2·9 and 2·10 tokens in 1.0 s.

    Left out: a batch with a row that was cut off, and one whose rows have one token, which decodes nothing.
    """
    rows = requests(
        made_sweep,
        {"batch_id": 0, "token_s": [1.0, 1.5, 2.0]},
        {"batch_id": 0, "token_s": [1.0, 1.5]},
        {"batch_id": 1, "token_s": [3.0, 4.0]},
        {"batch_id": 1, "token_s": [3.0], "status": "unfinished"},
        {"batch_id": 2, "token_s": [5.0]},
    )
    padded = {"longest_prompt_tokens": 8, "lockstep_waste": 0.1}
    batches = [
        made_sweep.batch_row(**padded, batch_id=0, size=2, longest_output_tokens=3),
        made_sweep.batch_row(**padded, batch_id=1, size=2, longest_output_tokens=2),
        made_sweep.batch_row(**padded, batch_id=2, size=1, longest_output_tokens=1),
    ]
    table = pa.Table.from_pylist(batches, schema=BATCHES)
    assert lockstep_steps(rows, table) == Decoding(steps=2, busy_s=1.0, read=38)
    assert share(made_sweep, PADDED, rows, table) == pytest.approx((2 * 1_000 + 38 * 10) / (1.0 * 10_000))


STEP = Roofline(
    weight_bytes=14e9, kv_bytes_per_token=5e5, bandwidth_bytes_per_s=3.35e12, flop_per_s=1e18, parameters=7e9
)


@pytest.mark.parametrize(
    ("engine", "strategy"),
    [
        (Lockstep(step=STEP), "naive"),
        (Iteration(step=STEP, max_num_seqs=4, kv=KVCache(blocks=9_000, block_tokens=1, bytes_per_token=500_000)), "continuous"),
    ],
    ids=["lockstep", "iteration"],
)  # fmt: skip
def test_steps_as_long_as_memory_takes_use_all_of_its_bandwidth(
    made_sweep: ModuleType, engine: EngineSettings, strategy: str
) -> None:
    """A roofline that computing never bounds. In blocks of a token a run of steps tells of its last step's cache."""
    rng = np.random.default_rng(0)
    columns = RequestColumns(
        planned_s=np.cumsum(rng.exponential(0.1, 40)),
        prompt_tokens=rng.integers(16, 400, 40),
        output_tokens=rng.integers(2, 60, 40),
        max_new_tokens=np.full(40, 60),
    )
    run = simulate(columns, create(strategy, {"max_batch_size": 4}), engine, max_batch_size=4)
    settings = {"cell_id": "a", "attempt": 1}
    rows, batches = (pa.concat_tables(made(run, settings)) for made in (request_tables, batch_tables))
    facts = {"weight_bytes": 14e9, "kv_bytes_per_token": 5e5, "bandwidth_bytes_per_s": 3.35e12}
    if isinstance(engine, Iteration):
        found = share(made_sweep, facts | {"kv_cache_bytes": 9_000 * 500_000}, rows, batches)
        assert found is not None
        assert 1.0 <= found < 1.01
    else:
        assert share(made_sweep, facts, rows, batches) == pytest.approx(1.0)
        faster = facts | {"bandwidth_bytes_per_s": 6.7e12}
        assert share(made_sweep, faster, rows, batches) == pytest.approx(0.5)


@pytest.mark.parametrize("unknown", list(ENGINE))
def test_it_is_null_where_a_fact_is_not_known(made_sweep: ModuleType, unknown: str) -> None:
    rows = requests(made_sweep, *NO_REQUESTS)
    table = steps(made_sweep, {"size": 1, "started_s": 0.0, "ended_s": 0.5, "kv_use": 0.25})
    assert share(made_sweep, ENGINE, rows, table) is not None
    assert share(made_sweep, ENGINE | {unknown: None}, rows, table) is None
    assert share(made_sweep, ENGINE, rows, table.slice(0, 0)) is None
    assert share(made_sweep, PADDED, rows, table) is None
