"""experiments/configs/memory.yaml in virtual time: what it is there to show, in its rows and on its page."""

from pathlib import Path

import pytest

from experiments.config import load, parse
from experiments.explain.basis import bases
from experiments.simulation.run import run_simulation
from experiments.simulation.simulation import Simulation
from results.findings import Findings
from results.read import read
from results.report import memory, padding
from results.report.panel import Panel
from results.store import Store
from results.summary import find

CONFIG = Path(__file__).parents[3] / "experiments/configs/memory.yaml"
FIFO, LENGTH = "dynamic · 8 · 500 ms", "dynamic · 8 · 500 ms · length"
BUDGET_TOKENS, LIMIT_TOKENS = 651, 12
OVERLOADS = 40  # requests/s, for the step times of the simulated engine


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    config = parse({**load(CONFIG).as_written, "arrival_rate": [2, OVERLOADS]}, str(CONFIG))
    simulation = Simulation.of(config, bases(config), repeats=2)
    where = simulation.root(tmp_path_factory.mktemp("memory"))
    run_simulation(simulation, where, lambda text: None)
    return where


@pytest.fixture(scope="module")
def findings(root: str) -> Findings:
    return find(Store(root))


def test_memory_launches_batches_and_none_is_larger_than_the_budget_unless_it_is_one_request(root: str):
    batches = [one for one in read(root).batches.to_pylist() if one["kind"] == "batch"]
    assert {one["setting"] for one in batches if one["trigger"] == "memory"} == {FIFO, LENGTH}
    for one in batches:
        taken = one["size"] * (one["longest_prompt_tokens"] + LIMIT_TOKENS)
        assert one["size"] == 1 or taken <= BUDGET_TOKENS


def test_order_by_length_pads_less_than_a_tenth_and_keeps_its_bound(findings: Findings):
    of = {cell.setting: cell for cell in findings.cells if cell.rate == OVERLOADS}
    assert (of[LENGTH].mean("padding_waste") or 0) < (of[FIFO].mean("padding_waste") or 0) / 10
    skips = [trial.padded.most_skips for trial in of[LENGTH].trials if trial.padded is not None]
    assert len(skips) == 2
    assert all(most is not None and 0 < most <= 10 for most in skips)
    assert all(trial.padded is not None and trial.padded.most_skips is None for trial in of[FIFO].trials)


def test_the_page_states_what_memory_and_order_did(findings: Findings):
    caps, wastes = memory.panel(findings), padding.panel(findings)
    assert isinstance(caps, Panel)
    assert isinstance(wastes, Panel)
    assert caps.first.heading.startswith("Memory launched 9")
    assert "at 40 req/s" in caps.first.heading
    by_memory = caps.first.charts[0].figure.data[-1]
    assert by_memory.name == "launched by memory"
    assert max(by_memory.y) < 8
    assert wastes.first.heading == (
        f"Padding is 0 % of the prompt slots with {LENGTH} instead of 33 % with {FIFO} "
        "on simulated huggingface (no measurement) at 40 req/s"
    )
    fifo, length = wastes.first.charts[0].figure.data
    assert [sum(fifo.y), sum(length.y)] == pytest.approx([100, 100])
    assert length.y[0] > 90 > fifo.y[0], "nearly all of its batches are of one length"
    skipped = [tuple(map(str, row[-2:])) for row in wastes.table.rows]
    assert skipped == [("–", "–"), ("–", "–"), ("0", "10"), ("6", "10")]
