"""Theory over measured curves: where its lines go, and that a page without it has none."""

from dataclasses import replace

import pytest

from results.findings import Findings, Guide
from results.report import curves, theory
from results.report.page import render
from results.store import Store
from results.summary import find

GUIDE = Guide(
    backend="vllm",
    setting="continuous · 8",
    capacity=20.0,
    basis="made up",
    lines={
        "throughput_tokens_per_s": ((1.0, 14.0), (20.0, 280.0), (30.0, 280.0)),
        "ttft_s_p50": ((1.0, 0.02), (19.0, 3.0)),
    },
)
KEY = "vllm / continuous · 8"


@pytest.fixture(scope="module")
def guided(made_store: Store) -> Findings:
    return replace(find(made_store), guides=(GUIDE, replace(GUIDE, setting="not measured")))


def drawn(panel, view):
    traces = panel.views[view].charts[0].figure.data
    return [trace for trace in traces if (trace.meta or {}).get(theory.KEY)]


def test_lines_are_thin_and_in_the_colour_of_their_setting(guided):
    line, drop = drawn(curves.throughput(guided), "throughput_tokens_per_s")
    measured = next(
        trace
        for trace in curves.throughput(guided).views["throughput_tokens_per_s"].charts[0].figure.data
        if (trace.meta or {}).get("series") == KEY and theory.KEY not in trace.meta
    )
    assert line.meta == drop.meta == {"series": KEY, "theory": True}
    assert list(zip(line.x, line.y, strict=True)) == list(GUIDE.lines["throughput_tokens_per_s"])
    assert (line.line.color, line.line.dash) == (measured.line.color, measured.line.dash)
    assert line.line.width < measured.line.width
    assert list(zip(drop.x, drop.y, strict=True)) == [(20.0, 0.0), (20.0, 280.0)]
    steady = drawn(curves.throughput(guided), "steady_throughput_tokens_per_s")  # the same theory
    assert [list(one.y) for one in steady] == [list(line.y), list(drop.y)]


def test_a_capacity_beyond_the_rates_drops_no_line(guided):
    far = replace(guided, guides=(replace(GUIDE, capacity=99.0),))
    assert len(drawn(curves.throughput(far), "throughput_tokens_per_s")) == 1


def test_each_latency_has_its_own_guide_and_others_none(guided):
    panel = curves.latency(guided)
    (line,) = drawn(panel, "ttft_s|p50")
    assert list(line.y) == [0.02, 3.0]
    assert "ρ = 0.95" in line.text[1]
    assert drawn(panel, "ttft_s|p99") == drawn(panel, "tpot_s|p50") == []


def test_the_page_offers_to_switch_theory_off_only_where_there_is_some(guided, made_store):
    assert render(guided, made_store).count('data-series="theory"') == 1
    assert "Step times of vllm: made up." in render(guided, made_store)
    plain = render(replace(guided, guides=()), made_store)
    assert 'data-series="theory"' not in plain
    assert "Thin lines" not in plain


def test_markup_in_names_is_escaped_in_what_the_pointer_shows(guided):
    cells = tuple(
        replace(cell, setting="<b>") if cell.setting == "continuous · 8" else cell for cell in guided.cells
    )
    evil = replace(guided, cells=cells, guides=(replace(GUIDE, setting="<b>"),))
    (line,) = drawn(curves.latency(evil), "ttft_s|p50")
    assert "<b>&lt;b&gt;</b>" in line.text[0]
    assert "&lt;b&gt;" in line.name
