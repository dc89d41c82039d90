"""The page in Chromium: nothing is loaded, everything is drawn, the controls work, the numbers agree."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from results.definitions import DEFINITIONS
from results.findings import Findings, Guide
from results.report import theme
from results.report.page import write_page
from results.report.series import series_of
from results.store import Store
from results.summary import find

pytest.importorskip("selenium", reason="needs selenium")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from tests.chromium import DEADLINE_S, OVERLAPS, overflow_px, show, until
from tests.plotly_texts import texts

pytestmark = pytest.mark.browser
COMPARED = "steady_throughput_tokens_per_s"
SETTING = {"strategy", "backend", "rate", "repeat", "repeats", "max_batch_size"}
COMPARISON = {"metric", "latency", "base", "other", "from", "to"}
REQUEST = {"requests", "request", "slot", "phase", "begin", "end", "status", "planned arrival", "batch"}
NO_METRIC = SETTING | COMPARISON | REQUEST | {"prompt tokens", "output tokens"}


def test_it_opens_without_errors_or_requests(browser: Any, page: Path) -> None:
    browser.get_log("performance")
    browser.get_log("browser")
    show(browser, page)
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    assert browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert page.as_uri() in asked
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def test_every_figure_is_drawn_with_its_marks(browser: Any, page: Path) -> None:
    show(browser, page)
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('[data-chart]')].map(e => ["
        "e.closest('[data-panel]').id, e.querySelectorAll('path.point, .point path, .js-line, .hm image').length,"
        "e.getBoundingClientRect().width, e.getAttribute('aria-label').length])"
    )
    assert [name for name, *_ in drawn] == [
        "throughput", "latency", "goodput", "tradeoff", *["changes"] * 4, *["knobs"] * 2, "pareto", "splits",
        *["batches"] * 2, "timelines", "closeup", *["distributions"] * 3, "slots",
    ]  # fmt: skip
    for name, marks, width_px, summary in drawn:
        assert marks > 0, name
        assert width_px > 300, name
        assert summary > 40, name


def test_only_a_point_with_an_interval_has_a_bar(
    browser: Any, page: Path, findings: Findings, made_store: Store, tmp_path: Path
) -> None:
    """A bar of no length is a dash that makes a hollow marker look like one with a dot."""
    bars = (
        "return [...document.querySelectorAll('#curves [data-chart], #changes [data-chart]')]"
        ".map(e => e.querySelectorAll('path.yerror').length)"
    )
    show(browser, page)
    assert all(count > 0 for count in browser.execute_script(bars))
    bare = replace(
        findings,
        changes=tuple(
            replace(one, low=None, high=None) if one.rate < 30 else one for one in findings.changes
        ),
        cells=tuple(replace(one, trials=one.trials[:1]) if one.rate < 30 else one for one in findings.cells),
    )
    write_page(bare, made_store, tmp_path / "bare.html")
    show(browser, tmp_path / "bare.html")
    settings = len(series_of(findings))
    throughput, _, *compared = browser.execute_script(bars)
    assert throughput == settings
    against_naive = sum(
        "vllm / naive · 8" in (one.base, one.other) and (one.metric, one.rate) == (COMPARED, 30.0)
        for one in findings.changes
    )
    assert compared[0] == against_naive


def test_the_controls_change_the_figure_to_the_numbers_found(
    browser: Any, page: Path, findings: Findings
) -> None:
    show(browser, page)
    article = browser.find_element(By.ID, "latency")
    metric, percentile = (Select(one) for one in article.find_elements(By.TAG_NAME, "select"))
    headings = set()
    for name, statistic in (
        ("ttft_s", "p99"),
        ("e2e_s", "p50"),
        ("delivered_s", "p99"),
        ("queue_wait_s", "p50"),
    ):
        metric.select_by_value(name)
        percentile.select_by_value(statistic)
        expected = [[cell.mean(f"{name}_{statistic}") for cell in one.cells] for one in series_of(findings)]
        until(browser, "return document.querySelector('#latency [data-chart]').data.map(t => t.y)", expected)
        title = browser.execute_script("return document.querySelector('#latency .ytitle').textContent")
        assert statistic in title
        headings.add(article.find_element(By.TAG_NAME, "h3").text)
    assert len(headings) == 4


def test_what_names_a_chart_follows_its_controls(browser: Any, page: Path) -> None:
    show(browser, page)
    named = (
        "return [...document.querySelectorAll('#changes figcaption'),"
        " ...document.querySelectorAll('#changes [data-download=png]')].map(e => e.ariaLabel ?? e.textContent)"
    )
    captions = browser.execute_script(named)
    assert [one for one in captions if "50" in one]
    Select(browser.find_elements(By.CSS_SELECTOR, "#changes select")[1]).select_by_value("p99")
    until(browser, named, [one.replace("50", "99") for one in captions])


def test_choosing_another_base_turns_the_changes_round(browser: Any, page: Path) -> None:
    show(browser, page)
    base = Select(browser.find_element(By.CSS_SELECTOR, "#changes select"))
    ratios = (
        "return document.querySelector('#changes [data-chart]').data"
        ".filter(t => t.meta.series === '{}').map(t => t.y)[0]"
    )
    ahead = browser.execute_script(ratios.format("vllm / continuous · 8"))
    base.select_by_visible_text("continuous · 8 on vllm")
    WebDriverWait(browser, DEADLINE_S).until(
        lambda driver: driver.execute_script(ratios.format("vllm / naive · 8"))
    )
    back = browser.execute_script(ratios.format("vllm / naive · 8"))
    assert [a * b for a, b in zip(ahead, back, strict=True)] == pytest.approx([1, 1, 1])


def test_a_key_of_the_legend_hides_its_series_in_all_figures(browser: Any, page: Path) -> None:
    show(browser, page)
    browser.find_element(By.CSS_SELECTOR, '#curves button[data-series="vllm / naive · 8"]').click()
    until(
        browser,
        "return [...document.querySelectorAll('[data-chart]')].flatMap(e => e.data)"
        ".filter(t => t.meta?.series === 'vllm / naive · 8').map(t => t.visible).every(v => v === false)",
        True,
    )
    pressed = browser.find_elements(By.CSS_SELECTOR, 'button[data-series="vllm / naive · 8"]')
    assert {key.get_attribute("aria-pressed") for key in pressed} == {"false"}


def test_theory_is_drawn_over_what_was_measured_and_switched_off(
    browser: Any, findings: Findings, made_store: Store, tmp_path: Path
) -> None:
    lines = {
        "throughput_tokens_per_s": ((1.0, 14.0), (30.0, 280.0)),
        "ttft_s_p50": ((1.0, 0.02), (20.0, 3.0)),
    }
    guides = tuple(
        Guide(backend=one.backend, setting=one.setting, capacity=20.0, basis="made up", lines=lines)
        for one in series_of(findings)
    )
    write_page(replace(findings, guides=guides), made_store, tmp_path / "guided.html")
    show(browser, tmp_path / "guided.html")
    shown = (
        "return [...document.querySelectorAll('[data-chart]')].flatMap(e => e.data)"
        ".filter(t => t.meta?.theory).map(t => t.visible)"
    )
    on = [True] * 3 * len(guides)  # throughput with its drop at the capacity, and TTFT
    assert browser.execute_script(shown) == on
    browser.find_element(By.CSS_SELECTOR, '#curves button[data-series="theory"]').click()
    until(browser, shown, [not one for one in on])
    browser.find_element(By.CSS_SELECTOR, '#curves button[data-series="theory"]').click()
    until(browser, shown, on)
    browser.find_element(By.CSS_SELECTOR, '#curves button[data-series="vllm / naive · 8"]').click()
    until(browser, f"{shown}.filter(visible => !visible).length", 3)
    assert overflow_px(browser) <= 0
    assert browser.execute_script(OVERLAPS) == []


def test_every_number_of_a_figure_and_what_can_be_chosen_to_draw_explain_themselves(
    browser: Any, page: Path
) -> None:
    """In the tables that scripts fill anew too."""
    show(browser, page)
    headings = browser.execute_script(
        "return [...document.querySelectorAll('[data-panel] th')].map(e => [e.textContent, e.title])"
    )
    assert {name for name, title in headings if not title} <= NO_METRIC
    explained = dict(headings)
    assert explained["goodput"].startswith(DEFINITIONS["goodput_requests_per_s"].formula)
    assert explained["mean batch size"] == DEFINITIONS["batch_size_mean"].said
    assert explained["decode"].startswith("last token − first token")
    unexplained = browser.execute_script(
        "return ['metric', 'measure', 'show', 'latency'].flatMap(one =>"
        "[...document.querySelectorAll(`select[data-control=${one}] option`)].filter(e => !e.title).map(e => e.label))"
    )
    assert unexplained == []
    titles = "return [...document.querySelectorAll('#changes figcaption, #distributions figcaption')].map(e => e.title)"
    assert all(browser.execute_script(titles))


def test_dark_swaps_the_colours_of_page_and_figures(browser: Any, page: Path) -> None:
    colour = "return document.querySelector('#latency [data-chart]').data[0].line.color"
    ground = "return getComputedStyle(document.body).backgroundColor"
    show(browser, page)
    light = (browser.execute_script(colour), browser.execute_script(ground))
    show(browser, page, scheme="dark")
    dark = (browser.execute_script(colour), browser.execute_script(ground))
    assert dark[0] == theme.DARK[light[0]]
    assert dark[1] != light[1]


@pytest.mark.parametrize("width_px", [800, 1400])
def test_nothing_overflows_and_no_labels_of_an_axis_overlap(browser: Any, page: Path, width_px: int) -> None:
    show(browser, page, width_px)
    assert overflow_px(browser) <= 0
    assert browser.execute_script(OVERLAPS) == []
    crossed = (
        "const left = document.querySelector('#splits .nsewdrag').getBoundingClientRect().left;"
        "return [...document.querySelectorAll('#splits .ytick text')].map(e => e.getBoundingClientRect().right > left)"
    )
    assert set(browser.execute_script(crossed)) == {False}  # no line of the plot strikes through a label
    assert (
        browser.execute_script("return document.querySelectorAll('#splits :is(.bartext, .textpoint)').length")
        == 0
    )
    beyond = "const e = document.querySelector('#trials').parentElement; return e.scrollWidth - e.clientWidth"
    assert width_px < 1400 or browser.execute_script(beyond) <= 0  # on a narrow page it scrolls


def test_the_data_of_a_figure_and_the_list_of_trials_open(
    browser: Any, page: Path, findings: Findings
) -> None:
    show(browser, page)
    details = browser.find_element(By.CSS_SELECTOR, "#latency details.data")
    details.find_element(By.TAG_NAME, "summary").click()
    rows = details.find_elements(By.CSS_SELECTOR, "tbody tr")
    assert len(rows) == len(findings.cells)
    assert rows[0].is_displayed()
    browser.find_element(By.ID, "only-marked").click()
    shown = [r for r in browser.find_elements(By.CSS_SELECTOR, "#trials tbody tr") if r.is_displayed()]
    assert len(shown) == sum(bool(trial.verdicts) for trial in findings.trials)


def test_markup_in_names_is_shown_and_not_run(
    browser: Any, findings: Findings, made_store: Store, tmp_path: Path
) -> None:
    evil = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
    hostile = replace(
        findings,
        sweep={"name": evil, "config": evil},
        cells=tuple(replace(c, setting=evil) if c.strategy == "naive" else c for c in findings.cells),
        sentences=tuple(replace(s, text=evil) for s in findings.sentences),
    )
    write_page(hostile, made_store, tmp_path / "evil.html")
    show(browser, tmp_path / "evil.html")
    assert browser.title == f"{evil} · batchyard"
    assert browser.execute_script("return document.images.length") == 0
    assert evil in browser.find_element(By.ID, "answer").text
    assert evil in browser.find_element(By.ID, "curves").text
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('[data-chart]')].map(e => JSON.stringify([e.data, e.layout]))"
    )
    read = [text for chart in drawn for text in texts(json.loads(chart))]
    assert [text for text in read if "<img" in text] == []
    assert any("&lt;img" in text for text in read)
    for figure in ("latency", "pareto", "batches", "timelines", "slots"):
        rows = browser.find_element(By.CSS_SELECTOR, f"#{figure} details.data tbody")
        assert evil in rows.get_property("textContent"), figure


def test_a_page_with_nothing_done_opens_without_errors(browser: Any, tmp_path: Path) -> None:
    store = Store(tmp_path / "empty")
    store.write_sweep({"name": "begun", "planned_cells": 12})
    write_page(find(store), store, tmp_path / "empty.html")
    browser.get_log("browser")
    show(browser, tmp_path / "empty.html")
    assert browser.find_element(By.TAG_NAME, "h1").text == "Nothing measured yet"
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_every_control_is_reached_by_tab_with_a_visible_focus_and_every_figure_is_told_in_text(
    browser: Any, page: Path
) -> None:
    show(browser, page)
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)  # from here on focus is shown
    unseen = browser.execute_script("""
      const controls = [...document.querySelectorAll('a[href], button, select, input, summary, .scroll')];
      const usable = controls.filter(e => !e.disabled && e.checkVisibility() && !e.closest('fieldset'));
      return [usable.length, usable.filter(e => {
        e.focus();
        const { outlineStyle, outlineWidth } = getComputedStyle(e);
        return e.tabIndex < 0 || document.activeElement !== e || outlineStyle === 'none' || parseFloat(outlineWidth) < 2;
      }).map(e => e.outerHTML.slice(0, 120))];
    """)
    assert unseen[0] > 60
    assert unseen[1] == []
    untold = browser.execute_script("""
      return [...document.querySelectorAll('[data-panel]')].filter(article =>
        !article.querySelector('details.data tbody tr')
        || [...article.querySelectorAll('[data-chart]')].some(e => e.getAttribute('role') !== 'img' || e.ariaLabel.length < 20)
      ).map(article => article.id);
    """)
    assert untold == []
