"""Figures of the knobs, over time and of one trial in Chromium: each control changes what it says, by the store's numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from results.findings import Findings
from results.metrics import column
from results.report import closeup, knobs, numbers, timeline, timelines
from results.report.series import series_of
from results.report.trial_rows import TrialRows, most_at_once
from results.store import Store

pytest.importorskip("selenium", reason="needs selenium")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from tests.chromium import OVERLAPS, overflow_px, show, until

pytestmark = pytest.mark.browser
PANELS = ("knobs", "pareto", "timelines", "closeup", "distributions", "slots")


@pytest.fixture(scope="module")
def opened(browser: Any, page: Path) -> Any:
    """The page, opened once: each test has panels of its own."""
    show(browser, page)
    return browser


def select(browser: Any, panel: str, control: str) -> Select:
    return Select(browser.find_element(By.CSS_SELECTOR, f'#{panel} select[data-control="{control}"]'))


def heading(browser: Any, panel: str) -> str:
    text: str = browser.find_element(By.CSS_SELECTOR, f"#{panel} h3").text
    return text.replace("\u00a0", " ")


def test_a_heatmap_shows_the_means_of_the_chosen_rate_and_metric(opened: Any, findings: Findings) -> None:
    settings = [one for one in knobs.settings_of(series_of(findings)) if one.series.place == "huggingface"]
    shown = "return document.querySelectorAll('#knobs [data-chart]')[1].data[0].text.flat().map(t => t.split('<br>')[0].replace(/<.?b>/g, ''))"
    for rate, label, name in ((1.0, "p99 TTFT (s)", "ttft_s_p99"), (5.0, "p50 held (s)", "held_s_p50")):
        select(opened, "knobs", "arrival rate").select_by_visible_text(f"{rate:g} req/s")
        select(opened, "knobs", "metric").select_by_visible_text(label)
        cells = [one.series.at(rate) for one in settings]
        values = [cell.mean(name) if cell else None for cell in cells]
        until(opened, shown, [numbers.duration(value) for value in values])
        assert f"at {rate:g} req/s" in heading(opened, "knobs")
    select(opened, "knobs", "metric").select_by_visible_text("padding waste (ratio)")
    words = "return document.querySelector('#knobs [data-chart]').textContent"  # vllm pads nothing
    until(opened, words, "No such value at 5 req/s")


def test_the_front_follows_rate_and_latency(opened: Any, findings: Findings) -> None:
    select(opened, "pareto", "arrival rate").select_by_visible_text("1 req/s")
    select(opened, "pareto", "latency").select_by_visible_text("p99 E2E latency")
    expected = sorted(
        [cell.mean("steady_throughput_tokens_per_s"), cell.mean("e2e_s_p99")]
        for one in series_of(findings)
        if (cell := one.at(1.0)) is not None
    )
    until(
        opened,
        "return document.querySelector('#pareto [data-chart]').data.filter(t => t.mode !== 'lines')"
        ".map(t => [t.x[0], t.y[0]]).sort((a, b) => a[0] - b[0] || a[1] - b[1])",
        expected,
    )
    assert "At 1 req/s" in heading(opened, "pareto")


def test_queues_over_time_reach_what_the_stamps_say(
    opened: Any, findings: Findings, made_store: Store
) -> None:
    select(opened, "timelines", "arrival rate").select_by_visible_text("30 req/s")
    select(opened, "timelines", "repeat").select_by_visible_text("2")
    for label, place in (("queue length", "waiting"), ("finished and held", "held")):
        select(opened, "timelines", "show").select_by_visible_text(label)
        most = {
            series.name: most_at_once(TrialRows.read(made_store, series, summary).stays()[place])
            for series, summary in timelines.chosen_of(series_of(findings))
            if (summary.trial.rate, summary.trial.repeat) == (30.0, 1)
        }
        until(
            opened,
            "return document.querySelector('#timelines h3').textContent.includes("
            f"'repeat 2') && document.querySelector('#timelines .ytitle').textContent === '{timeline.QUANTITIES[place].axis}'",
            True,
        )
        assert f" {max(most.values())} with " in heading(opened, "timelines")
        assert f" {min(most.values())} with " in heading(opened, "timelines")
    names = "return document.querySelector('#timelines [data-chart]').data.map(t => t.name)"
    assert opened.execute_script(names) == list(most)


def test_the_bars_of_a_trial_are_its_requests(opened: Any, findings: Findings, made_store: Store) -> None:
    chosen = closeup.chosen_of(series_of(findings))
    number, (series, summary) = next(
        (n, one) for n, one in enumerate(chosen) if one[0].key == "huggingface / dynamic · 8 · 50 ms"
    )
    select(opened, "closeup", "trial").select_by_value(str(number))
    requests = TrialRows.read(made_store, series, summary).requests
    held_s = column(requests, "returned_s") - column(requests, "last_token_s")
    lengths = (
        "return document.querySelector('#closeup [data-chart]').data.filter(t => t.name === 'held')"
        ".flatMap(t => t.x).reduce((sum, x) => sum + x, 0)"
    )
    until(
        opened, "return document.querySelector('#closeup h3').textContent.includes('50\u00a0ms') || "
        "document.querySelector('#closeup h3').textContent.includes('50 ms')", True
    )  # fmt: skip
    assert opened.execute_script(lengths) == pytest.approx(held_s.sum(), abs=1e-4 * len(held_s))
    assert "dynamic · 8 · 50 ms on huggingface" in heading(opened, "closeup")
    rows = opened.execute_script("return document.querySelectorAll('#closeup details.data tbody tr').length")
    assert rows == requests.num_rows
    frames = "return document.querySelector('#closeup [data-chart]').data.find(t => t.name === 'batch').x.length / 6"
    assert opened.execute_script(frames) == sum(summary.batch_sizes.values())


def test_half_of_the_requests_of_a_distribution_took_no_longer_than_the_median(
    opened: Any, findings: Findings
) -> None:
    select(opened, "distributions", "arrival rate").select_by_visible_text("1 req/s")
    until(opened, "return document.querySelector('#distributions h3').textContent.includes('1 req/s')", True)
    medians = {
        one.key: [summary.metrics[f"{name}_p50"] for name in ("ttft_s", "e2e_s", "queue_wait_s")]
        for one, summary in closeup.chosen_of(series_of(findings))
        if summary.trial.rate == 1.0
    }
    drawn = opened.execute_script(
        "return [...document.querySelectorAll('#distributions [data-chart]')].map(e => "
        "Object.fromEntries(e.data.map(t => [t.meta.series, [t.x, t.y]])))"
    )
    for place, of_metric in enumerate(drawn):
        assert set(of_metric) == set(medians)
        for key, (x, y) in of_metric.items():
            median = medians[key][place]
            assert median is not None
            near = 0.02 + 0.05 * median  # a step of the curve
            assert np.interp(50.0, y, x) == pytest.approx(median, abs=near), (key, place)


def test_the_player_covers_what_comes_later_and_is_used_by_keyboard(opened: Any) -> None:
    covers = (
        "return [...document.querySelectorAll('#slots .later')].filter(e => !e.hidden)"
        ".map(e => Math.round(e.getBoundingClientRect().width))"
    )
    whole = opened.execute_script(
        "return [...document.querySelectorAll('#slots .nsewdrag')].map(e => Math.round(e.getBoundingClientRect().width))"
    )
    slider = opened.find_element(By.CSS_SELECTOR, "#slots [data-extra] input")
    said = opened.find_element(By.CSS_SELECTOR, "#slots output")
    assert said.text == "the whole trial"
    assert opened.execute_script(covers) == []
    slider.send_keys(Keys.HOME)
    until(opened, covers, whole)
    assert said.text.count(" 0 returned") == len(whole)
    play, back, on = opened.find_elements(By.CSS_SELECTOR, "#slots button.play")
    on.send_keys(Keys.ENTER)
    until(opened, f"const [px] = (() => {{ {covers} }})(); return 0 < px && px < {whole[0]}", True)
    back.send_keys(Keys.ENTER)
    until(opened, covers, whole)
    play.send_keys(Keys.ENTER)
    until(opened, f"const [px] = (() => {{ {covers} }})(); return px < 0.97 * {whole[0]}", True)
    assert play.text == "Pause"
    play.send_keys(Keys.ENTER)
    assert play.text == "Play"
    features = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    until(opened, "return document.querySelector('#slots button.play').disabled", True)


def test_a_hidden_setting_leaves_every_figure(opened: Any) -> None:
    key = "vllm / continuous · 8"
    opened.execute_script(f"document.querySelector('#timelines button[data-series=\"{key}\"]').click()")
    shown = (
        "return [...document.querySelectorAll('#pareto [data-chart], #timelines [data-chart], #distributions [data-chart]')]"
        f".flatMap(e => e.data).filter(t => t.meta?.series === '{key}' && t.visible !== false).length"
    )
    until(opened, shown, 0)
    titles = "return document.querySelector('#slots [data-chart]').layout.annotations.map(a => a.text)"
    until(opened, f"{titles}.filter(text => text.includes('continuous')).length", 0)


def test_they_are_drawn_without_errors_on_a_narrow_dark_page(browser: Any, page: Path) -> None:
    browser.get_log("browser")
    show(browser, page, 800, "dark")
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    assert overflow_px(browser) <= 0
    assert browser.execute_script(OVERLAPS) == []
    for name in PANELS:
        marks = browser.execute_script(
            f"return document.querySelectorAll('#{name} [data-chart] :is(.point, .js-line, .hm image)').length"
        )
        assert marks > 0, name
