"""Every number and verdict has its formula: in the table of trials, in the figures, on the page and in the docstrings."""

from types import ModuleType
from typing import get_args

import pyarrow as pa
import pytest

from results import bandwidth, conservation, drift, goodput, metrics, verdicts, windows
from results.definitions import DEFINITIONS, RULES
from results.findings import VerdictName
from results.goodput import MEASURES, Slo
from results.records import METRICS
from results.report import glossary, trust
from results.store import Store
from results.summary import find
from results.trial_table import TRIALS

# What says how a trial was run is no metric: settings, facts and provenance are in the columns before these two.
FIRST_METRIC = TRIALS.get_field_index("verdicts") + 1
OF_A_TRIAL = [field for field in list(TRIALS)[FIRST_METRIC:] if field.name != "goodput"]
SLO = Slo(ttft_ms=500, e2e_ms=2_000)
NO_METRIC = {"strategy", "backend", "rate", "repeat", "requests"}


@pytest.mark.parametrize("field", [*OF_A_TRIAL, *METRICS], ids=lambda field: field.name)
def test_a_metric_of_a_trial_or_a_request_has_a_formula_and_the_column_says_it_or_whose_it_is(
    field: pa.Field,
):
    metric, statistic = glossary.metric_of(field.name)
    assert metric.formula, f"{field.name} has none in results/definitions.py"
    assert metric.plain
    said = field.metadata[b"description"].decode()
    assert metric.name in said if statistic else said == metric.said


def test_every_metric_that_a_sweep_finds_has_a_formula(made_store: Store):
    found = {name for one in find(made_store).trials for name in one.metrics}
    assert len(found) > 50
    without = {name for name in found if not glossary.metric_of(name)[0].formula}
    assert not without, f"no formula in results/definitions.py: {sorted(without)}"


def test_every_metric_that_a_figure_draws_has_one():
    drawn = (*glossary.METRICS, *glossary.goodputs([SLO]))
    assert {one.key.partition("@")[0] for one in drawn} >= set(MEASURES)
    for metric in drawn:
        assert metric.formula
        assert metric.plain
    assert all(glossary.formula_of(metric.name) for metric in glossary.METRICS)


def test_every_number_in_the_page_s_table_of_trials_says_its_formula_where_one_points():
    without = {name for name in trust._COLUMNS if not glossary.formula_of(name)}
    assert without <= NO_METRIC, "a new column needs a formula in results/report/glossary.py"


@pytest.mark.parametrize(
    ("heading", "key"),
    [
        ("mean batch size", "batch_size_mean"),
        ("mean TTFT", "ttft_s"),
        ("p50 TTFT", "ttft_s"),
        ("queue wait p99", "queue_wait_s"),
        ("tokens/s at 23 req/s", "steady_throughput_tokens_per_s"),
        ("goodput in tokens within E2E ≤ 4 s", "goodput_tokens_per_s"),
        ("share within E2E ≤ 4 s", "goodput_share"),
    ],
)
def test_a_heading_says_the_formula_of_its_own_metric(heading: str, key: str):
    assert glossary.formula_of(heading) == DEFINITIONS[key].said


def test_every_verdict_says_its_rule_with_the_numbers_that_it_goes_by():
    names = set(get_args(VerdictName))
    assert names == RULES.keys() == glossary.VERDICTS.keys()
    for name, meaning in glossary.VERDICTS.items():
        assert meaning.endswith(f"Rule: {RULES[name]}.")
    numbers = f"fewer than {verdicts.FEWEST_ARRIVALS} arrivals or {verdicts.FEWEST_BATCHES} batches"
    assert RULES["too-short"] == numbers
    assert f"> {100 * drift.LIMIT:g} %" in RULES["drifted"]


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (metrics, [field.name for field in METRICS]),
        (goodput, ["share", "requests/s", "tokens/s"]),
        (windows, ["Σ_{i>d} (z_i − mean of those)² ÷ (m − d)²"]),
        (bandwidth, [DEFINITIONS["bandwidth_utilisation"].formula.partition(",")[0]]),
        (conservation, ["L = λ·W", "E2E = TTFT + (n_out − 1)·TPOT"]),
        (verdicts, ["slope", "max(0.02, 2 ÷ √n)", "1 % of", "5 % of"]),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_the_module_that_computes_it_begins_with_the_formula(module: ModuleType, names: list[str]):
    assert module.__doc__ is not None
    said = " ".join(module.__doc__.split())
    missing = [name for name in names if " ".join(name.split()) not in said]
    assert not missing, f"{module.__name__} does not say {missing}"
