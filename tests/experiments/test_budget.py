"""What a run may use: who may begin, and when nobody may any more."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.budget import Budget, Limits
from experiments.config import SweepConfig
from experiments.errors import ConfigError
from experiments.sweep import run_sweep
from experiments.where import Where

HOUR_S = 3600.0


def test_nothing_is_begun_that_would_cost_more_with_what_runs_and_was_spent():
    budget = Budget(Limits(cost=10.0), spent=4.0, begun_s=0.0, clock=lambda: 0.0)
    assert budget.begin("a", 60, 3.0)
    assert budget.begin("b", 60, 3.0), "10 of 10"
    budget.ended("a", 2.0)
    budget.ended("a")
    assert budget.reached() is None
    assert not budget.begin("c", 60, 1.5), "6 spent, 3 running"
    assert budget.reached() == "--max-cost"
    budget.ended("b", 0.0)
    assert not budget.begin("d", 60, 0.1), "once something was held back nothing is begun"


def test_an_attempt_that_is_tried_again_is_counted_once_more_and_one_that_was_killed_as_expected():
    budget = Budget(Limits(cost=10.0), spent=0.0, begun_s=0.0, clock=lambda: 0.0)
    assert budget.begin("a", 60, 4.0)
    assert budget.begin("a", 60, 4.0), "by another process: the one before is gone"
    budget.ended("a")
    assert budget.begin("b", 60, 6.0)
    assert not budget.begin("c", 60, 0.1)


def test_nothing_is_begun_that_would_end_too_late():
    now_s = [100.0]
    budget = Budget(Limits(hours=1.0), spent=99.0, begun_s=100.0, clock=lambda: now_s[0])
    assert budget.begin("a", HOUR_S, 1.0)
    now_s[0] += HOUR_S / 2
    assert budget.begin("b", HOUR_S / 2, 1.0)
    assert not budget.begin("c", HOUR_S / 2 + 1, 1.0)
    assert budget.reached() == "--max-hours"


def test_where_not_even_the_next_trial_may_begin_nothing_is_started_and_no_gpu_asked_for(
    made_config: Callable[..., SweepConfig], begun_sweep: Callable[..., Path], tmp_path: Path
):
    naive = [{"strategy": "naive", "backends": "vllm", "max_batch_size": 4}]
    config = made_config(strategies=naive, price_per_gpu_hour=HOUR_S)  # a second costs 1
    root = begun_sweep(config, tmp_path, done=3)
    nowhere = Where(address="127.0.0.1:1")
    outcome = run_sweep(config, str(root), print, where=nowhere, limits=Limits(cost=3 * 9.0 + 20))
    assert (outcome.stopped_at, outcome.done, outcome.planned, outcome.ran) == ("--max-cost", 3, 4, 0)
    assert outcome.findings.spent.cost == 3 * 9.0
    outcome = run_sweep(config, str(root), print, where=nowhere, limits=Limits(hours=0.001))
    assert outcome.stopped_at == "--max-hours"


def test_a_limit_of_cost_needs_a_price_for_whatever_is_used(made_config: Callable[..., SweepConfig]):
    limit = Limits(cost=1.0)
    with pytest.raises(ConfigError, match=r"price_per_gpu_hour: is missing: --max-cost needs the price"):
        limit.check(made_config())
    Limits(hours=1.0).check(made_config())
    limit.check(made_config(price_per_gpu_hour=1))
    limit.check(made_config(price_per_gpu_hour={"A10G": 1}, accelerator="A10G"))
    with pytest.raises(ConfigError, match=re.escape("give price_per_gpu_hour a number, or `any`")):
        limit.check(made_config(price_per_gpu_hour={"A10G": 1}))
